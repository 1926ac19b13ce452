"""Keys and values of a batch, compared with the scan of whole records; damage is an error."""

from __future__ import annotations

import pytest

from kcli.errors import CorruptRecords
from kcli.protocol.records import batch as layout
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.record import NewRecord
from kcli.protocol.records.scan import iter_records, read_pairs

LONG = b"x" * 20_000
ROWS = [
    NewRecord(b"key", b"value", 1_700_000_000_000),
    NewRecord(None, None, 5),
    NewRecord(b"", b"", 2**60),
    NewRecord(LONG, LONG + LONG, 1_700_000_000_001, [("header", b"1"), ("empty", None)]),
    NewRecord(b"last", None, -1),
]


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4", "zstd", "snappy"])
@pytest.mark.parametrize("deltas", [None, [0, 3, 64, 127, 70_000]])
def test_pairs_equal_the_keys_and_values_of_the_scan(compression: str, deltas: list[int] | None) -> None:
    data = memoryview(build_batch(ROWS, compression=compression, offset_deltas=deltas, base_offset=100))

    found = read_pairs(data)

    assert found == [(r.offset - 100, r.key, r.value) for r in iter_records(data)]
    assert [(key, value) for _, key, value in found] == [(row.key, row.value) for row in ROWS]


def test_a_batch_emptied_by_compaction_has_no_pairs() -> None:
    assert read_pairs(memoryview(build_batch([], last_offset_delta=9))) == []


def test_a_flipped_byte_gives_other_records_or_an_error() -> None:
    """A changed byte gives no other exception, no endless loop, and no record outside the bytes."""
    data = build_batch([ROWS[0], ROWS[4], ROWS[1]])
    errors = 0
    for at in range(layout.HEADER_BYTES, len(data)):
        for value in (0, 1, 0x7E, 0x7F, 0x80, 0xFF):
            damaged = memoryview(data[:at] + bytes((value,)) + data[at + 1 :])
            try:
                for _, key, found in read_pairs(damaged):
                    assert len(key or b"") + len(found or b"") <= len(data)
            except CorruptRecords:
                errors += 1
    assert errors > 50


def test_every_cut_and_every_wrong_count_is_an_error() -> None:
    data = build_batch(ROWS[:1] + ROWS[4:])
    for end in range(len(data)):
        with pytest.raises(CorruptRecords):
            read_pairs(memoryview(data[:end]))
    for count in (-1, 0, 1, 3, 2**31 - 1):
        wrong = bytearray(data)
        wrong[57:61] = count.to_bytes(4, "big", signed=True)
        with pytest.raises(CorruptRecords):
            read_pairs(memoryview(wrong))


def test_older_formats_are_corrupt() -> None:
    data = bytearray(build_batch(ROWS[:1]))
    data[layout.MAGIC_AT] = 1
    with pytest.raises(CorruptRecords, match="v2"):
        read_pairs(memoryview(data))
