"""The search for the next valid batch after damage, and indexes rebuilt from a damaged file."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kcli.broker.files import DiskFiles, LogFile
from kcli.broker.log.file_records import next_valid_batch
from kcli.broker.log.segment_index import SegmentIndex
from tests.broker.log.logs import batch

WHOLE = bytes(batch(b"found", base_offset=7))


def corrupted(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.log"


def opened(path: Path, data: bytes) -> LogFile:
    path.write_bytes(data)
    return DiskFiles().open(str(path))


@pytest.mark.parametrize(
    "damage",
    [
        b"?",
        bytes(5000),
        b"\2" * 5000,
        random.Random(1).randbytes(3 << 20),
        b"x" * ((1 << 20) - 9),  # the header spans two of the searched blocks
        WHOLE[:40],
        corrupted(WHOLE),
        corrupted(WHOLE) * 9,
        bytes(batch(b"too old", base_offset=6)),
        WHOLE[:11] + b"\xff" + WHOLE[12:],  # its size leads to a position without a batch
    ],
    ids=["a byte", "zeros", "twos", "noise", "a block", "torn", "corrupted", "corrupted often", "old", "wrong size"],
)
def test_next_valid_batch_after_damage_is_found(path: Path, damage: bytes) -> None:
    file = opened(path, damage + WHOLE + WHOLE)
    assert next_valid_batch(file, 0, file.size, 7) == len(damage)


@pytest.mark.parametrize("data", [b"", b"?", bytes(5000), WHOLE, b"x" + WHOLE[:-1], b"x" + corrupted(WHOLE)])
def test_no_batch_is_found_in_damage_that_resembles_one(path: Path, data: bytes) -> None:
    file = opened(path, data)
    assert next_valid_batch(file, 0, file.size, 7) is None
    assert next_valid_batch(file, 0, file.size, 8) is None


def test_rebuilt_index_skips_batches_with_decreasing_offsets(path: Path) -> None:
    early, late = bytes(batch(b"early", base_offset=3)), bytes(batch(b"late", base_offset=9))
    index = SegmentIndex.build(0, 4096, opened(path, WHOLE + early + late), path.stat().st_size)
    assert index.next_offset == 10
    assert [damage.position for damage in index.damages] == [len(WHOLE)]
    assert index.offsets.floor(9) == (9, len(WHOLE + early))
    assert index.ends_with_whole_batch


def test_rebuilt_index_has_the_end_of_the_last_whole_batch(path: Path) -> None:
    index = SegmentIndex.build(0, 4096, opened(path, WHOLE + b"torn"), path.stat().st_size)
    assert (index.end_position, index.ends_with_whole_batch) == (len(WHOLE), False)
