"""Record batches of format v2 written from rows or columns, byte for byte as Kafka's own classes write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.protocol.records import batch
from kcli.protocol.records.checksum import crc32c
from kcli.protocol.records.compression import CODEC_IDS, compress
from kcli.protocol.records.rows import NewRecord, encode_rows

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns

__all__ = ["NewRecord", "build_batch", "build_batch_from_columns", "record_size_upper_bound"]

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
    """One batch of `records`, its CRC-32C computed.

    `compression` is none, gzip, snappy, lz4 or zstd. Offsets are dense from `base_offset`; `offset_deltas` and
    `last_offset_delta` leave holes, as compaction does (and an empty batch needs the latter). With `timestamp_type`
    "append", `max_timestamp_ms` is the broker's time of appending, which readers give to every record.
    `delete_horizon_ms` sets attribute bit 6 (KIP-534).
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


def build_batch_from_columns(
    columns: RecordColumns, *, keep_offsets: bool = False, compression: str = "none", **options: object
) -> bytes:
    """One batch of `columns`; further options as for `build_batch`. `keep_offsets` keeps the records' offsets."""
    records = [NewRecord(row.key, row.value, row.timestamp_ms, row.headers) for row in columns]
    if keep_offsets and records:
        base = int(columns.offsets[0])
        options |= {"base_offset": base, "offset_deltas": (columns.offsets - base).tolist()}
    return build_batch(records, compression=compression, **options)  # type: ignore[arg-type]


def record_size_upper_bound(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
) -> int:
    """At most how many bytes a record adds to an uncompressed batch; for deciding when a batch is full."""
    # Varints: record length 5, timestamp delta 10, offset delta 5, key and value length 5 each, header count 5.
    size = 36 + len(key or b"") + len(value or b"")
    for name, header_value in headers:
        size += 10 + 3 * len(name) + len(header_value or b"")
    return size
