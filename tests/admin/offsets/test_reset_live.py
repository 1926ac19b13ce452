"""Plans and previews on our broker and on Apache's, from the same logs and commits."""

from __future__ import annotations

from typing import Any

from kcli.admin.offsets.commits import commit_offsets
from kcli.admin.offsets.offset_plan import (
    ABSENT,
    WHOLE_TOPIC,
    FirstRecord,
    FromOffsets,
    Row,
    Scope,
    ShiftBy,
    Target,
    plan_reset,
)
from kcli.admin.offsets.preview import Preview, preview
from kcli.admin.offsets.reset import gather_facts
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.log_place import LOG_END, LOG_START, Place
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.admin.groups.test_groups_live import asking, commit, member, soon
from tests.real_kafka import Kafka

START_MS = 1_700_000_000_000
OLD_RECORDS = {"retention.ms": -1}


def fill(kafka: Kafka, topic: str, partition: int, count: int, value: bytes = b"v" * 100) -> None:
    """Write records: record n has the key `key n` and a time of n minutes after START_MS."""
    producer = kafka.ordered_producer()
    for number in range(count):
        at_ms = START_MS + number * 60_000
        producer.produce(topic, value, key=f"key {number}", partition=partition, timestamp=at_ms)
    assert producer.flush(20) == 0


def planned(kafka: Kafka, group: str, target: Target, scope: Scope = None, **options: Any) -> list[Row]:
    with asking(kafka) as client:
        found = gather_facts(client, [group], scope, target, soon(client))
    assert not found.errors
    return plan_reset(group, found.values[group].partitions, target, **options)


def shown(kafka: Kafka, rows: list[Row]) -> Preview:
    with asking(kafka) as client:
        return preview(client, rows, soon(client))


def test_a_reset_to_a_time_has_first_records_and_sizes(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(3, **OLD_RECORDS), any_kafka.new_name("g")
    t0, t1, t2 = (TopicPartition(topic, number) for number in range(3))
    fill(any_kafka, topic, 0, 40)
    fill(any_kafka, topic, 1, 10)
    commit(any_kafka, group, {t0: 35, t1: 2})
    target = Place.time(START_MS + 8 * 60_000 - 1)
    rows = planned(any_kafka, group, target)
    assert [(row.tp, row.action, row.new and row.new.offset, row.reread, row.skipped) for row in rows] == [
        (t0, "move", 8, 27, 0),
        (t1, "move", 8, 0, 6),
        (t2, "refuse", None, 0, 0),
    ]
    assert [row.why for row in rows[1:]] == [
        "first record at or after 2023-11-14T22:21:19.999Z",
        "no record at or after 2023-11-14T22:21:19.999Z; see --if-no-record; no committed offset before",
    ]
    previewed = shown(any_kafka, rows)
    assert not previewed.errors
    assert [row.first for row in previewed.rows] == [
        FirstRecord(8, START_MS + 8 * 60_000, b"key 8", 5),
        FirstRecord(8, START_MS + 8 * 60_000, b"key 8", 5),
        None,
    ]
    assert 27 * 100 <= (previewed.rows[0].bytes or 0) <= 27 * 200
    assert 6 * 100 <= (previewed.rows[1].bytes or 0) <= 6 * 200


def test_resets_to_log_ends_by_shifts_and_to_offsets(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(1, **OLD_RECORDS), any_kafka.new_name("g")
    t0 = TopicPartition(topic, 0)
    fill(any_kafka, topic, 0, 10)
    commit(any_kafka, group, {t0: 4})

    def outcome(target: Target, **options: Any) -> tuple[str, int | None, str]:
        (row,) = planned(any_kafka, group, target, **options)
        return row.action, row.new.offset if row.new else None, row.why

    assert outcome(LOG_START) == ("move", 0, "log start")
    assert outcome(LOG_END) == ("move", 10, "log end")
    assert outcome(ShiftBy(3)) == ("move", 7, "shifted by +3")
    assert outcome(Place.offset(11)) == ("refuse", None, "11 is after the log end 10; see --if-out-of-range")
    assert outcome(Place.offset(11), if_out_of_range="clamp") == ("move", 10, "clamped from 11 to the log end 10")
    (latest,) = shown(any_kafka, planned(any_kafka, group, LOG_END)).rows
    assert latest.first is None
    assert 6 * 100 <= (latest.bytes or 0) <= 6 * 200


def test_offsets_of_another_group_keep_leader_epoch_and_metadata(any_kafka: Kafka) -> None:
    topic, group, source = any_kafka.new_topic(2, **OLD_RECORDS), any_kafka.new_name("g"), any_kafka.new_name("source")
    t0, t1 = TopicPartition(topic, 0), TopicPartition(topic, 1)
    fill(any_kafka, topic, 0, 10)
    with asking(any_kafka) as client:
        theirs = {t0: OffsetAndMetadata(6, 0, "theirs"), t1: OffsetAndMetadata(0, -1, "")}
        assert not any(commit_offsets(client, source, theirs, soon(client)).values())
        found = gather_facts(client, [source], None, LOG_START, soon(client)).values[source]
    offsets = {(None, fact.tp): fact.committed for fact in found.partitions if fact.committed is not None}
    rows = planned(any_kafka, group, FromOffsets(offsets, f"group {source}"))
    assert [(row.new, row.action) for row in rows] == [(theirs[t0], "move"), (theirs[t1], "move")]


def test_missing_groups_have_a_state_and_missing_partitions_have_rows(any_kafka: Kafka) -> None:
    topic, live, absent = any_kafka.new_topic(), any_kafka.new_name("live"), any_kafka.new_name("absent")
    scope = {topic: [0, 5], "no-such-topic": None}
    with member(any_kafka, live, topic), asking(any_kafka) as client:
        found = gather_facts(client, [live, absent], scope, LOG_START, soon(client))
    assert {name: facts.state for name, facts in found.values.items()} == {live: "Stable", absent: ABSENT}
    rows = plan_reset(absent, found.values[absent].partitions, LOG_START)
    assert [(row.tp, row.action) for row in sorted(rows, key=lambda row: row.key)] == [
        (TopicPartition("no-such-topic", WHOLE_TOPIC), "refuse"),
        (TopicPartition(topic, 0), "move"),
        (TopicPartition(topic, 5), "refuse"),
    ]
    for row in rows:
        if row.action == "refuse":
            assert isinstance(row.error, BrokerError)
            assert row.error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_kip848_group_with_members_is_not_idle(any_kafka: Kafka) -> None:
    """DescribeGroups returns the state Dead for such a group (KIP-848)."""
    topic, group = any_kafka.new_topic(), any_kafka.new_name("g")
    with member(any_kafka, group, topic, group_protocol="consumer"), asking(any_kafka) as client:
        facts = gather_facts(client, [group], {topic: None}, LOG_START, soon(client)).values[group]
    assert facts.group is not None
    assert facts.group.type == "consumer"
    assert facts.group.members
    assert facts.state not in ("Dead", "Empty", ABSENT)
