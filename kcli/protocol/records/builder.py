"""Record batches of format v2, encoded column by column, byte for byte as Kafka's own classes encode them.

Imports no numpy, so that a producer starts without it.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from operator import add
from typing import NamedTuple

from kcli.protocol.primitives import int64, varlong
from kcli.protocol.records import batch
from kcli.protocol.records.checksum import crc32c
from kcli.protocol.records.compression import CODEC_IDS, compress
from kcli.protocol.records.record import ABORT_MARKER, COMMIT_MARKER, Headers, NewRecord, NewRecords

__all__ = ["NewRecord", "RecordsEncoder", "build_batch", "build_marker", "encode_records"]

NO_PRODUCER = -1
_TIMESTAMP_TYPES = ("create", "append")
# `batch.HEADER` in two parts: up to the CRC, and the fields that the CRC covers.
_HEADER_TO_CRC, _HEADER_AFTER_CRC = struct.Struct(">qiibI"), struct.Struct(">hiqqqhii")


class EncodedRecords(NamedTuple):
    """The records of a batch, encoded and compressed, and the fields of its header that follow from them."""

    payload: bytes
    codec: int
    record_count: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int

    def batch(
        self,
        *,
        base_offset: int = 0,
        leader_epoch: int = -1,
        producer_id: int = NO_PRODUCER,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        other_attributes: int = 0,
    ) -> bytes:
        """Return the batch with these fields in its header, and its CRC-32C."""
        attributes = self.codec | batch.TRANSACTIONAL_BIT * transactional | other_attributes
        checked = _HEADER_AFTER_CRC.pack(
            attributes, self.last_offset_delta, self.base_timestamp_ms, self.max_timestamp_ms, producer_id,
            producer_epoch, base_sequence, self.record_count,
        )  # fmt: skip
        crc = crc32c(self.payload, crc32c(checked))
        size = batch.HEADER_BYTES - batch.PREFIX_BYTES + len(self.payload)
        return b"".join((_HEADER_TO_CRC.pack(base_offset, size, leader_epoch, 2, crc), checked, self.payload))


class RecordsEncoder:
    """Encodes the records of a batch in parts, as they are added, while they are in the cache of the processor."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._record_count = 0
        self._base_timestamp_ms = self._max_timestamp_ms = -1

    def add(self, records: NewRecords) -> None:
        """Encode records; their offsets follow on those before."""
        first_timestamp_ms, latest_timestamp_ms = _first_and_latest_ms(records)
        if not self._parts:
            self._base_timestamp_ms = first_timestamp_ms
        self._max_timestamp_ms = max(self._max_timestamp_ms, latest_timestamp_ms)
        deltas = range(self._record_count, self._record_count + len(records))
        self._parts.append(encode_records(records, deltas, self._base_timestamp_ms))
        self._record_count += len(records)

    def finish(self, compression: str) -> EncodedRecords:
        """Return all records as a batch, compressed."""
        return EncodedRecords(
            compress(compression, b"".join(self._parts)),
            CODEC_IDS[compression],
            self._record_count,
            self._record_count - 1,
            self._base_timestamp_ms,
            self._max_timestamp_ms,
        )


def encode_batch(
    records: NewRecords,
    compression: str,
    *,
    offset_deltas: Sequence[int] | None = None,
    base_timestamp_ms: int | None = None,
) -> EncodedRecords:
    """Encode and compress the records of a batch. `base_timestamp_ms` None: the timestamp of the first record."""
    deltas: Sequence[int] = range(len(records)) if offset_deltas is None else offset_deltas
    first_timestamp_ms, latest_timestamp_ms = _first_and_latest_ms(records)
    if base_timestamp_ms is None:
        base_timestamp_ms = first_timestamp_ms
    payload = encode_records(records, deltas, base_timestamp_ms)
    if records:
        payload = compress(compression, payload)
    last_offset_delta = deltas[-1] if deltas else 0
    codec = CODEC_IDS[compression]
    return EncodedRecords(payload, codec, len(records), last_offset_delta, base_timestamp_ms, latest_timestamp_ms)


