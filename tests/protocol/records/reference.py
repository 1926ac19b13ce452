"""A second, slow decoder of v2 payloads, record by record, written from the description of the format."""

from __future__ import annotations

from kcli.protocol.records.record import Record


def varint(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at


def span(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = varint(data, at)
    return (None, at) if length < 0 else (data[at : at + length], at + length)


def records(data: bytes) -> list[Record]:
    """Return the records of uncompressed batches with create time."""
    found = []
    base = 0
    while base < len(data):
        end = base + 12 + int.from_bytes(data[base + 8 : base + 12], "big")
        base_offset = int.from_bytes(data[base : base + 8], "big")
        base_timestamp = int.from_bytes(data[base + 27 : base + 35], "big", signed=True)
        at = base + 61
        while at < end:
            length, at = varint(data, at)
            stop = at + length
            timestamp, at = varint(data, at + 1)
            offset, at = varint(data, at)
            key, at = span(data, at)
            value, at = span(data, at)
            count, at = varint(data, at)
            headers = []
            for _ in range(count):
                name, at = span(data, at)
                header, at = span(data, at)
                headers.append(((name or b"").decode(), header))
            assert at == stop
            found.append(Record(base_offset + offset, base_timestamp + timestamp, key, value, headers))
        base = end
    return found
