"""Responses of our broker over the __consumer_offsets of Apache Kafka equal those of that Kafka.

vectors/consumer_offsets.json names the Kafka that wrote it, `kafka_history` creates its contents: simple groups,
members, a static one, an Empty group, deletions, and transactions that were committed, aborted and left open.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.group.offset_store import GroupLog
from kcli.protocol.offsets_topic import decode_key
from kcli.protocol.records import batch as layout
from kcli.protocol.records.scan import read_pairs
from kcli.structs import OFFSETS_TOPIC, TopicPartition
from tests.broker.group.harness import Connection
from tests.broker.group.kafka_history import GROUPS, TOPIC, describe_all_groups, fetch_all_offsets
from tests.broker.group.offsets_harness import OffsetsHarness, commit, fetch
from tests.broker.group.store_harness import NOW_MS, MemoryLog

FILE = Path(__file__).parents[2] / "vectors" / "consumer_offsets.json"


@pytest.fixture(scope="module")
def history() -> Any:
    return json.loads(FILE.read_text())


@pytest.fixture
def harness(history: Any) -> OffsetsHarness:
    """A broker started with the logs of Apache Kafka."""
    harness = OffsetsHarness()
    harness.cluster.add(OFFSETS_TOPIC, len(history["logs"]))
    for number, data in history["logs"].items():
        harness.replicas.logs[TopicPartition(OFFSETS_TOPIC, int(number))] = memory_log(bytes.fromhex(data))
    harness.restart()
    return harness


@pytest.fixture
def client(harness: OffsetsHarness) -> Connection:
    return harness.connect()


def memory_log(data: bytes) -> MemoryLog:
    log = MemoryLog()
    walk = layout.walk_batches(data, 0, len(data))
    for start, end in zip(walk.starts, walk.ends, strict=True):
        header = layout.HEADER.unpack_from(data, start)
        log.batches.append((header[0], data[start:end]))
        log.log_end_offset = header[0] + header[6] + 1
    return log


def test_fetched_offsets_equal_those_of_apache_kafka(history: Any, harness: OffsetsHarness, client: Connection) -> None:
    assert fetch_all_offsets(client) == history["offsets"]
    assert harness.offsets.reports == []


def test_described_groups_equal_those_of_apache_kafka(history: Any, client: Connection) -> None:
    assert describe_all_groups(client) == history["groups"]


def test_offsets_in_open_transactions_are_unstable(client: Connection) -> None:
    for group, errors in {"open": (88, 0), "mixed": (88, 0), "committed": (0, 0), "aborted": (0, 0)}.items():
        (_, rows), *_ = fetch(client, group, {TOPIC: [0, 3]}, stable=True)[1]
        assert tuple(row[4] for row in rows) == errors, group
        assert all(row[1:4] == (-1, -1, "") for row in rows if row[4]), group
    assert fetch(client, "open", {TOPIC: [0]}) == (0, [(TOPIC, [(0, -1, -1, "", 0)])])
    assert [row[4] for row in fetch(client, "mixed", None, stable=True)[1][0][1]] == [88, 0]


def test_partition_of_each_group_equals_apache_kafkas(history: Any, harness: OffsetsHarness) -> None:
    found = set()
    for number, log in harness.replicas.logs.items():
        for _, data in log.batches:
            if not layout.HEADER.unpack_from(data)[5] & layout.CONTROL_BIT:
                keys = [decode_key(key or b"") for _, key, _ in read_pairs(memoryview(data))]
                found |= {(key.group, number.partition) for key in keys if key is not None}

    assert {group for group, _ in found} >= {*GROUPS}
    group_log = GroupLog(harness.config, harness.replicas, harness.cluster)  # type: ignore[arg-type]
    assert {(group, group_log.partition_for(group)) for group, _ in found} == found


def test_commits_are_stored_after_the_replayed_log(harness: OffsetsHarness, client: Connection) -> None:
    harness.cluster.add(TOPIC)
    before = fetch(client, "simple", {TOPIC: [0]})
    assert before == (0, [(TOPIC, [(0, -1, -1, "", 0)])])  # this topic has the same name but another id

    assert commit(client, "simple", {TOPIC: [(0, 1000)]}) == [(TOPIC, [(0, 0)])]
    harness.restart()

    assert fetch(harness.connect(), "simple", {TOPIC: [0]}) == (0, [(TOPIC, [(0, 1000, -1, "", 0)])])


def test_expiry_keeps_subscribed_topics_and_open_transactions(harness: OffsetsHarness, client: Connection) -> None:
    deleted = harness.offsets.expire(NOW_MS + 100 * 86_400_000 * 100)

    simple = ["aborted", "committed", "deleted", "gone topic", "old client", "simple"]
    assert sorted(deleted) == sorted([*simple, "empty", "watcher", "watcher of deletions"])
    remaining = {group: topics for group, topics in fetch_all_offsets(client).items() if topics}
    assert list(remaining) == ["two members", "mixed"]