def build_batch(
    records: Sequence[NewRecord] | NewRecords,
    *,
    compression: str = "none",
    offset_deltas: Sequence[int] | None = None,
    last_offset_delta: int | None = None,
    control: bool = False,
    timestamp_type: str = "create",
    max_timestamp_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """Build one batch of `records` with its CRC-32C.

    `compression` is none, gzip, snappy, lz4 or zstd. Offsets are dense from `base_offset`, unless `offset_deltas` and
    `last_offset_delta` leave holes as compaction does (an empty batch needs the latter). With `timestamp_type`
    "append", `max_timestamp_ms` is the broker's append time, which readers report for every record.
    `delete_horizon_ms` sets attribute bit 6 (KIP-534). ConfigError for an unknown codec.
    """
    if not isinstance(records, NewRecords):
        records = NewRecords.of(records)
    encoded = encode_batch(records, compression, offset_deltas=offset_deltas, base_timestamp_ms=delete_horizon_ms)
    if last_offset_delta is not None:
        encoded = encoded._replace(last_offset_delta=last_offset_delta)
    if max_timestamp_ms is not None:
        encoded = encoded._replace(max_timestamp_ms=max_timestamp_ms)
    attributes = (
        batch.APPEND_TIME_BIT * _TIMESTAMP_TYPES.index(timestamp_type)
        | batch.CONTROL_BIT * control
        | batch.DELETE_HORIZON_BIT * (delete_horizon_ms is not None)
    )
    return encoded.batch(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        other_attributes=attributes,
    )


def _first_and_latest_ms(records: NewRecords) -> tuple[int, int]:
    """Return the timestamp of the first record and the latest one; -1 without records."""
    times_ms = records.timestamps_ms
    if not len(records):
        return -1, -1
    return (times_ms, times_ms) if isinstance(times_ms, int) else (times_ms[0], max(times_ms))


def build_marker(
    producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int, timestamp_ms: int
) -> bytes:
    """Build the control batch that ends a transaction (KIP-98)."""
    key = struct.pack(">hh", 0, COMMIT_MARKER if commit else ABORT_MARKER)
    marker = NewRecord(key, struct.pack(">hi", 0, coordinator_epoch), timestamp_ms)
    return build_batch(
        [marker], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )


class _Varints(dict[int, bytes]):
    """Varints by number, after the same bytes. Each is kept after its first use, because nearly all are small."""

    def __init__(self, before: bytes = b"") -> None:
        self._before = before

    def __missing__(self, number: int) -> bytes:
        encoded = self._before + varlong(number)
        if len(self) < _REMEMBERED:
            self[number] = encoded
        return encoded


class _TimestampDeltas(_Varints):
    """Varints of differences of timestamps. One of more than 64 bits wraps around, as in Kafka's classes."""

    def __missing__(self, number: int) -> bytes:
        return super().__missing__(int64(number))


class _Sizes(dict[int, int]):
    """Bytes of a key or value with its length before it, by length; the length of null is -1."""

    def __missing__(self, length: int) -> int:
        size = len(_VARINTS[length]) + max(length, 0)
        if len(self) < _REMEMBERED:
            self[length] = size
        return size


class _Prefixes(dict[int, bytes]):
    """The start of a record: its size, then bytes that all records share (`after`), and `before` it the same.

    The key is the size without `fixed_bytes`; or, with `by_length`, the length of the value, which alone varies.
    """

    def __init__(self, fixed_bytes: int, before: bytes, after: bytes, by_length: bool) -> None:
        self._fixed_bytes = fixed_bytes
        self._before, self._after = before, after
        self._by_length = by_length

    def __missing__(self, number: int) -> bytes:
        size = _SIZES[number] if self._by_length else number
        prefix = self._before + varlong(self._fixed_bytes + size) + self._after
        if len(self) < _REMEMBERED:
            self[number] = prefix
        return prefix


# The tables of the last batches, because the next batch nearly always needs one of them.
_prefix_table = lru_cache(maxsize=8)(_Prefixes)


class _HeaderNames(dict[str, bytes]):
    """Names of headers, encoded with their length."""

    def __missing__(self, name: str) -> bytes:
        data = name.encode()
        encoded = _VARINTS[len(data)] + data
        if len(self) < _REMEMBERED_NAMES:
            self[name] = encoded
        return encoded


_NULL, _NO_HEADERS, _ATTRIBUTES = b"\x01", b"\0", b"\0"
_REMEMBERED, _REMEMBERED_NAMES = 1 << 14, 1 << 8
_VARINTS, _VARINTS_AFTER_NULL, _SIZES, _HEADER_NAMES = _Varints(), _Varints(_NULL), _Sizes(), _HeaderNames()
_TIMESTAMP_DELTAS = _TimestampDeltas()
_OFFSETS: list[bytes] = []  # varints of 0, 1, 2, ..., as many as a batch has needed


def encode_records(records: NewRecords, offset_deltas: Sequence[int], base_timestamp_ms: int) -> bytes:
    """Encode the records of a batch, before compression.

    Each field is made for all records at once, as a column of bytes objects; the columns are then joined record by
    record. A field that is the same in all records is a part of its neighbour: of the start of a record, of the length
    of its value, or (no headers) of the start of the next record. This makes fewer objects to join.
    """
    values, value_lengths = _with_lengths(records.values)
    columns: list[Sequence[bytes]] = [offsets := _offset_varints(offset_deltas)]
    sizes: list[Iterable[int]] = []  # of the fields that vary, besides the value
    fixed_bytes, start, end = len(_ATTRIBUTES), _ATTRIBUTES, b""
    if isinstance(records.timestamps_ms, int):
        timestamp = _TIMESTAMP_DELTAS[records.timestamps_ms - base_timestamp_ms]
        fixed_bytes += len(timestamp)
        start += timestamp
    else:
        deltas = (time_ms - base_timestamp_ms for time_ms in records.timestamps_ms)
        timestamps = list(map(_TIMESTAMP_DELTAS.__getitem__, deltas))
        columns.insert(0, timestamps)
        sizes.append(map(len, timestamps))
    if records.keys is None:
        fixed_bytes += len(_NULL)
        columns += list(map(_VARINTS_AFTER_NULL.__getitem__, value_lengths)), values
    else:
        keys, key_lengths = _with_lengths(records.keys)
        sizes.append(map(_SIZES.__getitem__, key_lengths))
        columns += _varints(key_lengths), keys, _varints(value_lengths), values
    if records.headers is None:
        fixed_bytes += len(_NO_HEADERS)
        end = _NO_HEADERS
    else:
        headers = _encode_headers(records.headers)
        sizes.append(map(len, headers))
        columns.append(headers)
    numbers: Iterable[int] = value_lengths
    if sizes:
        numbers = map(_SIZES.__getitem__, value_lengths)
        for column in sizes:
            numbers = map(add, numbers, column)
    columns.insert(0, _prefixes(numbers, offsets, fixed_bytes, end, start, by_length=not sizes))
    return _join_columns(columns, end)


def _with_lengths(column: Sequence[bytes | None]) -> tuple[Sequence[bytes], list[int]]:
    """Return keys or values with null as b"", and their lengths, with null as -1."""
    try:
        return column, list(map(len, column))  # type: ignore[return-value, arg-type]
    except TypeError:  # there is a null
        return [data or b"" for data in column], [-1 if data is None else len(data) for data in column]


def _varints(numbers: Iterable[int]) -> list[bytes]:
    return list(map(_VARINTS.__getitem__, numbers))


def _offset_varints(deltas: Sequence[int]) -> list[bytes]:
    count = len(deltas)
    if count > _REMEMBERED or deltas != range(count):
        return _varints(deltas)
    if count > len(_OFFSETS):
        _OFFSETS.extend(map(varlong, range(len(_OFFSETS), count)))
    return _OFFSETS[:count]


def _prefixes(
    numbers: Iterable[int], offsets: Sequence[bytes], fixed_bytes: int, before: bytes, after: bytes, *, by_length: bool
) -> list[bytes]:
    """Return the start of each record, see `_Prefixes`.

    The size contains the offset delta. Deltas ascend, so the records are divided into runs with the same length of it.
    """
    prefixes: list[bytes] = []
    numbers = iter(numbers)
    at = 0
    while at < len(offsets):
        width = len(offsets[at])
        end = len(offsets) if len(offsets[-1]) == width else bisect_right(offsets, width, at, key=len)
        table = _prefix_table(fixed_bytes + width, before, after, by_length)
        prefixes += map(table.__getitem__, islice(numbers, end - at))
        at = end
    return prefixes


def _join_columns(columns: Sequence[Sequence[bytes]], end: bytes) -> bytes:
    """Return the first row of all columns, then the second one, and so on. `end` moves from the start to the end."""
    count = len(columns[0])
    if not count:
        return b""
    fields = [b""] * (count * len(columns))
    for at, column in enumerate(columns):
        fields[at :: len(columns)] = column
    fields[0] = fields[0][len(end) :]
    fields.append(end)
    return b"".join(fields)


def _encode_headers(column: Iterable[Headers]) -> list[bytes]:
    """Return the encoded headers of each record. Adjacent records often have the same ones, as the same object."""
    encoded: list[bytes] = []
    last: Headers = ()
    fields = _NO_HEADERS
    for headers in column:
        if headers is not last:
            parts = [_VARINTS[len(headers)]]
            for name, value in headers:
                parts += _HEADER_NAMES[name], *((_NULL,) if value is None else (_VARINTS[len(value)], value))
            last, fields = headers, b"".join(parts)
        encoded.append(fields)
    return encoded
