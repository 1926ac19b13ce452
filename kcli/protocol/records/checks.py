"""What must hold of a batch before its records are looked at: a possible header, and the checksum."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from kcli.protocol.records import batch
from kcli.protocol.records.checksum import checksums, crc32c
from kcli.protocol.records.header_columns import Batches
from kcli.protocol.records.run import Run

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LAST_BASE_OFFSET = (1 << 63) - 1 - (1 << 32)
_BEYOND_INT32 = 1 << 31
_CRC_FROM_MAGIC = batch.CRC_FROM - batch.MAGIC_AT
# No broker takes so large a batch by default; one that claims to be is more likely to be after our memory.
MOST_RECORDS = 1 << 20


def check_headers(batches: Batches, runs: Iterable[Run]) -> None:
    """Fail the first impossible batch of each run."""
    codec = batches.attributes & batch.CODEC_MASK
    sizes = batches.ends - batches.starts - batch.HEADER_BYTES
    room = np.where(codec == 0, sizes // batch.SMALLEST_RECORD_BYTES, _BEYOND_INT32)
    span = batches.next_offsets - batches.base_offsets
    new = batches.magic >= 2
    counts = batches.counts
    checks: tuple[tuple[NDArray[np.bool_], str], ...] = (
        ((batches.magic > 2) | (batches.magic < 0), "the message format is unknown"),
        ((batches.base_offsets < 0) | (batches.base_offsets > _LAST_BASE_OFFSET), "its offset is impossible"),
        (span < 1, "its last offset lies before its first"),
        (new & ((counts < 0) | (counts > room)), "its record count does not fit its size"),
        (new & (counts > span), "it has more records than offsets"),
        (new & (counts > MOST_RECORDS), f"it claims more than the {MOST_RECORDS} records that one may hold"),
        (codec > np.where(new, 4, 3), "its compression codec is unknown"),
    )
    for wrong, problem in checks:
        if wrong.any():
            fail_first(wrong, problem, runs)


def fail_first(wrong: NDArray[np.bool_], problem: str, runs: Iterable[Run]) -> None:
    """Fail the first batch of each run that is `wrong`."""
    for run in runs:
        hits = np.flatnonzero(wrong[run.lo : run.limit])
        if len(hits):
            run.fail(run.lo + int(hits[0]), problem)


def check_crcs(batches: Batches, runs: Iterable[Run]) -> None:
    """Fail the first batch of each run whose checksum is wrong (CRC-32C, or CRC-32 in old formats)."""
    runs = tuple(runs)
    expected, found = batches.crcs.tolist(), _checksums(batches, runs)
    for run in runs:
        if found[run.lo : run.limit] != expected[run.lo : run.limit]:
            index = next(at for at in range(run.lo, run.limit) if found[at] != expected[at])
            run.fail(index, f"its CRC is {found[index]:#010x} and should be {expected[index]:#010x}")


def _checksums(batches: Batches, runs: Iterable[Run]) -> list[int]:
    """What the batches' checksums should be: runs that lie in one buffer are looked at together."""
    magic = batches.magic.tolist()
    only_new = magic.count(2) == len(magic)
    starts = (batches.starts + (batch.CRC_FROM if only_new else batch.MAGIC_AT)).tolist()
    ends = batches.ends.tolist()
    found = [0] * len(starts)
    for _, group in groupby(runs, lambda run: id(run.buffer)):
        members = list(group)
        view, lo, hi = memoryview(members[0].buffer), members[0].lo, members[-1].hi
        if only_new:
            found[lo:hi] = checksums(view, starts[lo:hi], ends[lo:hi])
            continue
        for index in range(lo, hi):
            start, end = starts[index], ends[index]
            new = magic[index] == 2
            found[index] = crc32c(view[start + _CRC_FROM_MAGIC : end]) if new else zlib.crc32(view[start:end])
    return found
