"""The time of the first record at an offset, read from dense, compacted, transactional and old batches."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest

from kcli.admin.logs.record_times import FetchedTimes, RecordTime
from kcli.errors import CorruptRecords
from kcli.protocol.records.builder import NewRecord, build_batch

DAY_MS = 86_400_000


def records(*times_ms: int) -> list[NewRecord]:
    return [NewRecord(timestamp_ms=ms, key=b"k", value=b"v") for ms in times_ms]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_each_record_of_a_batch_has_its_own_time(compression: str) -> None:
    data = build_batch(records(30, 10, 20), base_offset=7, compression=compression)
    assert [FetchedTimes(data).first_from(offset) for offset in (7, 8, 9)] == [
        RecordTime(7, 30),
        RecordTime(8, 10),
        RecordTime(9, 20),
    ]


def test_an_offset_after_the_batches_is_the_next_offset_to_fetch() -> None:
    data = build_batch(records(1, 2), base_offset=5) + build_batch(records(3), base_offset=7)
    assert FetchedTimes(data).first_from(7) == RecordTime(7, 3)
    assert FetchedTimes(data).first_from(8) == 8


def test_the_log_append_time_of_a_batch_is_that_of_each_record() -> None:
    data = build_batch(records(1, 2), timestamp_type="append", max_timestamp_ms=99)
    assert FetchedTimes(data).first_from(1) == RecordTime(1, 99, append_time=True)


def test_in_a_gap_the_next_record_is_returned() -> None:
    data = build_batch(records(10, 20), base_offset=100, offset_deltas=[1, 8], last_offset_delta=9)
    assert FetchedTimes(data).first_from(100) == RecordTime(101, 10)
    assert FetchedTimes(data).first_from(102) == RecordTime(108, 20)
    assert FetchedTimes(data).first_from(109) == 110


def test_the_delete_horizon_is_not_used_as_a_record_time() -> None:
    data = build_batch(records(10, 20), delete_horizon_ms=7 * DAY_MS)
    assert FetchedTimes(data).first_from(0) == RecordTime(0, 10)


def test_transaction_markers_and_empty_batches_are_skipped() -> None:
    marker = build_batch(records(5), base_offset=3, control=True, transactional=True)
    empty = build_batch([], base_offset=4, last_offset_delta=2)
    assert FetchedTimes(marker + empty).first_from(3) == 7
    assert FetchedTimes(marker + empty + build_batch(records(8), base_offset=7)).first_from(3) == RecordTime(7, 8)


def test_an_incomplete_batch_is_ignored() -> None:
    whole = build_batch(records(1))
    assert FetchedTimes(b"").first_from(0) is None
    assert FetchedTimes(whole[:-1]).first_from(0) is None
    assert FetchedTimes(whole + whole[:40]).first_from(0) == RecordTime(0, 1)


def test_a_damaged_batch_raises() -> None:
    data = bytearray(build_batch(records(1, 2), base_offset=7))
    data[61:] = b"\xff" * (len(data) - 61)
    with pytest.raises(CorruptRecords):
        FetchedTimes(data).first_from(8)
    with pytest.raises(CorruptRecords, match="offset 7"):
        FetchedTimes(struct.pack(">qi", 7, 3) + bytes(40)).first_from(7)


def old_message(offset: int, magic: int, attributes: int, timestamp_ms: int) -> bytes:
    body = struct.pack(">iBB", 0, magic, attributes) + (struct.pack(">q", timestamp_ms) if magic else b"")
    body += struct.pack(">ii", -1, 3) + b"old"
    return struct.pack(">qi", offset, len(body)) + body


def test_messages_of_formats_0_and_1_have_their_times() -> None:
    data = old_message(4, 1, 0, 50) + old_message(5, 1, 0x08, 60) + old_message(6, 0, 0, 0)
    assert [FetchedTimes(data).first_from(offset) for offset in (3, 4, 5, 6, 7)] == [
        RecordTime(4, 50),
        RecordTime(4, 50),
        RecordTime(5, 60, append_time=True),
        RecordTime(6, -1),
        7,
    ]


def test_a_compressed_message_of_format_1_has_the_newest_time_of_its_records() -> None:
    assert FetchedTimes(old_message(9, 1, 0x01, 70)).first_from(7) == RecordTime(7, 70)


def test_uncompressed_batches_are_read_without_numpy() -> None:
    script = (
        "import sys\n"
        "from kcli.protocol.records.builder import NewRecord, build_batch\n"
        "data = build_batch([NewRecord(timestamp_ms=ms, key=None, value=b'') for ms in (1, 2, 3)])\n"
        "from kcli.admin.groups import survey\n"
        "from kcli.admin.logs import record_times\n"
        "assert record_times.FetchedTimes(data).first_from(1) == (1, 2, False)\n"
        "assert 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
