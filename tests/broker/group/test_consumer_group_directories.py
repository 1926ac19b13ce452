"""A data directory with consumer groups (KIP-848) goes from Apache Kafka to our broker and back, and is continued.

Descriptions, lists and offsets are compared before and after each change of the broker, all fields. Kafka's dump tool
reads every record of `__consumer_offsets`.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcli.protocol.consumer_group_records import decode_group_record
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.records.batch import walk_batches
from kcli.protocol.records.scan import read_pairs
from tests.broker.group.consumer_groups_harness import ConsumerGroupsSocketHarness, Member
from tests.broker.group.harness import ask
from tests.broker.group.offsets_harness import commit, fetch
from tests.broker.group.scenarios_migration import ClassicMember
from tests.broker_process import BrokerProcess
from tests.interop.test_shared_data_dir import Turns
from tests.real_kafka import KafkaNode

pytestmark = [pytest.mark.slow, pytest.mark.real_kafka]

SETTINGS = {"group.consumer.session.timeout.ms": "60000", "group.consumer.assignment.interval.ms": "0"}
NEXT_GENERATION, CLASSIC = ["shared", "revoking", "mixed", "pattern", "empty"], ["downgraded", "simple"]
# The coordinator is not there yet, or loads.
NOT_YET = (14, 15, 16)
PATIENCE_S = 30
KIND = re.compile(r'"type":"(\d+)"')


def plain(value: Any) -> Any:
    """Return a response as plain values; lists are sorted, because their order differs between brokers."""
    if isinstance(value, list):
        return sorted((plain(one) for one in value), key=repr)
    if hasattr(value, "__annotations__"):
        return {name: plain(getattr(value, name)) for name in value.__annotations__ if name != "throttle_time_ms"}
    return value


class Scene:
    """The groups, and the members that live through the changes of the broker, on their present connections."""

    def __init__(self, address: str) -> None:
        self.harness = ConsumerGroupsSocketHarness(address)
        self.topic = "orders"
        self.members: dict[tuple[str, str], Any] = {}
        self.new_members = 0

    def connect(self, client_id: str = "tester") -> Any:
        return self.harness.connect(client_id)

    def go_on(self, address: str) -> None:
        self.harness.close()
        self.harness = ConsumerGroupsSocketHarness(address)
        for member in self.members.values():
            member.connection = self.harness.connect()

    def member(self, group: str, member_id: str, **fields: Any) -> Member:
        return self.members.setdefault((group, member_id), Member(self.harness, member_id, group, **fields))

    def classic(self, group: str) -> ClassicMember:
        member = ClassicMember(self, "old", group, self.topic)  # type: ignore[arg-type]
        self.members[group, "old"] = member
        return member

    def build(self) -> None:
        self.harness.create_topic(self.topic, 4)
        client = self.connect()
        first, second = self.member("shared", "a"), self.member("shared", "b", instance_id="box")
        first.join([self.topic], rack_id="r1")
        second.join([self.topic], server_assignor="range")
        first.beat(owns=first.beat())
        second.beat()
        assert commit(client, "shared", {self.topic: [(0, 5)]}, member="a", generation=first.epoch)[0][1] == [(0, 0)]
        holder = self.member("revoking", "a")
        holder.join([self.topic])
        self.member("revoking", "b").join([self.topic])
        holder.beat()
        consumer, classic = self.member("mixed", "a"), self.classic("mixed")
        consumer.join([self.topic])
        classic.joined()
        consumer.beat(owns=consumer.beat())
        assert classic.beat() == 27
        assert len(classic.joined()[self.topic]) == 2
        pattern = self.member("pattern", "a")
        pattern.join(None, subscribed_topic_regex="ord.*")
        deadline = time.monotonic() + PATIENCE_S
        while pattern.beat().assignment is None:
            assert time.monotonic() < deadline, "the expression is not resolved"
        self.member("empty", "a").join([self.topic])
        self.members.pop(("empty", "a")).leave()
        leaving = self.member("downgraded", "a")
        leaving.join([self.topic])
        old = self.classic("downgraded")
        old.joined()
        self.members.pop(("downgraded", "a")).leave()
        assert old.join().error_code == 0
        assert old.sync(assignments={"old": b"mine"}).error_code == 0
        commit(client, "simple", {self.topic: [(1, 7)]})

    def snapshot(self) -> dict[str, Any]:
        client = self.connect()
        deadline = time.monotonic() + PATIENCE_S
        while True:
            new = ask(client, ConsumerGroupDescribeRequest(group_ids=NEXT_GENERATION)).groups
            old = ask(client, DescribeGroupsRequest(groups=CLASSIC)).groups
            if not {one.error_code for one in new + old} & {*NOT_YET}:
                break
            assert time.monotonic() < deadline, "the groups are not loaded"
            time.sleep(0.05)
        listed = [one for one in ask(client, ListGroupsRequest()).groups if one.group_id in NEXT_GENERATION + CLASSIC]
        offsets = [(group, *fetched(client, group)) for group in NEXT_GENERATION + CLASSIC]
        return {"described": plain(new), "classic": plain(old), "listed": plain(listed), "offsets": offsets}

    def continue_all(self) -> None:
        """Every member lives on in its epoch, another one comes and goes, and offsets are committed."""
        client = self.connect()
        for (group, _), member in self.members.items():
            if isinstance(member, Member):
                assert member.beat().error_code == 0, group
                row = {self.topic: [(2, 100 + self.new_members)]}
                assert commit(client, group, row, member=member.member_id, generation=member.epoch)[0][1] == [(2, 0)]
            else:
                assert member.beat() == 0, group
        holder, waiting = self.members["revoking", "a"], self.members["revoking", "b"]
        described = {member.member_id: member for member in describe_one(client, "revoking").members}
        target = described["a"].target_assignment.topic_partitions
        assert holder.beat(owns={one.topic_id: one.partitions for one in target}).member_epoch == 3
        waiting.beat()
        assert describe_one(client, "revoking").group_state == "Stable"
        self.new_members += 1
        guest = Member(self.harness, f"guest-{self.new_members}", "shared")
        assert guest.join([self.topic]).error_code == 0
        for _ in range(2):
            for name in ("a", "b"):
                member = self.members["shared", name]
                answer = member.beat()
                if answer.assignment is not None:
                    member.beat(owns=answer)
            guest.beat()
        assert guest.leave().error_code == 0
        back = Member(self.harness, "late", "empty")
        assert back.join([self.topic]).error_code == 0
        assert back.leave().error_code == 0


def fetched(client: Any, group: str) -> tuple[int, list[Any]]:
    error, topics = fetch(client, group, None)
    return error, sorted((topic, sorted(rows)) for topic, rows in topics)


def describe_one(client: Any, group: str) -> Any:
    return ask(client, ConsumerGroupDescribeRequest(group_ids=[group])).groups[0]


def kinds_of(folder: Path) -> Counter[int]:
    """Count the records of the partitions of __consumer_offsets by kind; each of KIP-848's must be decoded."""
    kinds: Counter[int] = Counter()
    for log in sorted(folder.glob("__consumer_offsets-*/*.log")):
        data = memoryview(log.read_bytes())
        walk = walk_batches(data, 0, len(data))
        for start, end in zip(walk.starts, walk.ends, strict=True):
            for _, key, value in read_pairs(data[start:end]):
                assert key is not None
                kinds[int.from_bytes(key[:2], "big")] += 1
                decode_group_record(key, value)
    return kinds


def test_a_directory_with_consumer_groups_goes_to_our_broker_and_back(own_kafka: Callable[..., KafkaNode]) -> None:
    kafka = own_kafka(**SETTINGS)
    turns = Turns(kafka)
    turns.ours = BrokerProcess(kafka.folder, kafka.jars, settings=SETTINGS)
    try:
        scene = Scene(kafka.bootstrap_servers)
        scene.build()
        for clean in (True, False, False):
            before = scene.snapshot()
            broker = turns.hand_over(clean=clean)
            scene.go_on(broker.bootstrap_servers)
            assert scene.snapshot() == before, type(broker).__name__
            scene.continue_all()
        turns.now.stop()
        files = sorted(map(str, kafka.data.glob("__consumer_offsets-*/*.log")))
        dumped = kafka.tool(
            "DumpLogSegments", "--deep-iteration", "--offsets-decoder", "--files", ",".join(files)
        ).stdout
        assert Counter(map(int, KIND.findall(dumped))) == kinds_of(kafka.data)
        assert {3, 5, 6, 7, 8, 16} <= {*kinds_of(kafka.data)}
    finally:
        turns.ours.kill()
