"""Hostile record batches: good ones, damaged in ways that are difficult for a decoder."""

from __future__ import annotations

import random
import zlib

import numpy as np

from kcli.errors import CorruptRecords
from kcli.protocol.records import batch
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.checksum import crc32c
from kcli.protocol.records.decode import DecodedSection, RecordSection, decode_sections
from tests.protocol.records.vectors import VECTORS

T = 1_700_000_000_000
TROUBLESOME = [b"\0", b"\1", b"\2", b"\x7e", b"\x7f", b"\x80", b"\xfe", b"\xff", b"\xff" * 5, b"\xff" * 10, b"\x80" * 9]
TROUBLESOME += [b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0"]


def seeds(rng: random.Random) -> list[bytes]:
    """Return good batches of every kind."""
    made = list(VECTORS.values())
    for codec in ("none", "none", "gzip", "snappy", "lz4", "zstd"):
        for count in (1, 3, 40, 300):
            made.append(build_batch([a_row(rng, i) for i in range(count)], compression=codec, base_offset=10))
    return made


def a_row(rng: random.Random, number: int) -> NewRecord:
    """Return a random record, often with nulls or unusual values."""
    value = None if rng.random() < 0.1 else rng.randbytes(rng.choice((0, 1, 5, 60, 100, 300)))
    key = rng.choice((None, b"", b"key-%d" % number))
    headers = [(f"h{i}", rng.choice((None, b"", b"value"))) for i in range(rng.choice((0, 0, 0, 1, 3)))]
    return NewRecord(key, value, T + rng.choice((0, number, -number, 1 << 40)), headers)


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Damage a batch one to four times; mostly correct size and checksum afterwards, so that the damage is reached."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(out)) if rng.random() < 0.7 else rng.randrange(min(len(out), 80))
        kind = rng.random()
        if kind < 0.35:
            out[at] ^= 1 << rng.randrange(8)
        elif kind < 0.65:
            trouble = rng.choice(TROUBLESOME)
            out[at : at + len(trouble)] = trouble
        elif kind < 0.75:
            out[at:at] = rng.choice(TROUBLESOME)
        elif kind < 0.85:
            del out[at : at + rng.randrange(1, 20)]
        elif kind < 0.95:
            out[at:at] = out[at : at + rng.randrange(1, 200)]
        else:
            del out[at:]
        if not out:
            return b"\0"
    if rng.random() < 0.8:
        make_right(out)
    return bytes(out)


def make_right(out: bytearray) -> None:
    """Correct size and checksum of the one batch or message in `out`."""
    if len(out) > batch.MAGIC_AT and out[batch.MAGIC_AT] < 2:
        out[8:12] = (len(out) - 12).to_bytes(4, "big")
        out[12:16] = zlib.crc32(out[16:]).to_bytes(4, "big")
    elif len(out) >= batch.HEADER_BYTES:
        out[8:12] = (len(out) - 12).to_bytes(4, "big")
        out[batch.CRC_AT : batch.CRC_FROM] = crc32c(bytes(out[batch.CRC_FROM :])).to_bytes(4, "big")


GOOD = build_batch([NewRecord(b"k", b"good", T), NewRecord(None, None, T)], base_offset=3)


def hostile_sections(rng: random.Random, good: list[bytes], count: int) -> list[RecordSection]:
    """Return `count` sections of one frame, each with a mutated batch, half of them after a good one."""
    parts = []
    for _ in range(count):
        bad = mutate(rng, rng.choice(good))
        parts.append((GOOD if rng.random() < 0.5 else b"") + bad + (GOOD if rng.random() < 0.2 else b""))
    frame = memoryview(bytearray(b"".join(parts)))
    sections, at = [], 0
    for number, part in enumerate(parts):
        aborted = [(4000, rng.randrange(200)), (1, 0)] if rng.random() < 0.3 else None
        data = frame[at : at + len(part)]
        sections.append(RecordSection("hostile", number, data, rng.choice((0, 0, 4, 43, 1 << 62)), aborted))
        at += len(part)
    return sections


def check_hostile(sections: list[RecordSection], check_crcs: bool) -> list[DecodedSection]:
    """Decode, including the rest for further calls, and check the results."""
    first = left = decode_sections(sections, check_crcs=check_crcs)
    check_promises(sections, first)
    for _ in sections:
        again = [it.remaining for it in left if it.remaining is not None]
        if not again:
            return first
        left = decode_sections(again, check_crcs=check_crcs)
        check_promises(again, left)
    raise AssertionError("every call left something for another one")


def check_promises(sections: list[RecordSection], decoded: list[DecodedSection]) -> None:
    """Check the invariants of any result."""
    assert len(decoded) == len(sections)
    for section, result in zip(sections, decoded, strict=True):
        columns = result.columns
        assert result.error is None or isinstance(result.error, CorruptRecords)
        assert result.next_offset >= section.fetch_offset
        if result.remaining is not None:
            assert result.error is None
            assert result.remaining.fetch_offset == result.next_offset
        if len(columns):
            assert (np.diff(columns.offsets) > 0).all()
            assert columns.offsets[0] >= section.fetch_offset
            assert columns.offsets[-1] < result.next_offset
            for starts, lengths in (
                (columns.key_starts, columns.key_lengths),
                (columns.value_starts, columns.value_lengths),
            ):
                assert lengths.min() >= -1
                assert starts.min() >= 0
                assert (starts + np.maximum(lengths, 0)).max() <= len(columns.buffer)
            assert len(list(columns)) == len(columns)
        if bytes(section.data[: len(GOOD)]) == GOOD and section.fetch_offset <= 3 and result.remaining is None:
            assert columns.values()[:2] == [b"good", None]
