"""Hostile batches: reported as corrupt, in bounded time and memory, without an exception."""

import gzip
import random
import resource
import struct
import warnings
import zlib

import cramjam
import lz4.frame
import pytest

from kcli.protocol.primitives import varlong
from kcli.protocol.records import batch
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.compression import CODEC_IDS
from kcli.protocol.records.decode import RecordSection, decode_sections
from kcli.protocol.records.scan import iter_records, read_pairs
from kcli.protocol.records.summary import summarize_records
from tests.protocol.records.mutations import GOOD, check_hostile, hostile_sections, make_right, seeds
from tests.protocol.records.vectors import VECTORS

T = 1_700_000_000_000


def framed(payload, count, *, codec=0, last_offset_delta=None):
    """Return a v2 batch of any payload, with its correct size and checksum."""
    delta = max(count - 1, 0) if last_offset_delta is None else last_offset_delta
    out = bytearray(batch.HEADER.pack(0, 0, 0, 2, 0, codec, delta, T, T, -1, -1, -1, count)) + payload
    make_right(out)
    return bytes(out)


def problem(data):
    [decoded] = decode_sections([RecordSection("t", 0, data, 0)])
    assert len(decoded.columns) == 0
    assert decoded.next_offset == 0
    assert decoded.error is not None, "this was taken for good"
    return decoded.error.message


def body(*parts):
    return b"\0" + b"".join(part if isinstance(part, bytes) else varlong(part) for part in parts)


def record(*parts):
    return varlong(len(body(*parts))) + body(*parts)


FINE = record(0, 0, -1, -1, 0)


def test_the_helpers_make_valid_batches():
    [decoded] = decode_sections([RecordSection("t", 0, framed(FINE, 1), 0)])
    assert (decoded.error, len(decoded.columns)) == (None, 1)


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (b"", 1),
        (FINE, 0x7FFFFFFF),
        (FINE, -1),
        (FINE, 2),
        (FINE + FINE[:-1], 2),
        (FINE + b"\0", 1),
        (FINE * 3, 2),
        (record(0, 0, 5, -1, 0), 1),
        (record(0, 0, -1, 9, 0), 1),
        (record(0, 0, -1, -1, 1), 1),
        (record(0, 0, -1, -1, -1), 1),
        (record(0, 0, -1, -1, 0x7FFFFFFF), 1),
        (record(0, 0, -1, -1, 0, 0), 1),
        (record(0, 0, -1, -1, 1, -1, -1), 1),
        (record(0, 0, -1, -1, 1, -2, -1), 1),
        (record(0, 0, -1, -1, 1, 0, 9), 1),
        (record(0, 0, -1, -1, 1, 9, -1), 1),
        (record(0, 0, 0x7FFFFFFF, -1, 0), 1),
        (record(0, 0, -1, 0x7FFFFFFF, 0), 1),
        (record(0, 5, -1, -1, 0), 1),
        (record(0, -1, -1, -1, 0), 1),
        (record(0, 1, -1, -1, 0) + FINE, 2),
        (FINE + FINE, 2),
        (record(b"\x80" * 9 + b"\x80\x01", 0, -1, -1, 0), 1),
        (record(0, b"\x80\x80\x80\x80\x80\x00", -1, -1, 0), 1),
        (record(0, 0, b"\xff\xff\xff\xff\xff\x01", -1, 0), 1),
        (b"\x80" * 20, 1),
        (b"\xff" * 20, 1),
        (b"\x01" * 20, 1),
        (bytes(7 * 300), 300),
        (b"\x0c" + bytes(7 * 300), 300),
        (b"\xff\xff\x7f" * 1000, 400),
    ],
)
def test_inconsistent_records_are_corrupt(payload, count):
    assert problem(framed(payload, count)).startswith("the batch at offset 0 is corrupt")
    assert problem(framed(gzip.compress(payload), count, codec=1))


def test_the_error_names_the_record_and_the_field():
    payload = FINE + record(0, 1, 99, -1, 0)
    assert problem(framed(payload, 2)) == (
        "the batch at offset 0 is corrupt: in record 1, the length of the key is 99, but only 2 bytes are left"
    )
    assert "the length of record 1 of 3 is" in problem(framed(FINE + b"\x7e" + bytes(20), 3))


@pytest.mark.parametrize(
    ("at", "field", "text"),
    [
        (0, struct.pack(">q", -1), "base offset is out of range"),
        (0, struct.pack(">q", (1 << 63) - 1), "base offset is out of range"),
        (16, b"\3", "format is unknown"),
        (16, b"\xff", "format is unknown"),
        (22, b"\7", "codec is unknown"),
        (23, struct.pack(">i", -1), "last offset"),
        (57, struct.pack(">i", -2), "record count"),
    ],
)
def test_invalid_header_fields_are_corrupt(at, field, text):
    bad = bytearray(framed(FINE, 1))
    bad[at : at + len(field)] = field
    make_right(bad)
    assert text in problem(bytes(bad))


@pytest.mark.parametrize("size", [-1, 0, 48, -(1 << 31)])
def test_invalid_sizes_are_corrupt(size):
    bad = bytearray(framed(FINE, 1))
    bad[8:12] = struct.pack(">i", size)
    assert "size" in problem(bytes(bad))


