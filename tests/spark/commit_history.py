"""A topic and a commit log with known content: groups that read it for some hours in the past.

The commits are written into __consumer_offsets in the broker's format, with times chosen by the test. A broker accepts
records for that topic only from a client with the id of Kafka's own administration tool.
"""

from __future__ import annotations

import struct
import time
from typing import NamedTuple

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.real_kafka import Kafka

MINUTE_MS = 60_000
# Of this day: a broker closes a segment whose records are older than segment.ms, and its cleaner then drops commits.
BASE_MS = (time.time_ns() // 1_000_000 // (60 * MINUTE_MS) - 6) * 60 * MINUTE_MS


class Written(NamedTuple):
    """A record batch: the offset after it, and its maximum timestamp."""

    end: int
    newest_ms: int


class Commit(NamedTuple):
    """A commit; `offset` None: the commit was deleted."""

    group: str
    topic: str
    partition: int
    at_ms: int
    offset: int | None


class CommitHistory(NamedTuple):
    """`batches` by partition (those of partition 2 before `deleted_before` are deleted); `commits` in the order
    written.
    """

    kafka: Kafka
    topic: str
    batches: dict[int, list[Written]]
    deleted_before: int
    commits: list[Commit]
    groups: tuple[str, str]
    gone: str

    def committed(self, group: str, topic: str, partition: int, at_ms: int) -> int | None:
        """Return the committed offset of the group at this time."""
        found = None
        for it in self.commits:
            if it[:3] == (group, topic, partition) and it.at_ms <= at_ms:
                found = it.offset
        return found

    def end(self, partition: int, at_ms: int) -> int | None:
        """Return the log end at this time, as far as it is still known."""
        left = [it for it in self.batches[partition] if partition != 2 or it.end > self.deleted_before]
        first = left[0].end - 10
        end = first if partition != 2 else 0
        for batch in left:
            if batch.newest_ms > at_ms:
                break
            end = batch.end
        proofs = [
            it.offset
            for it in self.commits
            if (it.topic, it.partition) == (self.topic, partition) and it.at_ms <= at_ms and it.offset is not None
        ]
        end = max([end, *(offset for offset in proofs if offset <= left[-1].end)])
        return end if end >= first else None


def make_commit_history(kafka: Kafka) -> CommitHistory:
    """Write batches of ten records to three partitions, and commits of two groups. In partition 1 the producers' clocks
    differ; the oldest batches of partition 2 are deleted.
    """
    topic = kafka.new_topic(3)
    batches: dict[int, list[Written]] = {0: [], 1: [], 2: []}
    producer = kafka.ordered_producer(topic, linger_ms=10_000)
    for number in range(24):
        for partition in range(3):
            at = BASE_MS + number * 5 * MINUTE_MS + partition * 17_000
            if partition == 1 and number in (5, 6, 11):
                at += 22 * MINUTE_MS if number == 11 else -13 * MINUTE_MS
            for n in range(10):
                producer.produce(topic, b"%d" % n, partition=partition, timestamp=at + n * 1000)
            assert producer.flush(30) == 0
            batches[partition].append(Written(10 * number + 10, at + 9000))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    [deleted] = admin.delete_records([TopicPartition(topic, 2, 60)]).values()
    assert deleted.result(30).low_watermark == 60
    steady, odd, gone = kafka.new_name("steady"), kafka.new_name("odd"), kafka.new_name("gone")
    commits = _commits(topic, steady, odd, gone)
    _write(kafka, commits)
    return CommitHistory(kafka, topic, batches, 60, commits, (steady, odd), gone)


def _commits(topic: str, steady: str, odd: str, gone: str) -> list[Commit]:
    """Return commits: of one group some minutes late, and of another one with all special cases."""

    def at(minutes: float) -> int:
        return BASE_MS + int(minutes * MINUTE_MS)

    commits = [
        Commit(steady, topic, partition, at(5 * number + 4 - partition), 10 * number + 3 * partition)
        for number in range(1, 24)
        for partition in range(3)
    ]
    return [
        *commits,
        Commit(odd, topic, 0, at(-600), 5),  # long before the examined range
        Commit(odd, topic, 0, at(31), 60),  # an offset that the log reaches only later, by timestamps
        Commit(odd, topic, 0, at(31.5), 70),
        Commit(odd, topic, 0, at(50), 20),  # moved back
        Commit(odd, topic, 0, at(70), None),  # deleted
        Commit(odd, topic, 0, at(90), 9_999),  # of a longer log that was truncated
        Commit(odd, topic, 2, at(3), 20),  # of records that are deleted now
        Commit(odd, topic, 2, at(20), 60),
        Commit(odd, gone, 0, at(10), 1),
        Commit(odd, topic, 1, at(300), 1),  # after the examined range
    ]


def _write(kafka: Kafka, commits: list[Commit]) -> None:
    """Source: "Group coordinator" messages OffsetCommitKey v1 and OffsetCommitValue v3 in Kafka's repository."""
    producer = kafka.ordered_producer("__consumer_offsets", client_id="__admin_client")
    for it in commits:
        key = struct.pack(">h", 1) + _text(it.group) + _text(it.topic) + struct.pack(">i", it.partition)
        value = None
        if it.offset is not None:
            value = struct.pack(">hqi", 3, it.offset, -1) + _text("") + struct.pack(">q", it.at_ms)
        producer.produce(
            "__consumer_offsets",
            value,
            key,
            partition=len(it.group) % 2,
            timestamp=it.at_ms,
        )
    assert producer.flush(30) == 0


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()
