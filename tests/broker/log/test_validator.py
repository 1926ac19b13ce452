"""Validation of produced batches, with the error codes measured on Apache Kafka 4.3.1, and in-place changes."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kcli.broker.log.log_config import LogConfig
from kcli.broker.log.validator import RecordsRefused, validate_and_assign
from kcli.error_codes import ErrorCode
from kcli.protocol.records.batch import ATTRIBUTES_AT, CRC_AT, CRC_FROM, HEADER_BYTES, BatchInfo, read_batch_info
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.checksum import crc32c
from kcli.protocol.records.scan import iter_records

NOW = 1_700_000_000_000
HOUR = 3_600_000
TWO = [NewRecord(b"a", b"1", NOW - 5), NewRecord(b"b", b"2", NOW - 9)]
PLAIN = LogConfig()
COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}))


def append(data: bytes, config: LogConfig = PLAIN, **options: Any) -> BatchInfo:
    view = memoryview(bytearray(data))
    settings = {"base_offset": 100, "leader_epoch": 7, "now_wall_ms": NOW} | options
    return validate_and_assign(view, config=config, **settings)


def refused(data: bytes, config: LogConfig = PLAIN, **options: Any) -> RecordsRefused:
    with pytest.raises(RecordsRefused) as caught:
        append(data, config, **options)
    return caught.value


def has_right_crc(data: Any) -> bool:
    return crc32c(memoryview(data)[CRC_FROM:]) == int.from_bytes(data[CRC_AT:CRC_FROM], "big")


def patched(data: bytes, at: int, form: str, value: int) -> bytes:
    """Return the batch with another value in its header and a valid checksum."""
    changed = bytearray(data)
    struct.pack_into(form, changed, at, value)
    struct.pack_into(">I", changed, CRC_AT, crc32c(memoryview(changed)[CRC_FROM:]))
    return bytes(changed)


def test_valid_batch_gets_offsets_and_an_epoch_and_is_otherwise_unchanged() -> None:
    data = build_batch(TWO, producer_id=9, producer_epoch=1, base_sequence=20)
    info = append(data)
    assert (info.base_offset, info.last_offset, info.leader_epoch, info.record_count) == (100, 101, 7, 2)
    assert (info.producer_id, info.producer_epoch, info.base_sequence, info.last_sequence) == (9, 1, 20, 21)
    assert info.max_timestamp_ms == NOW - 5
    assert info == read_batch_info(info.records)
    expected = build_batch(TWO, producer_id=9, producer_epoch=1, base_sequence=20, base_offset=100, leader_epoch=7)
    assert bytes(info.records) == expected


def test_batch_is_changed_in_place() -> None:
    """The broker writes the bytes of the request to the disk without a copy."""
    frame = bytearray(b"before" + build_batch(TWO))
    info = validate_and_assign(
        memoryview(frame)[6:], base_offset=3, leader_epoch=0, config=LogConfig(), now_wall_ms=NOW
    )
    assert frame[6:] == bytes(info.records)
    assert [record.offset for record in iter_records(frame[6:])] == [3, 4]


def test_wrong_checksum_is_corrupt_message() -> None:
    data = bytearray(build_batch(TWO))
    data[-1] ^= 1
    assert refused(data).code is ErrorCode.CORRUPT_MESSAGE


def test_format_3_is_corrupt_and_formats_0_and_1_are_not_supported() -> None:
    codes = [refused(patched(build_batch(TWO), 16, "B", magic)).code for magic in (3, 1, 0)]
    assert codes == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_RECORD]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        build_batch(TWO)[:-1],
        build_batch(TWO) * 2,
        build_batch(TWO, base_offset=1),
        build_batch([], last_offset_delta=0),
        patched(build_batch(TWO), 57, ">i", 3),
        patched(build_batch(TWO), 57, ">i", 1),
        patched(build_batch(TWO), 57, ">i", -1),
        patched(build_batch(TWO), 57, ">i", 2**31 - 1),
        patched(build_batch(TWO), 23, ">i", 5),
        patched(build_batch(TWO), 23, ">i", -1),
        build_batch(TWO, control=True),
        build_batch(TWO, producer_id=1, producer_epoch=0, base_sequence=-1),
    ],
    ids=[
        "nothing", "cut", "two batches", "base offset", "no records", "count too large", "count too small",
        "count negative", "count huge", "last offset delta", "last offset delta negative", "control",
        "no sequence",
    ],
)  # fmt: skip
def test_invalid_batch_headers_are_invalid_record(data: bytes) -> None:
    assert refused(data).code is ErrorCode.INVALID_RECORD


def test_partial_second_batch_is_ignored() -> None:
    data = build_batch(TWO)
    assert append(data + data[:40]).size == len(data)


def test_record_count_that_does_not_match_the_records_is_refused() -> None:
    lying = patched(patched(build_batch(TWO), 57, ">i", 3), 23, ">i", 2)
    assert refused(lying).code is ErrorCode.INVALID_RECORD


def test_unknown_codec_is_unknown_server_error() -> None:
    assert refused(patched(build_batch(TWO), ATTRIBUTES_AT, ">h", 5)).code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_failed_decompression_is_unknown_server_error() -> None:
    """Apache Kafka 4.3.1 responds with this code for all codecs."""
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        whole = bytearray(build_batch(TWO, compression=codec))
        whole[HEADER_BYTES:] = b"\xff" * (len(whole) - HEADER_BYTES)
        struct.pack_into(">I", whole, CRC_AT, crc32c(memoryview(whole)[CRC_FROM:]))
        assert refused(bytes(whole)).code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_decompressed_size_is_limited_by_max_decompressed_batch_bytes(codec: str) -> None:
    data = build_batch([NewRecord(b"a", bytes(100_000), NOW)], compression=codec)
    assert append(data, max_decompressed_bytes=101_000).record_count == 1
    refusal = refused(data, max_decompressed_bytes=99_000)
    assert refusal.code is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal.reason == (
        "the batch decompresses to more than the broker's max.decompressed.batch.bytes (99000 bytes)"
    )


def test_the_number_of_compressed_records_is_limited_by_max_decompressed_batch_bytes() -> None:
    data = build_batch([NewRecord(None, b"", NOW)] * 100, compression="zstd")
    assert append(data, max_decompressed_bytes=6_400).record_count == 100
    refusal = refused(data, max_decompressed_bytes=6_399)
    assert refusal.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "100 records" in refusal.reason
    assert "max.decompressed.batch.bytes (6399 bytes)" in refusal.reason
    assert append(build_batch([NewRecord(None, b"", NOW)] * 100), max_decompressed_bytes=1_000).record_count == 100


def test_batch_size_is_limited_by_max_message_bytes() -> None:
    data = build_batch(TWO)
    assert append(data, LogConfig(max_message_bytes=len(data))).size == len(data)
    assert refused(data, LogConfig(max_message_bytes=len(data) - 1)).code is ErrorCode.MESSAGE_TOO_LARGE
    assert refused(data, LogConfig(segment_bytes=len(data) - 1)).code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_compacted_topic_refuses_records_without_a_key_by_index() -> None:
    error = refused(build_batch([TWO[0], NewRecord(None, b"x", NOW), NewRecord(None, b"y", NOW)]), COMPACT)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [1, 2]
    assert append(build_batch([NewRecord(b"", b"x", NOW)]), COMPACT).record_count == 1


def test_future_timestamps_are_refused_by_index() -> None:
    rows = [NewRecord(b"k", b"v", NOW + HOUR), NewRecord(b"k", b"v", NOW + HOUR + 1)]
    error = refused(build_batch(rows))
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [1]
    assert str(NOW + HOUR + 1) in error.record_errors[0][1]


def test_old_timestamps_are_refused_by_topic_config() -> None:
    rows = [NewRecord(b"k", b"v", NOW - 10), NewRecord(b"k", b"v", NOW - 11)]
    assert append(build_batch(rows)).record_count == 2
    error = refused(build_batch(rows), LogConfig(message_timestamp_before_max_ms=10))
    assert (error.code, [index for index, _ in error.record_errors]) == (ErrorCode.INVALID_TIMESTAMP, [1])


def test_records_without_a_timestamp_are_accepted() -> None:
    config = LogConfig(message_timestamp_before_max_ms=10)
    assert append(build_batch([NewRecord(b"k", b"v", -1)]), config).max_timestamp_ms == -1


@pytest.mark.parametrize("times", [(-1, 2**63 - 1), (2**63 - 1, -1)])
def test_timestamps_whose_difference_has_more_than_64_bits_are_checked_one_by_one(times: tuple[int, int]) -> None:
    data = build_batch([NewRecord(b"k", b"v", time_ms) for time_ms in times])
    assert refused(data).record_errors[0][0] == times.index(2**63 - 1)
    assert append(data, LogConfig(message_timestamp_after_max_ms=2**63 - 1)).max_timestamp_ms == 2**63 - 1


def test_a_timestamp_that_wraps_around_to_the_past_is_refused() -> None:
    later = [TWO[0], TWO[0]._replace(timestamp_ms=NOW)]
    data = patched(build_batch(later), 27, ">q", 2**63 - 1)
    error = refused(data, LogConfig(message_timestamp_after_max_ms=2**63 - 1))
    assert (error.code, error.record_errors[0][0]) == (ErrorCode.INVALID_TIMESTAMP, 1)


def test_wrong_max_timestamp_in_the_header_is_corrected() -> None:
    """Retention and the time index use it."""
    info = append(build_batch(TWO, max_timestamp_ms=NOW + 30 * HOUR))
    assert info.max_timestamp_ms == NOW - 5
    assert has_right_crc(info.records)


def test_log_append_time_is_set_in_the_batch() -> None:
    info = append(build_batch(TWO), LogConfig(message_timestamp_type="LogAppendTime"))
    assert info.is_append_time
    assert has_right_crc(info.records)
    assert {record.timestamp_ms for record in iter_records(info.records)} == {NOW}


def test_log_append_time_accepts_any_producer_timestamp() -> None:
    rows = [NewRecord(b"k", b"v", NOW + 100 * HOUR)]
    assert append(build_batch(rows), LogConfig(message_timestamp_type="LogAppendTime")).max_timestamp_ms == NOW


def test_producer_must_not_set_log_append_time() -> None:
    data = build_batch(TWO, timestamp_type="append", max_timestamp_ms=NOW)
    error = refused(data, LogConfig(message_timestamp_type="LogAppendTime"))
    assert (error.code, len(error.record_errors)) == (ErrorCode.INVALID_TIMESTAMP, 2)


@pytest.mark.parametrize("sent", ["none", "gzip", "lz4"])
@pytest.mark.parametrize("kept", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_stored_in_the_topics_codec(sent: str, kept: str) -> None:
    data = build_batch(TWO, compression=sent, producer_id=4, producer_epoch=0, base_sequence=8)
    info = append(data, LogConfig(compression_type=kept))
    assert info.codec == ["none", "gzip", "snappy", "lz4", "zstd"].index(
        {"producer": sent, "uncompressed": "none"}.get(kept, kept)
    )
    assert has_right_crc(info.records)
    assert info == read_batch_info(info.records)
    assert (info.base_offset, info.leader_epoch, info.producer_id, info.base_sequence) == (100, 7, 4, 8)
    assert [(r.offset, r.key, r.value, r.timestamp_ms) for r in iter_records(info.records)] == [
        (100, b"a", b"1", NOW - 5), (101, b"b", b"2", NOW - 9),
    ]  # fmt: skip


def test_recompressed_batches_get_the_append_time() -> None:
    config = LogConfig(compression_type="gzip", message_timestamp_type="LogAppendTime")
    info = append(build_batch(TWO), config)
    assert info.is_append_time
    assert info.max_timestamp_ms == NOW


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_offset_gaps_are_replaced_by_dense_offsets(codec: str) -> None:
    data = build_batch(TWO, compression=codec, offset_deltas=[0, 0], last_offset_delta=1)
    assert [record.offset for record in iter_records(append(data).records)] == [100, 101]


def test_internal_batches_may_be_control_batches() -> None:
    data = build_batch([NewRecord(b"\0\0\0\1", b"\0\0\0\0\0\0", NOW)], control=True, base_offset=55)
    info = append(data, from_client=False)
    assert (info.is_control, info.base_offset) == (True, 100)


def test_records_refused_can_be_pickled() -> None:
    import pickle

    error = refused(build_batch([NewRecord(None, b"x", NOW)]), COMPACT)
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.record_errors, again.reason) == (error.code, error.record_errors, error.reason)


def test_validation_does_not_import_heavy_modules() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from kcli.broker.log.validator import *; from kcli.protocol.records.builder import *;"
        "b = bytearray(build_batch([NewRecord(None, b'x', 1)] * 9));"
        "validate_and_assign(memoryview(b), base_offset=0, leader_epoch=0, config=LogConfig(), now_wall_ms=5);"
        "print(sorted({'numpy', 'ssl', 'asyncio', 'cramjam', 'lz4'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
