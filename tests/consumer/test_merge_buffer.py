"""The order of merged records against a plain merge of lists, for any arrival of records."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kcli.consumer.merge_buffer import Bound, MergeBuffer
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.columns import RecordColumns
from kcli.protocol.records.decode import RecordSection, decode_sections
from kcli.structs import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PARTITIONS = (A0, A1, B0)


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None


def batch(
    tp: TopicPartition, times: list[int], base_offset: int = 0, values: list[bytes] | None = None
) -> RecordColumns:
    texts = values if values is not None else [b"%s %d" % (str(tp).encode(), time) for time in times]
    records = [
        NewRecord(b"key" if at % 2 else None, text, time, [("h", text)] if at % 3 == 0 else ())
        for at, (time, text) in enumerate(zip(times, texts, strict=True))
    ]
    data = build_batch(records, base_offset=base_offset)
    [section] = decode_sections([RecordSection(tp.topic, tp.partition, data, base_offset, None)])
    assert section.error is None
    return section.columns


def rows(taken: list[tuple[TopicPartition, RecordColumns]]) -> list[Row]:
    found = []
    for tp, columns in taken:
        assert columns.partitions is not None
        assert columns.partitions[0] == tp.partition
        for number, record in zip(columns.partitions.tolist(), columns, strict=True):
            found.append(Row(tp.topic, number, record.offset, record.timestamp_ms, record.value))
    return found


def merged(streams: dict[TopicPartition, list[int]]) -> list[Row]:
    """Return the truth: again and again the earliest of the first remaining records."""
    heap = [(times[0], tp, 0) for tp, times in streams.items() if times]
    heapq.heapify(heap)
    order = []
    while heap:
        time, tp, at = heapq.heappop(heap)
        order.append(Row(*tp, at, time, b"%s %d" % (str(tp).encode(), time)))
        if at + 1 < len(streams[tp]):
            heapq.heappush(heap, (streams[tp][at + 1], tp, at + 1))
    return order


TIMES = st.lists(st.integers(-1, 12), max_size=12)
STREAMS = st.fixed_dictionaries(dict.fromkeys(PARTITIONS, TIMES))


@given(streams=STREAMS, data=st.data())
def test_records_come_in_the_order_of_a_merge_however_they_arrive(
    streams: dict[TopicPartition, list[int]], data: st.DataObject
) -> None:
    buffer = MergeBuffer()
    sent = dict.fromkeys(PARTITIONS, 0)
    found: list[Row] = []
    while still_open := [tp for tp in PARTITIONS if sent[tp] < len(streams[tp])]:
        tp = data.draw(st.sampled_from(still_open))
        count = data.draw(st.integers(1, len(streams[tp]) - sent[tp]))
        buffer.add(tp, batch(tp, streams[tp][sent[tp] : sent[tp] + count], sent[tp]), 0.0)
        sent[tp] += count
        bound = buffer.bound_of(tp for tp in PARTITIONS if sent[tp] < len(streams[tp]))
        found += rows(buffer.take(bound, data.draw(st.integers(1, 9))))
    while len(buffer):
        found += rows(buffer.take(None, data.draw(st.integers(1, 9))))
    assert found == merged(streams)


@given(streams=STREAMS, limit=st.integers(-1, 12), data=st.data())
def test_a_bound_returns_all_records_up_to_it_and_no_other(
    streams: dict[TopicPartition, list[int]], limit: int, data: st.DataObject
) -> None:
    buffer = MergeBuffer()
    for tp, times in streams.items():
        buffer.add(tp, batch(tp, times), 0.0) if times else None
    bound = Bound(limit, data.draw(st.sampled_from(PARTITIONS)))
    keys = {tp: np.maximum.accumulate(times).tolist() for tp, times in streams.items() if times}
    expected = [row for row in merged(streams) if (keys[TopicPartition(*row[:2])][row.offset], row[:2]) <= tuple(bound)]
    assert rows(buffer.take(bound)) == expected
    left = {tp: len(times) - sum(row[:2] == tp for row in expected) for tp, times in streams.items()}
    assert buffer.first_offsets() == {tp: len(streams[tp]) - count for tp, count in left.items() if count}


def test_records_of_one_time_come_by_topic_partition_and_offset() -> None:
    buffer = MergeBuffer()
    for tp in (B0, A1, A0):
        buffer.add(tp, batch(tp, [5, 5]), 0.0)
    assert [row[:3] for row in rows(buffer.take(None))] == [
        ("a", 0, 0), ("a", 0, 1), ("a", 1, 0), ("a", 1, 1), ("b", 0, 0), ("b", 0, 1),
    ]  # fmt: skip


def test_keys_values_headers_and_nulls_survive_the_move_to_another_buffer() -> None:
    buffer = MergeBuffer()
    first = batch(A0, [1, 3], values=[b"", b"three"])
    buffer.add(A0, first, 0.0)
    buffer.add(A1, batch(A1, [2, 4], values=[b"two", b"x" * 1000]), 0.0)
    [(_, columns)] = buffer.take(None)
    assert columns.values() == [b"", b"two", b"three", b"x" * 1000]
    assert columns.keys() == [None, None, b"key", b"key"]
    assert [columns.headers(row) for row in range(4)] == [[("h", b"")], [("h", b"two")], [], []]


def test_a_few_records_do_not_keep_a_large_response_in_memory() -> None:
    buffer = MergeBuffer()
    many = batch(A0, list(range(1000)), values=[b"v" * 100] * 1000)
    buffer.add(A0, many.take(slice(0, 2)), 0.0)
    assert 200 <= buffer.size(A0) < 1000
    [(_, columns)] = buffer.take(None)
    assert columns.values() == [b"v" * 100] * 2
    assert buffer.size(A0) == 0


def test_records_expire_by_their_arrival_with_all_that_come_before_them() -> None:
    buffer = MergeBuffer()
    buffer.add(A0, batch(A0, [10]), 100.0)
    buffer.add(A1, batch(A1, [5, 20]), 200.0)
    assert buffer.expired_bound(99.0) is None
    assert buffer.expired_bound(100.0) == Bound(10, A0)
    assert [row.timestamp_ms for row in rows(buffer.take(buffer.expired_bound(100.0)))] == [5, 10]
    assert buffer.first_arrival_ms() == 200.0


def test_a_record_that_arrives_after_later_ones_were_taken_is_expired_at_once() -> None:
    buffer = MergeBuffer()
    buffer.add(A0, batch(A0, [10]), 100.0)
    buffer.take(None)
    buffer.add(A1, batch(A1, [5, 20]), 300.0)
    bound = buffer.expired_bound(0.0)
    assert bound == Bound(10, A0)
    assert [row.timestamp_ms for row in rows(buffer.take(bound))] == [5]
