"""Record boundaries by lanes or record by record: the result is the same."""

import random

import numpy as np
import pytest

from kcli.protocol.records import record_boundaries
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.decode import RecordSection, decode_sections
from tests.protocol.records import reference

T = 1_700_000_000_000


TEXT = bytes(random.Random(0).choices(range(32, 127), k=20_000))


def text(rng, size):
    at = rng.randrange(len(TEXT) - size)
    return TEXT[at : at + size]


def zeros(rng, size):
    return bytes(size)


def noise(rng, size):
    return rng.randbytes(size)


def framing(rng, size):
    """Return bytes that look like record boundaries everywhere."""
    return (b"\0\xc8\x01\0\0\2\1" * (size // 7 + 1))[:size]


def avro(rng, size):
    """Return bytes framed as by a schema registry's serializer: a zero and a schema id first."""
    return b"\0\0\0\0\7" + text(rng, size)


SIZES = {
    "equal": lambda rng: 100,
    "short": lambda rng: rng.randrange(0, 60),
    "around 64": lambda rng: rng.randrange(50, 80),
    "medium": lambda rng: rng.randrange(60, 300),
    "around 8 KiB": lambda rng: rng.choice((100, 8000, 8150, 8300)),
    "mostly small": lambda rng: 9_000 if rng.random() < 0.01 else rng.randrange(30, 90),
}


@pytest.mark.parametrize("fill", [text, zeros, noise, framing, avro])
@pytest.mark.parametrize("sizes", SIZES)
def test_any_content_is_decoded_as_by_the_reference(fill, sizes):
    rng = random.Random(f"{fill.__name__} {sizes}")
    data, offset = [], 0
    for count in (1, 2, 150, 400, 3, 30, 30):
        rows = []
        for i in range(count):
            headers = [("h", noise(rng, 3))] if rng.random() < 0.05 else []
            rows.append(NewRecord(rng.choice((None, b"k%d" % i)), fill(rng, SIZES[sizes](rng)), T + i, headers))
        data.append(build_batch(rows, base_offset=offset))
        offset += count
    [decoded] = decode_sections([RecordSection("t", 0, b"".join(data), 0)])
    assert decoded.error is None
    assert list(decoded.columns) == reference.records(b"".join(data))


@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
def test_lengths_of_more_bytes_than_needed_are_read_as_by_the_reference(share):
    rng = random.Random(share)
    data = b"".join(
        with_long_lengths(
            rng, share, build_batch([NewRecord(None, text(rng, i % 50), T) for i in range(300)], base_offset=base)
        )
        for base in (0, 300, 600)
    )
    [decoded] = decode_sections([RecordSection("t", 0, data, 0)], check_crcs=False)
    assert decoded.error is None
    assert list(decoded.columns) == reference.records(data)


def with_long_lengths(rng, share, data):
    """Return the batch with some of the record lengths below 64 written in two bytes."""
    out, at = bytearray(data[:61]), 61
    while at < len(data):
        length, body = reference.varint(data, at)
        is_long = length < 64 and rng.random() < share
        out += bytes((data[at] | 0x80, 0)) if is_long else data[at:body]
        out += data[body : body + length]
        at = body + length
    out[8:12] = (len(out) - 12).to_bytes(4, "big")
    return bytes(out)


def test_wrong_guesses_do_not_change_the_result(monkeypatch):
    rows = [NewRecord(None, b"x" * (i % 90), T) for i in range(600)]
    data = b"".join(build_batch(rows[i : i + 100], base_offset=i) for i in range(0, 600, 100))
    nothing = np.zeros(6, np.bool_)
    for wrong in (
        lambda *batches: (np.zeros(0, np.int64), nothing.copy()),
        lambda *batches: (batches[2], ~nothing),
        lambda *batches: (np.arange(0, len(batches[1]), 7), nothing.copy()),
    ):
        monkeypatch.setattr(record_boundaries, "_follow_lanes", wrong)
        [decoded] = decode_sections([RecordSection("t", 0, data, 0)])
        assert decoded.columns.values() == [row.value for row in rows]


def test_damaged_batches_do_not_affect_good_ones_in_other_sections():
    rows = [NewRecord(None, b"some text of medium length %d" % i, T + i) for i in range(100)]
    sections = []
    for number in range(40):
        data = bytearray(build_batch(rows))
        if number % 3 == 0:
            data[700 + number] ^= 0x40 if number % 2 else 0xFF
        sections.append(RecordSection("t", number, bytes(data), 0))
    frame = memoryview(b"".join(it.data for it in sections))
    sections = [it._replace(data=frame[i * len(it.data) : (i + 1) * len(it.data)]) for i, it in enumerate(sections)]
    decoded = decode_sections(sections, check_crcs=False)
    for number, result in enumerate(decoded):
        if number % 3:
            assert result.error is None
            assert result.columns.values() == [row.value for row in rows]