@pytest.mark.usefixtures("libraries")
def test_no_truncation_of_a_vector_raises():
    for data in VECTORS.values():
        if len(data) < 150:
            check_hostile([RecordSection("t", cut, data[:cut], 0) for cut in range(len(data))], check_crcs=True)


@pytest.mark.usefixtures("libraries")
def test_no_changed_byte_of_a_vector_raises():
    warnings.simplefilter("error")
    for name in ("v2-none-3rec-base42-ple7", "v2-lz4-3rec-base42", "v1-gzip-2rec-base42", "v0-lz4-2rec-base42"):
        for at in range(len(VECTORS[name])):
            changed = []
            for bit in (1, 0x80, 0xFF):
                bad = bytearray(VECTORS[name])
                bad[at] ^= bit
                make_right(bad)
                changed.append(RecordSection("t", at, GOOD + bad, 0))
            check_hostile(changed, check_crcs=True)


@pytest.mark.usefixtures("libraries")
def test_random_damage_does_not_raise():
    good = seeds(random.Random(5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(300):
            rng = random.Random(number)
            check_hostile(hostile_sections(rng, good, 6), check_crcs=number % 2 == 0)


BOMBS = {
    "gzip": lambda: gzip.compress(bytes(1 << 27), 1, mtime=0),
    "gzip members": lambda: gzip.compress(b"", mtime=0) * 30_000,
    "snappy": lambda: b"\xff\xff\xff\xff\x0f" + bytes(1000),
    "snappy xerial": lambda: b"\x82SNAPPY\0\0\0\0\1\0\0\0\1\x7f\xff\xff\xff",
    "lz4": lambda: lz4.frame.compress(bytes(1 << 27), block_linked=False),
    "lz4 claim": lambda: lz4.frame.compress(bytes(100), store_size=True)[:6] + b"\xff" * 8 + bytes(20),
    "zstd": lambda: bytes(cramjam.zstd.compress(bytes(1 << 27))),
    "zstd frames": lambda: bytes(cramjam.zstd.compress(b"")) * 100_000,
}


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("name", BOMBS)
def test_decompression_bombs_use_bounded_memory(name):
    data = framed(BOMBS[name](), 1, codec=CODEC_IDS[name.split()[0]])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert problem(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 * 1024


@pytest.mark.usefixtures("libraries")
def test_many_decompression_bombs_together_use_bounded_memory():
    bomb = bytes(cramjam.zstd.compress(bytes(40 << 20)))
    parts = [framed(bomb, 1, codec=4)] * 50
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    decode_sections([RecordSection("t", i, part, 0) for i, part in enumerate(parts)])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 * 1024


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("length", [-1, -2, -64, -65, -(1 << 31)])
def test_every_negative_length_is_null_as_for_javas_reader(length, count):
    """Source: DefaultRecord.readFrom, where only the name of a header must not be null."""
    payload = b"".join(
        record(0, index, length, length, 2, 1, b"h", length, 1, b"i", 2, b"xy") for index in range(count)
    )
    data = framed(payload, count)
    [decoded] = decode_sections([RecordSection("t", 0, data, 0)])
    assert decoded.error is None
    headers = [("h", None), ("i", b"xy")]
    columns = decoded.columns
    assert (columns.keys(), columns.values()) == ([None] * count, [None] * count)
    assert [columns.headers(row) for row in range(count)] == [headers] * count
    assert [(row.key, row.value, row.headers) for row in iter_records(data)] == [(None, None, headers)] * count
    assert read_pairs(memoryview(data)) == [(index, None, None) for index in range(count)]
    summary = summarize_records(payload, count)
    assert (summary.has_null_key, summary.is_dense) == (True, True)


@pytest.mark.parametrize("magic", [0, 1])
def test_every_negative_length_is_null_in_old_messages(magic):
    fields = (-2).to_bytes(4, "big", signed=True) + (-5).to_bytes(4, "big", signed=True)
    body = bytes((magic, 0)) + (T.to_bytes(8, "big") if magic else b"") + fields
    data = batch.PREFIX.pack(7, 4 + len(body)) + zlib.crc32(body).to_bytes(4, "big") + body
    [decoded] = decode_sections([RecordSection("t", 0, data, 7)])
    assert (decoded.error, decoded.columns.keys(), decoded.columns.values()) == (None, [None], [None])


def test_very_many_headers_in_one_record_are_checked_to_the_last():
    headers = b"\0\1" * 300_000
    good = framed(record(0, 0, -1, -1, 300_000, headers), 1)
    [decoded] = decode_sections([RecordSection("t", 0, good, 0)])
    assert (decoded.error, decoded.columns.header_counts.tolist()) == (None, [300_000])
    assert problem(framed(record(0, 0, -1, -1, 300_000, headers[:-2] + b"\0\2"), 1))


def test_headers_of_many_records_are_checked_together():
    rng = random.Random(3)
    rows = [NewRecord(None, b"v", T, [("name", None)] * rng.choice((0, 1, 2, 5, 200))) for _ in range(300)]
    data = build_batch(rows)
    [decoded] = decode_sections([RecordSection("t", 0, data, 0)])
    assert decoded.error is None
    assert [len(decoded.columns.headers(i)) for i in range(300)] == [len(row.headers) for row in rows]
    at = data.rindex(b"name")
    bad = bytearray(data)
    bad[at - 1] = 0x7E
    make_right(bad)
    assert "in record" in problem(bytes(bad))
