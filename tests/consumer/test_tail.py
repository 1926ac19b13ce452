"""The last records of all partitions against a sorted list of all records, with gaps and in small parts."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.consumer.merged_reader import MergedReader
from kcli.consumer.range_reader import RangeReader
from kcli.consumer.read_range import ReadRange
from kcli.consumer.tail import LastRecords, find_tail
from kcli.log_place import LOG_END, LOG_START, Place
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.structs import TopicPartition
from tests.consumer.cluster import FakeCluster, Log

PARTITIONS = [TopicPartition("t", number) for number in range(3)]
T0, T1, T2 = PARTITIONS
Where = tuple[int, int, int]  # timestamp, partition, offset

# A partition: batches of timestamps; None is an offset without a record (a marker, or a gap of compaction).
BATCHES = st.lists(st.lists(st.none() | st.integers(0, 30), min_size=1, max_size=4), max_size=5)


def fill(log: Log, batches: list[list[int | None]]) -> list[tuple[int, int]]:
    """Append the batches and return (timestamp, offset) of the records."""
    found = []
    for times in batches:
        records = [NewRecord(None, b"v", time) for time in times if time is not None]
        base = log.end
        offsets = [base + at for at, time in enumerate(times) if time is not None]
        deltas = [offset - base for offset in offsets]
        span = len(times) - 1
        data = build_batch(records, base_offset=base, offset_deltas=deltas, last_offset_delta=span, leader_epoch=0)
        log.append_batch(data, base + len(times))
        found += [(time, base + at) for at, time in enumerate(times) if time is not None]
    return found


def sorted_batches(batches: list[list[int | None]]) -> list[list[int | None]]:
    """Return the same gaps, with the timestamps in ascending order."""
    times = iter(sorted(time for batch in batches for time in batch if time is not None))
    return [[None if time is None else next(times) for time in batch] for batch in batches]


def read_tail(
    cluster: FakeCluster, count: int, start: Place = LOG_START, end: Place | None = LOG_END
) -> tuple[list[Where], dict[TopicPartition, ReadRange]]:
    client, config = cluster.client(max_partition_fetch_bytes=150)
    asked = dict.fromkeys(PARTITIONS, ReadRange(start, end))
    deadline_ms = cluster.clock.now_ms() + 10_000
    ranges = find_tail(client, asked, config, count, deadline_ms)
    reader = MergedReader(RangeReader(client, ranges, config), cluster.clock, wait_ms=0.0)
    reader.resolve(deadline_ms)
    found: list[Where] = []
    for _ in range(200):
        if reader.done:
            break
        for _, columns in reader.poll(100):
            assert columns.partitions is not None
            rows = zip(
                columns.timestamps_ms.tolist(), columns.partitions.tolist(), columns.offsets.tolist(), strict=True
            )
            found += rows
    return found, ranges


@settings(max_examples=60, deadline=None)
@given(logs=st.tuples(BATCHES, BATCHES, BATCHES), count=st.integers(1, 25))
def test_the_last_records_are_those_of_the_sorted_topic(logs: tuple[list[list[int | None]], ...], count: int) -> None:
    cluster = FakeCluster()
    cluster.topic("t", partitions=3)
    truth: list[Where] = []
    for tp, batches in zip(PARTITIONS, logs, strict=True):
        truth += [(time, tp.partition, at) for time, at in fill(cluster.logs[tp], sorted_batches(batches))]
    found, _ = read_tail(cluster, count)
    assert found == sorted(truth)[-count:]


@settings(max_examples=40, deadline=None)
@given(logs=st.tuples(BATCHES, BATCHES, BATCHES), count=st.integers(1, 25))
def test_where_times_are_not_in_order_each_partition_is_read_from_one_offset_to_its_end(
    logs: tuple[list[list[int | None]], ...], count: int
) -> None:
    cluster = FakeCluster()
    cluster.topic("t", partitions=3)
    places = {tp: fill(cluster.logs[tp], batches) for tp, batches in zip(PARTITIONS, logs, strict=True)}
    found, _ = read_tail(cluster, count)
    assert len(found) == min(count, sum(map(len, places.values())))
    for tp, all_places in places.items():
        its = [(time, at) for time, partition, at in found if partition == tp.partition]
        assert its == all_places[len(all_places) - len(its) :]


@given(
    logs=st.lists(st.lists(st.integers(0, 9), max_size=30), min_size=3, max_size=3),
    count=st.integers(1, 40),
    data=st.data(),
)
def test_the_last_records_are_the_same_however_they_are_added(
    logs: list[list[int]], count: int, data: st.DataObject
) -> None:
    last, sent = LastRecords(count), [0, 0, 0]
    truth: list[Where] = []
    for number, times in enumerate(logs):
        keys = np.maximum.accumulate(times).tolist() if times else []
        truth += [(key, number, at) for at, key in enumerate(keys)]
    while unsent := [number for number in range(3) if sent[number] < len(logs[number])]:
        number = data.draw(st.sampled_from(unsent))
        size = data.draw(st.integers(1, 10))
        times = np.array(logs[number][sent[number] : sent[number] + size], np.int64)
        last.add(PARTITIONS[number], np.arange(sent[number], sent[number] + len(times)), times)
        sent[number] += len(times)
        if data.draw(st.booleans()):
            last.first_offsets()  # which drops all but the last records
    expected: dict[TopicPartition, int] = {}
    for _, number, at in sorted(truth)[-count:]:
        expected.setdefault(PARTITIONS[number], at)
    assert last.first_offsets() == expected


def cluster_of(*logs: list[int]) -> FakeCluster:
    cluster = FakeCluster()
    cluster.topic("t", partitions=3)
    for tp, times in zip(PARTITIONS, logs, strict=True):
        for time in times:
            fill(cluster.logs[tp], [[time]])
    return cluster


def test_a_range_without_an_end_is_followed_after_its_last_records() -> None:
    cluster = cluster_of([1, 2, 3], [4, 5], [])
    _, ranges = read_tail(cluster, 3, end=None)
    assert ranges == {T0: ReadRange(Place.offset(2)), T1: ReadRange(Place.offset(0)), T2: ReadRange(Place.offset(0))}


def test_the_last_records_are_within_the_range() -> None:
    cluster = cluster_of([1, 2, 3, 9], [4, 5, 6, 8], [])
    found, ranges = read_tail(cluster, 3, start=Place.offset(2), end=Place.offset(3))
    assert [time for time, _, _ in found] == [3, 6]
    assert ranges[T2] == ReadRange(Place.offset(2), Place.offset(2))
    assert ranges[T0] == ReadRange(Place.offset(2), Place.offset(3))
