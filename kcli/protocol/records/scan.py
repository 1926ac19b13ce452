"""Records of one batch of format v2, one after another. Imports no numpy unless the batch is compressed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kcli.errors import CorruptRecords, ProtocolError
from kcli.protocol.primitives import read_varint, read_varlong
from kcli.protocol.records import batch
from kcli.protocol.records.batch import Buffer

#: What a batch may grow to when it is decompressed; a broker takes no request of more than 100 MiB by default.
MOST_BYTES = 128 << 20

_SMALLEST_HEADER_BYTES = 2


class ScannedRecord(NamedTuple):
    """A record with its absolute offset and time; null keys and values are None."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def iter_records(data: Buffer) -> Iterator[ScannedRecord]:
    """The records of the batch that `data` begins with; `CorruptRecords` for what is none. The CRC is not looked at."""
    view = memoryview(data)
    if len(view) < batch.HEADER_BYTES or view[batch.MAGIC_AT] != 2:
        raise CorruptRecords("that is no record batch of format v2")
    header = batch.HEADER.unpack_from(view)
    base_offset, attributes, base_ms, max_ms, count = header[0], header[5], header[7], header[8], header[12]
    append_ms = max_ms if attributes & batch.APPEND_TIME_BIT else None
    payload = read_payload(view[: batch.PREFIX_BYTES + header[1]])
    at = 0
    try:
        for _ in range(count):
            record, at = _read_record(payload, at, base_offset, base_ms)
            yield record if append_ms is None else record._replace(timestamp_ms=append_ms)
    except ProtocolError as problem:
        raise CorruptRecords(f"a record is damaged: {problem}") from None
    if at != len(payload):
        raise CorruptRecords(f"{len(payload) - at} bytes are left over behind the last record")


def read_payload(whole: memoryview) -> bytes:
    """The records of one whole batch, decompressed if they must be; `CorruptRecords` when they cannot be."""
    codec = whole[batch.ATTRIBUTES_AT + 1] & batch.CODEC_MASK
    payload = whole[batch.HEADER_BYTES :]
    if not codec or not payload:
        return bytes(payload)
    from kcli.protocol.records.decompression import decompress
    from kcli.protocol.records.output import OutOfBudget, Output

    output = Output(MOST_BYTES, 4 * len(payload))
    try:
        decompress(codec, payload, output)
    except OutOfBudget:
        raise CorruptRecords(f"the batch holds more than {MOST_BYTES} bytes when it is decompressed") from None
    return bytes(memoryview(output.data)[: output.used])  # type: ignore[arg-type]


def _read_record(data: bytes, at: int, base_offset: int, base_ms: int) -> tuple[ScannedRecord, int]:
    length, at = read_varint(data, at)
    behind = at + length
    if length < 0 or behind > len(data):
        raise CorruptRecords(f"a record claims {length} bytes of {len(data) - at}")
    time_delta, at = read_varlong(data, at + 1)
    offset_delta, at = read_varint(data, at)
    key, at = _read_bytes(data, at, behind)
    value, at = _read_bytes(data, at, behind)
    count, at = read_varint(data, at)
    if not 0 <= count <= (behind - at) // _SMALLEST_HEADER_BYTES:
        raise CorruptRecords(f"a record claims {count} headers in {behind - at} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _read_bytes(data, at, behind)
        if name is None:
            raise CorruptRecords("the name of a record's header is null")
        header_value, at = _read_bytes(data, at, behind)
        headers.append((name.decode("utf-8", "replace"), header_value))
    if at != behind:
        raise CorruptRecords(f"a record's parts end {behind - at} bytes before its end")
    return ScannedRecord(base_offset + offset_delta, base_ms + time_delta, key, value, headers), at


def _read_bytes(data: bytes, at: int, limit: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    if length < 0:
        if length != -1:
            raise CorruptRecords(f"a record's part has a length of {length}")
        return None, at
    if at + length > limit:
        raise CorruptRecords(f"a record's part claims {length} bytes of {limit - at}")
    return data[at : at + length], at + length
