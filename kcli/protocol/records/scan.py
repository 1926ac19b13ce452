"""The records of one batch of format v2, read in order. Imports no numpy unless the batch is compressed.

`iter_records` reads whole records, `read_pairs` keys and values only (for a replay of the offsets topic), and
`iter_record_heads` offsets and times only. None of them checks the CRC.
"""

from __future__ import annotations

from collections.abc import Iterator

from kcli.errors import CorruptRecords, ProtocolError
from kcli.protocol.primitives import int64, read_unsigned_varint, read_varint, read_varlong
from kcli.protocol.records import batch
from kcli.protocol.records.batch import Buffer
from kcli.protocol.records.compression import too_large
from kcli.protocol.records.record import Record
from kcli.settings import MAX_DECOMPRESSED_BYTES

_SMALLEST_HEADER_BYTES = 2

#: Distance to the batch's base offset, key, value.
Pair = tuple[int, bytes | None, bytes | None]

#: The first fields of a record: offset delta, timestamp delta, position of the key's length, position of its end.
RecordHead = tuple[int, int, int, int]


def read_payload(batch_bytes: memoryview, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Return the uncompressed records of one whole batch.

    `CorruptRecords` if they cannot be decompressed, `RecordTooLarge` if they have more than `max_bytes` then.
    """
    codec = batch_bytes[batch.ATTRIBUTES_AT + 1] & batch.CODEC_MASK
    payload = batch_bytes[batch.HEADER_BYTES :]
    if not codec or not payload:
        return bytes(payload)
    from kcli.protocol.records.decompression import OutOfBudget, Output, decompress

    output = Output(max_bytes, 4 * len(payload))
    try:
        decompress(codec, payload, output)
    except OutOfBudget:
        info = batch.read_batch_info(batch_bytes)
        raise too_large(info.base_offset, info.last_offset + 1, max_bytes) from None
    return bytes(output.view())


def iter_records(data: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
    """Yield the records of the first batch in `data`; `CorruptRecords` for anything malformed, `RecordTooLarge`."""
    view = memoryview(data)
    _check_is_v2(view)
    info = batch.read_batch_info(view)
    append_ms = info.max_timestamp_ms if info.is_append_time else None
    payload = read_payload(view[: info.size], max_bytes)
    at = 0
    try:
        for _ in range(info.record_count):
            record, at = _read_record(payload, at, info.base_offset, info.base_timestamp_ms)
            yield record if append_ms is None else record._replace(timestamp_ms=append_ms)
    except ProtocolError as problem:
        raise CorruptRecords(f"a record is damaged: {problem}") from None
    _check_end(at, payload)


def _check_is_v2(view: memoryview) -> None:
    if len(view) < batch.HEADER_BYTES or view[batch.MAGIC_AT] != 2:
        raise CorruptRecords("the bytes are not a record batch of format v2")


def _check_end(at: int, payload: bytes) -> None:
    if at != len(payload):
        raise CorruptRecords(f"{len(payload) - at} bytes follow the last record of the batch")


def _read_record(data: bytes, at: int, base_offset: int, base_ms: int) -> tuple[Record, int]:
    length, at = read_varint(data, at)
    end = at + length
    if length < 0 or end > len(data):
        raise CorruptRecords(f"the length of a record is {length}, but only {len(data) - at} bytes are left")
    time_delta, at = read_varlong(data, at + 1)
    offset_delta, at = read_varint(data, at)
    key, at = _read_bytes(data, at, end)
    value, at = _read_bytes(data, at, end)
    count, at = read_varint(data, at)
    if not 0 <= count <= (end - at) // _SMALLEST_HEADER_BYTES:
        raise CorruptRecords(f"the header count of a record is {count}, but only {end - at} bytes are left")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _read_bytes(data, at, end)
        if name is None:
            raise CorruptRecords("the name of a record header is null")
        header_value, at = _read_bytes(data, at, end)
        headers.append((name.decode("utf-8", "replace"), header_value))
    if at != end:
        raise CorruptRecords(f"the fields of a record end {end - at} bytes before the record does")
    return Record(base_offset + offset_delta, int64(base_ms + time_delta), key, value, headers), at


def _read_bytes(data: bytes, at: int, limit: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    if length < 0:  # null, as for Java's reader
        return None, at
    if at + length > limit:
        raise CorruptRecords(f"the length of a record field is {length}, but only {limit - at} bytes are left")
    return data[at : at + length], at + length


def iter_record_heads(payload: bytes, count: int, *, skip: int = 0) -> Iterator[RecordHead]:
    """Yield the heads of `count` uncompressed records, without the first `skip`; `CorruptRecords` for damage.

    It takes half the time of reading whole records.
    """
    at, size = 0, len(payload)
    try:
        for number in range(count):
            length, at = read_varint(payload, at)
            end = at + length
            if length <= 0 or end > size:
                raise CorruptRecords(f"the length of a record is {length}, but only {size - at} bytes are left")
            if number >= skip:
                timestamp_delta, key_at = read_varlong(payload, at + 1)
                offset_delta, key_at = read_varint(payload, key_at)
                yield offset_delta, timestamp_delta, key_at, end
            at = end
    except ProtocolError as problem:
        raise CorruptRecords(f"a record is damaged: {problem}") from None


def read_pairs(data: memoryview, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> list[Pair]:
    """Return the keys and values of one whole batch; `CorruptRecords` for anything malformed, `RecordTooLarge`.

    One loop over plain bytes, because the start of a broker with a long log of committed offsets consists of little
    else.
    """
    _check_is_v2(data)
    count = batch.HEADER.unpack_from(data)[12]
    payload = read_payload(data, max_bytes)
    pairs: list[Pair] = []
    at = 0
    try:
        for _ in range(count):
            at = _read_pair(payload, at, pairs)
    except (IndexError, ProtocolError):
        raise CorruptRecords(f"record {len(pairs)} of {count} does not fit in the batch") from None
    _check_end(at, payload)
    return pairs


def _read_pair(data: bytes, at: int, pairs: list[Pair]) -> int:
    """Lengths are zigzag: the lowest bit is the sign. A negative length is null."""
    length = data[at]
    at += 1
    if length >= 0x80:
        length, at = read_unsigned_varint(data, at - 1)
    end = at + (length >> 1)
    if length & 1 or end > len(data):
        raise IndexError
    at += 1  # attributes
    while data[at] >= 0x80:  # timestamp delta
        at += 1
    delta = data[at + 1]
    at += 2
    if delta >= 0x80:
        delta, at = read_unsigned_varint(data, at - 1)
    key_length = data[at]
    at += 1
    if key_length >= 0x80:
        key_length, at = read_unsigned_varint(data, at - 1)
    key = None
    if not key_length & 1:
        key = data[at : at + (key_length >> 1)]
        at += key_length >> 1
    value_length = data[at]
    at += 1
    if value_length >= 0x80:
        value_length, at = read_unsigned_varint(data, at - 1)
    value = None
    if not value_length & 1:
        value = data[at : at + (value_length >> 1)]
        at += value_length >> 1
    if at > end or delta & 1:
        raise IndexError
    pairs.append((delta >> 1, key, value))
    return end
