"""Which batches of a section hold records that the reader wants to see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from kcli.errors import CorruptRecords
from kcli.protocol.records import batch
from kcli.protocol.records.decompression import OutOfBudget, Output, decompress
from kcli.protocol.records.header_columns import Batches
from kcli.protocol.records.run import RecordSection, Run
from kcli.protocol.records.transactions import AbortedRanges, marker_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CONTROL_RECORD_BYTES = 4096


def choose_batches(batches: Batches, runs: Iterable[Run]) -> NDArray[np.bool_]:
    """Not control, not aborted, not empty, not wholly before the offset asked, and before the limit of their run."""
    wanted: NDArray[np.bool_] = (batches.counts > 0) & ((batches.attributes & batch.CONTROL_BIT) == 0)
    for run in runs:
        if run.section.aborted:
            drop_aborted(batches, run, wanted)
        wanted[run.limit : run.hi] = False
        if run.lo < run.limit and batches.base_offsets[run.lo] < run.section.fetch_offset:
            mine = slice(run.lo, run.limit)
            wanted[mine] &= batches.next_offsets[mine] > run.section.fetch_offset
    return wanted


def drop_aborted(batches: Batches, run: Run, wanted: NDArray[np.bool_]) -> None:
    """Take the batches of aborted transactions from `wanted`. A marker that is damaged ends the run."""
    ranges = AbortedRanges(run.section.aborted or ())
    for index in range(run.lo, run.limit):
        try:
            wanted[index] &= not _pass(ranges, batches, run, index)
        except CorruptRecords as problem:
            run.fail(index, problem.message)


def aborted_from(batches: Batches, run: Run, index: int) -> list[tuple[int, int]] | None:
    """The aborted transactions as they stand before batch `index`: for reading on from there."""
    if run.section.aborted is None:
        return None
    ranges = AbortedRanges(run.section.aborted)
    for before in range(run.lo, index):
        _pass(ranges, batches, run, before)
    return ranges.remaining()


def rest_of(batches: Batches, run: Run) -> RecordSection | None:
    """What an interrupted run leaves for another call."""
    start = run.rest_from(batches)
    if start < 0:
        return None
    data = memoryview(run.section.data)[start - run.start :]
    position, _ = run.position(batches)
    return run.section._replace(data=data, fetch_offset=position, aborted=aborted_from(batches, run, run.limit))


def _pass(ranges: AbortedRanges, batches: Batches, run: Run, index: int) -> bool:
    """Go past a batch; whether it is to be dropped."""
    producer_id = int(batches.producer_ids[index])
    if producer_id < 0:
        return False
    last_offset = int(batches.next_offsets[index]) - 1
    attributes = int(batches.attributes[index])
    if not attributes & batch.CONTROL_BIT:
        return ranges.drops(producer_id, last_offset, bool(attributes & batch.TRANSACTIONAL_BIT))
    if batches.counts[index]:
        ranges.pass_marker(producer_id, last_offset, _marker(batches, run, index))
    return False


def _marker(batches: Batches, run: Run, index: int) -> int:
    payload = memoryview(run.buffer)[int(batches.starts[index]) + batch.HEADER_BYTES : int(batches.ends[index])]
    record = Output(_CONTROL_RECORD_BYTES)
    try:
        decompress(int(batches.attributes[index]) & batch.CODEC_MASK, payload, record)
    except OutOfBudget:
        raise CorruptRecords("the control record is too large") from None
    return marker_type(record.data.tobytes(), 0, record.used)
