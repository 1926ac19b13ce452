"""CRC-32C in numpy, compared with the C module."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.records import checksum
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.checksum_numpy import crc32c, crc32c_many
from kcli.protocol.records.decode import RecordSection, decode_sections

DATA = random.Random(7).randbytes(3_000_000)


def by_c(starts: list[int], ends: list[int]) -> list[int]:
    return [checksum.crc32c(DATA[start:end]) for start, end in zip(starts, ends, strict=True)]


def test_the_check_value_of_crc_32c() -> None:
    """The value is that of catalogues of CRCs."""
    assert crc32c(b"123456789") == 0xE3069283


def test_every_length_to_5000_in_one_call() -> None:
    starts, ends = list(range(5001)), [2 * at for at in range(5001)]
    assert crc32c_many(memoryview(DATA), starts, ends) == by_c(starts, ends)


@given(st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 5000)), max_size=40))
def test_ranges_that_are_empty_overlap_or_come_in_any_order(ranges: list[tuple[int, int]]) -> None:
    starts, ends = [start for start, _ in ranges], [start + length for start, length in ranges]
    assert crc32c_many(DATA, starts, ends) == by_c(starts, ends)


@pytest.mark.parametrize("length", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2_500_000])
def test_ranges_of_more_than_one_slice_between_small_ones(length: int) -> None:
    starts, ends = [9, 1, 2, 0, 5], [99, 1 + length, 70, length, 5]
    assert crc32c_many(bytearray(DATA), starts, ends) == by_c(starts, ends)


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(0, (1 << 32) - 1))
def test_it_continues_from_an_earlier_part(before: bytes, following: bytes, crc: int) -> None:
    assert crc32c(following, crc32c(before)) == checksum.crc32c(before + following)
    assert crc32c(memoryview(following), crc) == checksum.crc32c(following, crc)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("bad", [0, 3, 6])
def test_the_first_damaged_batch_of_a_section_is_found_and_named(bad: int) -> None:
    parts = [build_batch([NewRecord(None, b"v" * 50 * (at + 1), 0)], base_offset=at) for at in range(7)]
    data = bytearray(b"".join(parts))
    for at in range(bad, 7, 2):
        data[len(b"".join(parts[: at + 1])) - 5] ^= 1
    (other,) = decode_sections([RecordSection("t", 1, b"".join(parts), 0)])
    whole, damaged = decode_sections([RecordSection("t", 0, parts[0], 0), RecordSection("t", 1, bytes(data), 0)])
    stored = int.from_bytes(parts[bad][17:21], "big")
    found = checksum.crc32c(data[len(b"".join(parts[:bad])) + 21 : len(b"".join(parts[: bad + 1]))])
    assert (whole.error, other.error, damaged.next_offset) == (None, None, bad)
    assert damaged.error is not None
    assert damaged.error.message == (
        f"the batch at offset {bad} is corrupt: its CRC is {found:#010x} and should be {stored:#010x}"
    )


def test_numpy_replaces_a_missing_c_module() -> None:
    code = "import sys; sys.modules['crc32c'] = None; from kcli.protocol.records.checksum import crc32c, checksums; "
    code += "print(crc32c.__module__, checksums(memoryview(b'0123456789'), [1, 0], [10, 0]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == f"kcli.protocol.records.checksum_numpy [{0xE3069283}, 0]\n", done.stderr
