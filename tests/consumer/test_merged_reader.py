"""Reads in order of time: exact when the read is bounded, with a bounded wait when it follows; bounded memory."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kcli.consumer.merged_reader import MergedReader
from kcli.consumer.range_reader import RangeReader
from kcli.consumer.read_range import ReadRange
from kcli.log_place import LOG_END, LOG_START
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.structs import TopicPartition
from tests.consumer.cluster import FakeCluster, Log

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
ALL = ReadRange(LOG_START, LOG_END)
FOLLOW = ReadRange(LOG_START)


def write(log: Log, *times: int, size: int = 0) -> None:
    """Append one batch of records with these timestamps; each value is its timestamp."""
    records = [NewRecord(None, (b"%d" % time).ljust(size), time) for time in times]
    log.append_batch(build_batch(records, base_offset=log.end, leader_epoch=log.epoch), log.end + len(times))


def cluster_of(*logs: list[int], nodes: int = 1) -> FakeCluster:
    cluster = FakeCluster(nodes)
    cluster.topic("t", partitions=len(logs))
    for number, times in enumerate(logs):
        for time in times:
            write(cluster.logs[TopicPartition("t", number)], time)
    return cluster


def start(
    cluster: FakeCluster, ranges: dict[TopicPartition, ReadRange], memory_bytes: int = 1 << 20, **how: Any
) -> MergedReader:
    client, config = cluster.client(**how)
    reader = MergedReader(RangeReader(client, ranges, config), cluster.clock, memory_bytes=memory_bytes)
    reader.resolve(cluster.clock.now_ms() + 10_000)
    return reader


def times_of(polled: list[Any]) -> list[int]:
    return [time for _, columns in polled for time in columns.timestamps_ms.tolist()]


def read(reader: MergedReader, polls: int = 500) -> list[int]:
    """Return the timestamps of all records until the reader is done, or until the last poll."""
    found: list[int] = []
    for _ in range(polls):
        if reader.done:
            break
        found += times_of(reader.poll(500))
    return found


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_bounded_read_is_in_order_of_time_whatever_arrives_first(nodes: int) -> None:
    cluster = cluster_of([1, 5, 9], [2, 3, 4, 6], [0, 7, 8], nodes=nodes)
    reader = start(cluster, dict.fromkeys((T0, T1, T2), ALL), max_partition_fetch_bytes=1)
    assert read(reader) == list(range(10))
    assert all(one.complete for one in reader.coverage())


def test_a_partition_that_is_ahead_is_not_fetched_until_the_others_have_caught_up() -> None:
    cluster = cluster_of([], [])
    for time in range(200):
        write(cluster.logs[T0], 1000 + time, size=1000)
        write(cluster.logs[T1], time, size=1000)
    reader = start(
        cluster,
        dict.fromkeys((T0, T1), ALL),
        memory_bytes=1 << 10,
        max_partition_fetch_bytes=4000,
        fetch_max_bytes=8000,
    )
    largest = 0
    found: list[int] = []
    while not reader.done:
        found += times_of(reader.poll(500))
        largest = max(largest, reader.waiting_bytes)
    assert found == [*range(200), *range(1000, 1200)]
    assert largest < (64 << 10) + 2 * 8000 + 4000  # the least limit of a partition, and the fetches beyond it


def test_a_follower_waits_a_bounded_time_for_a_partition_without_records() -> None:
    cluster = cluster_of([10, 20], [])
    reader = start(cluster, dict.fromkeys((T0, T1), FOLLOW))
    began_ms = cluster.clock.now_ms()
    assert read(reader, polls=12) == [10, 20]
    assert cluster.clock.now_ms() - began_ms >= 1000
    write(cluster.logs[T0], 30)
    write(cluster.logs[T1], 25)
    assert read(reader, polls=12) == [25, 30]


def test_a_record_that_arrives_too_late_is_returned_at_once() -> None:
    cluster = cluster_of([10, 20], [])
    reader = start(cluster, dict.fromkeys((T0, T1), FOLLOW))
    assert read(reader, polls=12) == [10, 20]
    write(cluster.logs[T1], 15)
    began_ms = cluster.clock.now_ms()
    found = []
    while not found:
        found = times_of(reader.poll(500))
    assert (found, cluster.clock.now_ms() - began_ms < 1000) == ([15], True)


def test_a_follower_waits_for_all_records_that_exist() -> None:
    """A partition that is not read to its end yet is waited for, however long it takes."""
    cluster = cluster_of([1000], [])
    for time in range(300):
        write(cluster.logs[T1], time, size=100)
    reader = start(cluster, dict.fromkeys((T0, T1), FOLLOW), max_partition_fetch_bytes=200)
    found = []
    while len(found) < 301:
        found += times_of(reader.poll(500))
        cluster.clock.advance(400)
    assert found == [*range(300), 1000]


def test_the_coverage_ends_at_the_first_record_that_was_not_returned() -> None:
    cluster = cluster_of([1, 20], [5, 6])
    reader = start(cluster, dict.fromkeys((T0, T1), FOLLOW))
    found: list[int] = []
    while len(found) < 3:
        found += times_of(reader.poll(10))
    assert found == [1, 5, 6]
    assert {one.tp: one.position for one in reader.coverage()} == {T0: 1, T1: 2}
    assert reader.followed() == {T0: False, T1: True}


def test_the_end_of_a_log_is_reached_when_its_records_were_returned() -> None:
    cluster = cluster_of([1], [2])
    reader = start(cluster, dict.fromkeys((T0, T1), FOLLOW))
    assert read(reader, polls=12) == [1, 2]
    assert reader.followed() == {T0: True, T1: True}


def test_fetches_become_smaller_as_records_prove_to_be_compressed() -> None:
    cluster, chance = cluster_of([], []), random.Random(1)
    for number, tp in enumerate((T0, T1)):
        for part in range(200):
            values = [chance.randbytes(60) + b"x" * 940 for _ in range(50)]
            records = [NewRecord(None, value, 1000 * number + part) for value in values]
            log = cluster.logs[tp]
            log.append_batch(build_batch(records, base_offset=log.end, compression="gzip"), log.end + 50)
    reader = start(cluster, dict.fromkeys((T0, T1), ALL), memory_bytes=8 << 20)
    found = read(reader)
    assert found == sorted(found)
    assert len(found) == 20_000
    asked = [partition.partition_max_bytes for it in cluster.fetches() for t in it.topics for partition in t.partitions]
    assert asked[0] == (2 << 20) // 2 // 8  # half of what a partition may keep, until the compression is known
    assert min(asked) < asked[0]
    assert reader.waiting_bytes == 0
