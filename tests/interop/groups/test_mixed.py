"""kcli, kcat, confluent-kafka and Java in one group: kcli leads the group, or follows another leader."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from kcli.structs import TopicPartition
from tests.interop.clients.test_confluent_groups import fill
from tests.interop.groups.members import MAKERS, MemberProcess
from tests.interop.shapes import wait_until
from tests.real_kafka import Kafka

PARTITIONS = 8


def shared_out(members: Iterable[MemberProcess], topic: str, each: int) -> bool:
    """True if each partition is owned by exactly one member, and each member owns this number."""
    owned = [tp for one in members for tp in one.assigned()]
    whole = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    return sorted(owned) == whole and {len(one.assigned()) for one in members} == {each}


def a_mixed_group(kafka: Kafka, makers: tuple[str, ...], how: dict[str, str]) -> None:
    """The others join the first and share the topic; half of them leave, the rest continues, no record is lost."""
    topic, group = kafka.new_topic(partitions=PARTITIONS), kafka.new_name("group")
    with contextlib.ExitStack() as closing:
        members = []
        for maker in makers:
            members.append(closing.enter_context(MAKERS[maker](kafka, group, topic, **how)))
            if len(members) == 1:
                members[0].wait_assigned(PARTITIONS)
        wait_until(lambda: shared_out(members, topic, PARTITIONS // len(members)), f"equal shares: {members}", 90)
        fill(kafka, topic, range(400), PARTITIONS)
        for one in members:
            one.wait_records(400 // len(members))
        assert sorted(record for one in members for record in one.records()) == [
            (topic, number, offset) for number in range(PARTITIONS) for offset in range(50)
        ]
        leaving, staying = members[: len(members) // 2], members[len(members) // 2 :]
        for one in leaving:
            one.leave()
        wait_until(lambda: shared_out(staying, topic, PARTITIONS // len(staying)), f"their shares: {staying}", 90)
        fill(kafka, topic, range(80), PARTITIONS)
        read = len(staying) * 400 // len(members) + 80
        wait_until(lambda: sum(len(one.records()) for one in staying) >= read, f"{read} records", 90)
        assert sum(len(one.records()) for one in staying) == read, "nothing is read twice: what was left was committed"


def test_kcli_leads_an_eager_group(our_kafka: Kafka) -> None:
    a_mixed_group(our_kafka, ("kcli", "kcat", "confluent", "java"), {"assignor": "range"})


def test_kcli_joins_a_cooperative_group(real_kafka: Kafka) -> None:
    a_mixed_group(real_kafka, ("java", "confluent", "kcat", "kcli"), {"assignor": "cooperative-sticky"})
