"""Offset and time indexes: Kafka's bytes, look-ups, and refusal of invalid contents."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.log.segment_index import OffsetIndex, TimeIndex

# 00000000000000000000.index and .timeindex of Apache Kafka 4.3.1 after a clean shutdown: 40 batches of one record of
# 1000 bytes, then 10 small records in one batch, sent by librdkafka 2.16.0; the index has `index.interval.bytes` 4096.
REAL_INDEX = bytes.fromhex(
    "00000004000010bc00000008000021780000000c00003236000000100000"
    "42f600000014000053b600000018000064760000001c0000753600000020"
    "000085f600000024000096b6000000310000a776"
)
REAL_TIME_INDEX = bytes.fromhex("000001a1fc15139300000000000001a1fc1518fc00000031")


def rising(most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, most), unique=True, max_size=40).map(sorted)


def test_index_files_of_apache_kafka_are_decoded() -> None:
    index = OffsetIndex(0, REAL_INDEX)
    assert (len(index), index.last) == (10, (49, 0xA776))
    assert index.floor(24) == (24, 0x6476)
    times = TimeIndex(0, REAL_TIME_INDEX)
    assert times.last == (0x1A1FC1518FC, 49)
    assert times.before(0x1A1FC151394) == 0
    assert (index.encode(), times.encode()) == (REAL_INDEX, REAL_TIME_INDEX)


def test_floor_is_the_last_entry_up_to_the_offset() -> None:
    index = OffsetIndex(1000)
    for offset, position in ((1005, 50), (1010, 100), (1200, 2000)):
        index.append(offset, position)
    assert index.floor(1004) is None
    assert index.floor(1005) == (1005, 50)
    assert index.floor(1199) == (1010, 100)
    assert index.floor(10**12) == (1200, 2000) == index.last


@given(rising(2**31 - 1), st.data(), st.integers(0, 2**40))
def test_floor_equals_a_linear_search(offsets: list[int], data: st.DataObject, base: int) -> None:
    positions = data.draw(
        st.lists(st.integers(1, 2**31 - 1), unique=True, min_size=len(offsets), max_size=len(offsets))
    )
    index = OffsetIndex(base)
    entries = list(zip(offsets, sorted(positions), strict=True))
    for offset, position in entries:
        index.append(base + offset, position)
    again = OffsetIndex(base, index.encode())
    for wanted in [0, *offsets, *(offset + 1 for offset in offsets)]:
        found = [(base + offset, position) for offset, position in entries if offset <= wanted]
        assert index.floor(base + wanted) == again.floor(base + wanted) == (found[-1] if found else None)


@given(rising(2**31 - 1), st.integers(0, 2**40))
def test_entries_are_encoded_big_endian(offsets: list[int], base: int) -> None:
    index = OffsetIndex(base)
    for number, offset in enumerate(offsets):
        index.append(base + offset, number + 1)
    assert index.encode() == b"".join(struct.pack(">ii", offset, n + 1) for n, offset in enumerate(offsets))


def test_time_index_only_adds_larger_timestamps() -> None:
    index = TimeIndex(1000)
    assert index.last == (-1, 1000)
    for time_ms, offset in ((5, 1003), (5, 1009), (4, 1010), (9, 1011), (-1, 1012)):
        index.append(time_ms, offset)
    assert index.encode() == struct.pack(">qiqi", 5, 3, 9, 11)
    assert index.last == (9, 1011)


def test_before_is_the_last_entry_with_an_earlier_timestamp() -> None:
    index = TimeIndex(1000)
    for time_ms, offset in ((5, 1003), (9, 1011)):
        index.append(time_ms, offset)
    assert [index.before(time_ms) for time_ms in (0, 5, 6, 9, 10)] == [1000, 1000, 1003, 1003, 1011]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\0" * 7, "not a whole number"),
        (struct.pack(">iiii", 5, 10, 5, 20), "out of order"),
        (struct.pack(">iiii", 5, 10, 6, 10), "out of order"),
        (struct.pack(">iiii", 5, 10, 6, 9), "out of order"),
        (struct.pack(">ii", -5, 10), "negative"),
        (struct.pack(">ii", 5, -10), "negative"),
        (struct.pack(">iiiiii", 5, 10, 0, 0, 7, 20), "out of order"),
    ],
)
def test_invalid_offset_index_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        OffsetIndex(0, data)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\0" * 13, "not a whole number"),
        (struct.pack(">qiqi", 5, 1, 5, 2), "out of order"),
        (struct.pack(">qiqi", 5, 1, 6, 1), "out of order"),
        (struct.pack(">qi", -5, 1), "negative"),
        (struct.pack(">qi", 5, -1), "negative"),
    ],
)
def test_invalid_time_index_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        TimeIndex(0, data)


@given(st.integers(0, 30))
def test_trailing_zeros_are_not_entries(zeros: int) -> None:
    offsets = struct.pack(">iiii", 5, 256, 256, 1 << 24)
    assert OffsetIndex(0, offsets + bytes(8 * zeros)).last == (256, 1 << 24)
    times = struct.pack(">qi", 5, 0)
    assert TimeIndex(0, times + bytes(12 * zeros)).last == (5, 0)
