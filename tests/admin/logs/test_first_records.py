"""The first record at an offset with its key, read from batches of all formats; and the estimate of bytes."""

from __future__ import annotations

import struct

import pytest

from kcli.admin.logs.first_records import MAX_KEY_BYTES, Sample, first_record
from kcli.admin.offsets.offset_plan import FirstRecord
from kcli.admin.offsets.preview import estimate_bytes
from kcli.errors import CorruptRecords
from kcli.protocol.records.builder import NewRecord, build_batch


def records(*keys: bytes | None) -> list[NewRecord]:
    return [NewRecord(timestamp_ms=100 + number, key=key, value=b"value") for number, key in enumerate(keys)]


def record_at(data: bytes, offset: int) -> FirstRecord | None:
    found = first_record(data, offset)
    assert isinstance(found, Sample)
    return found.record


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_each_record_has_its_time_and_key(compression: str) -> None:
    data = build_batch(records(b"a", None, b""), base_offset=7, compression=compression)
    assert [record_at(data, offset) for offset in (7, 8, 9)] == [
        FirstRecord(7, 100, b"a", 1),
        FirstRecord(8, 101),
        FirstRecord(9, 102, b"", 0),
    ]


def test_times_whose_difference_has_more_than_64_bits_are_those_of_the_records() -> None:
    data = build_batch([NewRecord(b"k", b"v", time_ms) for time_ms in (-1, 2**63 - 1)])
    assert record_at(data, 1) == FirstRecord(1, 2**63 - 1, b"k", 1)


def test_a_long_key_is_truncated_and_its_size_kept() -> None:
    found = record_at(build_batch(records(b"k" * 5_000)), 0)
    assert found == FirstRecord(0, 100, b"k" * MAX_KEY_BYTES, 5_000)


def test_a_sample_has_the_size_of_its_batch_in_bytes_and_offsets() -> None:
    data = build_batch(records(b"a", b"b"), base_offset=100, offset_deltas=[1, 8], last_offset_delta=9)
    found = first_record(data, 100)
    assert found == Sample(FirstRecord(101, 100, b"a", 1), len(data), 10)


def test_the_log_append_time_of_a_batch_is_that_of_each_record() -> None:
    data = build_batch(records(b"a", b"b"), timestamp_type="append", max_timestamp_ms=99)
    assert record_at(data, 1) == FirstRecord(1, 99, b"b", 1)


def test_transaction_markers_gaps_and_empty_batches_are_skipped() -> None:
    marker = build_batch(records(b"\0\0\0\1"), base_offset=3, control=True, transactional=True)
    empty = build_batch([], base_offset=4, last_offset_delta=2)
    compacted_tail = build_batch(records(b"a"), base_offset=7, last_offset_delta=4)
    assert first_record(marker + empty + compacted_tail, 8) == 12
    assert record_at(marker + empty + compacted_tail, 3) == FirstRecord(7, 100, b"a", 1)


def test_an_incomplete_batch_has_no_record_and_a_damaged_one_raises() -> None:
    whole = build_batch(records(b"a", b"b"), base_offset=7)
    assert first_record(b"", 7) is None
    assert first_record(whole[:-1], 7) is None
    damaged = bytearray(whole)
    damaged[61:] = b"\xff" * (len(whole) - 61)
    with pytest.raises(CorruptRecords):
        first_record(damaged, 8)
    with pytest.raises(CorruptRecords, match="offset 7"):
        first_record(struct.pack(">qi", 7, 3) + bytes(40), 7)


def test_a_key_size_beyond_the_record_raises() -> None:
    whole = bytearray(build_batch(records(b"abc")))
    at = bytes(whole).index(b"\x06abc")
    whole[at] = 0x7E
    with pytest.raises(CorruptRecords, match="its key size is 63 bytes"):
        first_record(whole, 0)


def old_message(offset: int, magic: int, attributes: int, timestamp_ms: int, key: bytes | None) -> bytes:
    body = struct.pack(">iBB", 0, magic, attributes) + (struct.pack(">q", timestamp_ms) if magic else b"")
    body += struct.pack(">i", -1 if key is None else len(key)) + (key or b"")
    body += struct.pack(">i", 3) + b"old"
    return struct.pack(">qi", offset, len(body)) + body


def test_messages_of_formats_0_and_1_have_offset_time_and_key() -> None:
    data = old_message(4, 1, 0, 50, b"one") + old_message(6, 0, 0, 0, None) + old_message(9, 1, 0x01, 70, None)
    assert [record_at(data, offset) for offset in (3, 5, 7)] == [
        FirstRecord(4, 50, b"one", 3),
        FirstRecord(6),
        FirstRecord(7, 70),
    ]
    assert first_record(data, 10) == 10


def test_bytes_are_estimated_from_the_log_size_or_from_the_sampled_batch() -> None:
    sample = Sample(None, batch_bytes=500, batch_offsets=10)
    assert estimate_bytes(25, 100, 8_000, sample) == 2_000
    assert estimate_bytes(25, 100, None, sample) == 1_250
    assert estimate_bytes(25, 100, None, None) is None
    assert estimate_bytes(25, 100, None, Sample(None)) is None
    assert estimate_bytes(0, 100, None, None) == 0
    assert estimate_bytes(300, 100, 8_000, None) == 8_000
