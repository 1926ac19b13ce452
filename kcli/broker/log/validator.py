"""Validation of produced batches (KIP-98, KIP-467, KIP-937) and assignment of their offsets, in place.

Kafka's LogValidator. The error codes are those of Apache Kafka 4.3.1. Two rules are stricter: offset deltas with gaps
are made dense whether the batch is compressed or not (Kafka checks them only in compressed batches), and a batch must
not decompress to more than max.decompressed.batch.bytes, where each record counts for 64 bytes at least, because some
kilobytes can be many millions of empty records, which take minutes to check.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kcli.broker.log.file_records import has_valid_checksum
from kcli.broker.log.log_config import LogConfig
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords, RecordTooLarge
from kcli.protocol.records import batch
from kcli.protocol.records.batch import BatchInfo
from kcli.protocol.records.checksum import crc32c
from kcli.protocol.records.compression import CODEC_IDS, CODEC_NAMES, DECOMPRESSED_BYTES_SETTING
from kcli.protocol.records.record import NewRecord, Record
from kcli.protocol.records.scan import iter_records, read_payload
from kcli.protocol.records.summary import RecordsSummary, summarize_records
from kcli.settings import INT_MAX, MAX_DECOMPRESSED_BYTES

NO_TIMESTAMP = -1
_LEAST_RECORD_BYTES = 64

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_MIN_SIZE = 14  # the size of the smallest message of format 0, the smallest of all formats
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_AT = 12
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP_AT = 35


class RecordsRefused(BrokerError):
    """A batch failed validation. `record_errors`: (index in the batch, reason) of each invalid record.

    `reason` is the sentence without the name of the code, as in a Produce response.
    """

    def __init__(self, code: int, reason: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(code, reason)
        self.reason = reason
        self.record_errors = record_errors


def validate_and_assign(
    records: memoryview,
    *,
    base_offset: int,
    leader_epoch: int,
    config: LogConfig,
    now_wall_ms: int,
    from_client: bool = True,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> BatchInfo:
    """Check the bytes of one partition of a Produce request and assign offsets from `base_offset` on.

    `records` is changed in place. `BatchInfo.records` are the bytes to append: `records`, or a new buffer when the
    topic's `compression.type` requires another codec. `RecordsRefused` gives the reason of a refusal. With
    `from_client` False (the broker's own records) control batches and base offsets other than 0 are valid.
    """
    records = records[: _only_batch(records)]
    header = batch.HEADER.unpack_from(records)
    attributes, last_delta, count = header[5], header[6], header[12]
    if from_client and header[0] != 0:
        raise _invalid(f"the base offset of a produced batch must be 0, not {header[0]}")
    _check_size(len(records), config)
    if crc32c(records[batch.CRC_FROM :]) != header[4] & 0xFFFFFFFF:
        raise RecordsRefused(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")
    if attributes & batch.CODEC_MASK >= len(CODEC_NAMES):
        raise RecordsRefused(ErrorCode.UNKNOWN_SERVER_ERROR, "the compression codec of the batch is unknown")
    if from_client:
        _check_header(attributes, last_delta, count, producer_id=header[9], base_sequence=header[11])
    limit = f"the broker's {DECOMPRESSED_BYTES_SETTING} ({max_decompressed_bytes} bytes)"
    if attributes & batch.CODEC_MASK and count * _LEAST_RECORD_BYTES > max_decompressed_bytes:
        reason = (
            f"the batch has {count} records, of at least {_LEAST_RECORD_BYTES} bytes each in memory: more than {limit}"
        )
        raise RecordsRefused(ErrorCode.MESSAGE_TOO_LARGE, reason)
    try:
        payload = read_payload(records, max_decompressed_bytes)
    except CorruptRecords as problem:
        raise RecordsRefused(ErrorCode.UNKNOWN_SERVER_ERROR, problem.message) from None
    except RecordTooLarge:
        raise RecordsRefused(ErrorCode.MESSAGE_TOO_LARGE, f"the batch decompresses to more than {limit}") from None
    try:
        summary = summarize_records(payload, count)
    except CorruptRecords as problem:
        raise _invalid(problem.message) from None
    largest_ms = _check_records(records, header, summary, config, now_wall_ms)
    codec = target_codec(config, attributes & batch.CODEC_MASK)
    if not summary.is_dense or (codec != attributes & batch.CODEC_MASK and not attributes & batch.CONTROL_BIT):
        records = _rebuild(records, codec, config, now_wall_ms)
        _check_size(len(records), config)
        last_delta = count - 1
    else:
        append_time = config.message_timestamp_type == "LogAppendTime"
        _set_max_timestamp(records, header, now_wall_ms if append_time else largest_ms, append_time)
    _OFFSET.pack_into(records, 0, base_offset)
    _EPOCH.pack_into(records, _LEADER_EPOCH_AT, leader_epoch)
    (attributes,) = _ATTRIBUTES.unpack_from(records, batch.ATTRIBUTES_AT)
    base_ms, max_ms = struct.unpack_from(">qq", records, _MAX_TIMESTAMP_AT - 8)
    return BatchInfo(
        base_offset, base_offset + last_delta, leader_epoch, attributes, base_ms, max_ms, header[9], header[10],
        header[11], count, len(records), records,
    )  # fmt: skip


def batches_of_leader(data: memoryview, leader_epoch: int) -> list[BatchInfo]:
    """Return the whole batches of a leader's answer to its follower, up to the first one of a later epoch.

    `CorruptRecords` for a batch that is not valid, or has offsets that do not increase.
    """
    walk = batch.walk_batches(data, 0, len(data))
    if walk.problem is not None:
        raise CorruptRecords(f"a batch of the leader is not valid: {walk.problem}")
    infos: list[BatchInfo] = []
    next_offset = 0
    for start in walk.starts:
        info = batch.read_batch_info(data, start)
        if info.leader_epoch > leader_epoch:
            break
        if info.magic != 2:
            raise CorruptRecords(f"a batch of the leader has format {info.magic}; only format 2 is supported")
        if not next_offset <= info.base_offset <= info.last_offset:
            raise CorruptRecords(f"a batch of the leader has the offset {info.base_offset} after {next_offset - 1}")
        if not has_valid_checksum(info):
            raise CorruptRecords(f"the checksum of the leader's batch at offset {info.base_offset} is wrong")
        next_offset = info.last_offset + 1
        infos.append(info)
    return infos


def target_codec(config: LogConfig, codec: int) -> int:
    """Return the codec in which a batch received in `codec` is stored."""
    wanted = config.compression_type
    return codec if wanted == "producer" else 0 if wanted == "uncompressed" else CODEC_IDS[wanted]


def _only_batch(records: memoryview) -> int:
    """Return the size of the only batch in `records`. A partial batch after it is ignored, as in Kafka."""
    size = _batch_size(records, 0)
    if size is None:
        raise _invalid("the record batch is missing or incomplete")
    if records[batch.MAGIC_AT] < 2:
        raise _invalid(f"record format {records[batch.MAGIC_AT]} is not supported; use format 2")
    if size < batch.HEADER_BYTES:
        raise RecordsRefused(ErrorCode.CORRUPT_MESSAGE, f"the size of a batch is not valid: {size} bytes")
    if len(records) > size and _batch_size(records, size) is not None:
        raise _invalid("there is more than one record batch")
    return size


def _batch_size(records: memoryview, at: int) -> int | None:
    available = len(records) - at
    if available <= batch.MAGIC_AT:
        return None
    _, size = batch.PREFIX.unpack_from(records, at)
    if size < _MIN_SIZE:
        raise RecordsRefused(ErrorCode.CORRUPT_MESSAGE, f"the size of a batch is not valid: {size} bytes")
    if records[at + batch.MAGIC_AT] > 2:
        raise RecordsRefused(ErrorCode.CORRUPT_MESSAGE, f"record format {records[at + batch.MAGIC_AT]} is unknown")
    size += batch.PREFIX_BYTES
    return size if size <= available else None


def _check_size(size: int, config: LogConfig) -> None:
    if size > config.max_message_bytes:
        reason = f"the batch has {size} bytes, more than the topic's max.message.bytes of {config.max_message_bytes}"
        raise RecordsRefused(ErrorCode.MESSAGE_TOO_LARGE, reason)
    if size > config.segment_bytes:
        reason = f"the batch has {size} bytes, more than the topic's segment.bytes of {config.segment_bytes}"
        raise RecordsRefused(ErrorCode.RECORD_LIST_TOO_LARGE, reason)


def _check_header(attributes: int, last_delta: int, count: int, *, producer_id: int, base_sequence: int) -> None:
    if last_delta < 0 or count <= 0 or count != last_delta + 1:
        raise _invalid(f"the batch has a record count of {count} but a last offset delta of {last_delta}")
    if attributes & batch.CONTROL_BIT:
        raise _invalid("clients must not write control records")
    if producer_id >= 0 and base_sequence < 0:
        raise _invalid(f"the batch of producer {producer_id} has a sequence number of {base_sequence}")


def _check_records(
    records: memoryview, header: tuple[int, ...], summary: RecordsSummary, config: LogConfig, now_wall_ms: int
) -> int:
    """Return the largest timestamp of the records, after checking that all records are valid."""
    stamped = header[5] & batch.APPEND_TIME_BIT
    if stamped:  # every record has the timestamp of its batch
        min_ms = max_ms = header[8]
    else:
        min_ms, max_ms = header[7] + summary.min_timestamp_delta, header[7] + summary.max_timestamp_delta
        if min_ms < _INT64_MIN or max_ms > _INT64_MAX:  # some timestamps wrap around
            times_ms = [record.timestamp_ms for record in iter_records(records, INT_MAX)]
            min_ms, max_ms = min(times_ms), max(times_ms)
    if config.message_timestamp_type == "CreateTime":
        earliest, latest = _time_range(config, now_wall_ms)
        may_be_invalid = not (earliest <= min_ms and max_ms <= latest) or (stamped and max_ms == NO_TIMESTAMP)
    else:
        may_be_invalid = bool(stamped)
    if may_be_invalid or (summary.has_null_key and config.is_compacted):
        _refuse_records(records, config, now_wall_ms)
    return max_ms


def _time_range(config: LogConfig, now_wall_ms: int) -> tuple[int, int]:
    return now_wall_ms - config.message_timestamp_before_max_ms, now_wall_ms + config.message_timestamp_after_max_ms


def _refuse_records(records: memoryview, config: LogConfig, now_wall_ms: int) -> None:
    """Check records one by one and raise for the invalid ones; there may be none after all."""
    stamped = bool(records[batch.ATTRIBUTES_AT + 1] & batch.APPEND_TIME_BIT)
    invalid = list(_record_errors(iter_records(records, INT_MAX), stamped, config, now_wall_ms))
    if not invalid:
        return
    errors = tuple((index, reason) for index, reason, _ in invalid)
    if any(is_time for _, _, is_time in invalid):
        raise RecordsRefused(ErrorCode.INVALID_TIMESTAMP, "records have timestamps that are not allowed", errors)
    raise RecordsRefused(ErrorCode.INVALID_RECORD, f"{len(errors)} records are not allowed", errors)


def _record_errors(
    records: Iterator[Record], stamped: bool, config: LogConfig, now_wall_ms: int
) -> Iterator[tuple[int, str, bool]]:
    """Yield (index, reason, whether the reason is the timestamp) of each invalid record."""
    earliest, latest = _time_range(config, now_wall_ms)
    for index, record in enumerate(records):
        if config.is_compacted and record.key is None:
            yield index, "a record of a compacted topic must have a key", False
        elif config.message_timestamp_type == "CreateTime" and record.timestamp_ms != NO_TIMESTAMP:
            if not earliest <= record.timestamp_ms <= latest:
                yield index, f"the timestamp {record.timestamp_ms} is not within [{earliest}, {latest}]", True
        elif stamped:
            yield index, "a producer must not set the timestamp type LogAppendTime", True


def _set_max_timestamp(records: memoryview, header: tuple[int, ...], max_ms: int, append_time: bool) -> None:
    """Write the timestamp type and the largest timestamp, and update the checksum if they change."""
    attributes = header[5] & ~batch.APPEND_TIME_BIT | batch.APPEND_TIME_BIT * append_time
    if (attributes, max_ms) != (header[5], header[8]):
        _ATTRIBUTES.pack_into(records, batch.ATTRIBUTES_AT, attributes)
        _OFFSET.pack_into(records, _MAX_TIMESTAMP_AT, max_ms)
        _CRC.pack_into(records, batch.CRC_AT, crc32c(records[batch.CRC_FROM :]))


def _rebuild(records: memoryview, codec: int, config: LogConfig, now_wall_ms: int) -> memoryview:
    """Return a new batch of the same records with dense offsets in the given codec."""
    from kcli.protocol.records.builder import build_batch

    header = batch.HEADER.unpack_from(records)
    append_time = config.message_timestamp_type == "LogAppendTime"
    rows = [NewRecord(row.key, row.value, row.timestamp_ms, row.headers) for row in iter_records(records, INT_MAX)]
    return memoryview(
        bytearray(
            build_batch(
                rows,
                compression=CODEC_NAMES[codec],
                producer_id=header[9],
                producer_epoch=header[10],
                base_sequence=header[11],
                transactional=bool(header[5] & batch.TRANSACTIONAL_BIT),
                control=bool(header[5] & batch.CONTROL_BIT),
                timestamp_type="append" if append_time else "create",
                max_timestamp_ms=now_wall_ms if append_time else None,
            )
        )
    )


def _invalid(reason: str) -> RecordsRefused:
    return RecordsRefused(ErrorCode.INVALID_RECORD, reason)
