"""Record batches of format v2 encoded from rows or columns, byte for byte as Kafka's own classes encode them.

Imports no numpy, so that a producer starts without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcli.protocol.primitives import varlong
from kcli.protocol.records import batch
from kcli.protocol.records.checksum import crc32c
from kcli.protocol.records.compression import CODEC_IDS, compress
from kcli.protocol.records.record import Headers, NewRecord

__all__ = ["NewRecord", "build_batch", "encode_rows"]

NO_PRODUCER = -1
_TIMESTAMP_TYPES = ("create", "append")


def build_batch(
    records: Sequence[NewRecord],
    *,
    compression: str = "none",
    base_offset: int = 0,
    offset_deltas: Sequence[int] | None = None,
    last_offset_delta: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: str = "create",
    max_timestamp_ms: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Build one batch of `records` with its CRC-32C.

    `compression` is none, gzip, snappy, lz4 or zstd. Offsets are dense from `base_offset`, unless `offset_deltas` and
    `last_offset_delta` leave holes as compaction does (an empty batch needs the latter). With `timestamp_type`
    "append", `max_timestamp_ms` is the broker's append time, which readers report for every record.
    `delete_horizon_ms` sets attribute bit 6 (KIP-534). ConfigError for an unknown codec.
    """
    deltas: Sequence[int] = range(len(records)) if offset_deltas is None else offset_deltas
    if delete_horizon_ms is not None:
        base_timestamp_ms = delete_horizon_ms
    else:
        base_timestamp_ms = records[0].timestamp_ms if records else -1
    if max_timestamp_ms is None:
        max_timestamp_ms = max((record.timestamp_ms for record in records), default=-1)
    if last_offset_delta is None:
        last_offset_delta = deltas[-1] if deltas else 0
    payload = encode_rows(records, deltas, base_timestamp_ms)
    attributes = (
        CODEC_IDS[compression]
        | batch.APPEND_TIME_BIT * _TIMESTAMP_TYPES.index(timestamp_type)
        | batch.TRANSACTIONAL_BIT * transactional
        | batch.CONTROL_BIT * control
        | batch.DELETE_HORIZON_BIT * (delete_horizon_ms is not None)
    )
    if records:
        payload = compress(compression, payload)
    header = bytearray(batch.HEADER_BYTES)
    batch.HEADER.pack_into(
        header, 0, base_offset, batch.HEADER_BYTES - batch.PREFIX_BYTES + len(payload), leader_epoch, 2, 0, attributes,
        last_offset_delta, base_timestamp_ms, max_timestamp_ms, producer_id, producer_epoch, base_sequence,
        len(records),
    )  # fmt: skip
    crc = crc32c(payload, crc32c(memoryview(header)[batch.CRC_FROM :]))
    header[batch.CRC_AT : batch.CRC_FROM] = crc.to_bytes(4, "big")
    return bytes(header) + payload


# Varints of small numbers, because nearly all lengths and deltas are small. Extended with the first large batch.
_SMALL: list[bytes] = [varlong(n) for n in range(256)]
_SMALL_LIMIT = 8192
_NULL = b"\x01"


def encode_rows(rows: Sequence[NewRecord], offset_deltas: Iterable[int], base_timestamp_ms: int) -> bytes:
    """Encode the records of a batch, before compression."""
    if len(_SMALL) < min(len(rows), _SMALL_LIMIT):
        _SMALL.extend(varlong(n) for n in range(len(_SMALL), _SMALL_LIMIT))
    small, limit = _SMALL, len(_SMALL)
    parts: list[bytes] = []
    last_ms, timestamp_part = -1, b""
    for (key, value, timestamp_ms, headers), delta in zip(rows, offset_deltas, strict=True):
        if timestamp_ms != last_ms or not timestamp_part:
            last_ms, timestamp_part = timestamp_ms, b"\0" + varlong(timestamp_ms - base_timestamp_ms)
        offset_varint = small[delta] if delta < limit else varlong(delta)
        size = len(timestamp_part) + len(offset_varint) + 1
        if key is None:
            key_size, key = _NULL, b""
            size += 1
        else:
            length = len(key)
            key_size = small[length] if length < limit else varlong(length)
            size += len(key_size) + length
        if value is None:
            value_size, value = _NULL, b""
            size += 1
        else:
            length = len(value)
            value_size = small[length] if length < limit else varlong(length)
            size += len(value_size) + length
        header_part = b"\0"
        if headers:
            header_part = _encode_headers(headers)
            size += len(header_part) - 1
        parts += (
            small[size] if size < limit else varlong(size),
            timestamp_part,
            offset_varint,
            key_size,
            key,
            value_size,
            value,
            header_part,
        )
    return b"".join(parts)


def _encode_headers(headers: Headers) -> bytes:
    parts = [varlong(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += varlong(len(encoded)), encoded
        parts += (_NULL,) if value is None else (varlong(len(value)), value)
    return b"".join(parts)
