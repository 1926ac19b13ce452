"""What a real Kafka left in its __consumer_offsets is told by ours as that Kafka told it.

vectors/consumer_offsets.json says which Kafka wrote it, `kafka_history` what happened there: simple groups, members, a
static one, an Empty group, transactions that were committed, aborted and left open, deletions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcli.protocol.offsets_topic import decode_key
from kcli.protocol.records import batch as layout
from kcli.protocol.records.scan import read_pairs
from kcli.structs import OFFSETS_TOPIC, TopicPartition
from tests.broker.group.kafka_history import GROUPS, TOPIC, told_groups, told_offsets
from tests.broker.group.lab import Connection
from tests.broker.group.offsets_lab import NOW_MS, MemoryLog
from tests.broker.group.offsets_labs import OffsetsDirectLab, commit, fetch

FILE = Path(__file__).parents[2] / "vectors" / "consumer_offsets.json"


@pytest.fixture(scope="module")
def history() -> Any:
    return json.loads(FILE.read_text())


@pytest.fixture
def lab(history: Any) -> OffsetsDirectLab:
    """A broker started over the logs of the real one."""
    lab = OffsetsDirectLab()
    lab.cluster.add(OFFSETS_TOPIC, len(history["logs"]))
    for number, data in history["logs"].items():
        lab.replicas.logs[TopicPartition(OFFSETS_TOPIC, int(number))] = memory_log(bytes.fromhex(data))
    lab.restart()
    return lab


@pytest.fixture
def client(lab: OffsetsDirectLab) -> Connection:
    return lab.connect()


def memory_log(data: bytes) -> MemoryLog:
    log = MemoryLog()
    walk = layout.walk_batches(data, 0, len(data))
    for start, end in zip(walk.starts, walk.ends, strict=True):
        header = layout.HEADER.unpack_from(data, start)
        log.batches.append((header[0], data[start:end]))
        log.log_end_offset = header[0] + header[6] + 1
    return log


def test_offsets_are_told_as_kafka_told_them(history: Any, lab: OffsetsDirectLab, client: Connection) -> None:
    assert told_offsets(client) == history["offsets"]
    assert lab.offsets.reports == []


def test_groups_and_their_members_are_told_as_kafka_told_them(history: Any, client: Connection) -> None:
    assert told_groups(client) == history["groups"]


def test_offsets_that_an_open_transaction_may_change_are_told_as_unstable(client: Connection) -> None:
    for group, errors in {"open": (88, 0), "mixed": (88, 0), "committed": (0, 0), "aborted": (0, 0)}.items():
        (_, rows), *_ = fetch(client, group, {TOPIC: [0, 3]}, stable=True)[1]
        assert tuple(row[4] for row in rows) == errors, group
        assert all(row[1:4] == (-1, -1, "") for row in rows if row[4]), group
    assert fetch(client, "open", {TOPIC: [0]}) == (0, [(TOPIC, [(0, -1, -1, "", 0)])])
    assert [row[4] for row in fetch(client, "mixed", None, stable=True)[1][0][1]] == [88, 0]


def test_every_group_is_looked_for_where_kafka_put_it(history: Any, lab: OffsetsDirectLab) -> None:
    found = set()
    for number, log in lab.replicas.logs.items():
        for _, data in log.batches:
            if not layout.HEADER.unpack_from(data)[5] & layout.CONTROL_BIT:
                keys = [decode_key(key or b"") for _, key, _ in read_pairs(memoryview(data))]
                found |= {(key.group, number.partition) for key in keys if key is not None}

    assert {group for group, _ in found} >= {*GROUPS}
    assert {(group, lab.offsets.partition_for(group)) for group, _ in found} == found


def test_life_goes_on_over_that_log(lab: OffsetsDirectLab, client: Connection) -> None:
    lab.cluster.add(TOPIC)
    before = fetch(client, "simple", {TOPIC: [0]})
    assert before == (0, [(TOPIC, [(0, -1, -1, "", 0)])])  # this topic is a namesake: its id is another

    assert commit(client, "simple", {TOPIC: [(0, 1000)]}) == [(TOPIC, [(0, 0)])]
    lab.restart()

    assert fetch(lab.connect(), "simple", {TOPIC: [0]}) == (0, [(TOPIC, [(0, 1000, -1, "", 0)])])


def test_expiry_keeps_what_members_read_and_what_transactions_hold(lab: OffsetsDirectLab, client: Connection) -> None:
    gone = lab.offsets.expire(NOW_MS + 100 * 86_400_000 * 100)

    simple = ["aborted", "committed", "deleted", "gone topic", "old client", "simple"]
    assert sorted(gone) == sorted([*simple, "empty", "watcher", "watcher of deletions"])
    left = {group: topics for group, topics in told_offsets(client).items() if topics}
    assert list(left) == ["two members", "mixed"]
