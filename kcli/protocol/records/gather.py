"""Batches brought together in one buffer: decompressed where they were compressed, copied otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kcli.errors import CorruptRecords
from kcli.protocol.records import batch
from kcli.protocol.records.decompression import OutOfBudget, Output, decompress
from kcli.protocol.records.header_columns import Batches
from kcli.protocol.records.legacy import Message, unwrap, wrapped_set
from kcli.protocol.records.run import Run


class Gathered(NamedTuple):
    """Payloads of v2 batches (which, from where, to where) and messages of older formats, in the gathering buffer."""

    batches: list[int]
    starts: list[int]
    ends: list[int]
    messages: list[Message]
    output: Output


def gather(
    batches: Batches, runs: Iterable[Run], wanted: NDArray[np.bool_], output: Output, check_crcs: bool
) -> Gathered:
    """Bring the `wanted` batches of `runs` into `output`; a batch that cannot be ends its run."""
    gathered = Gathered([], [], [], [], output)
    for run in runs:
        view = memoryview(run.buffer)
        for index in (np.flatnonzero(wanted[run.lo : run.limit]) + run.lo).tolist():
            before = output.used
            try:
                _gather_one(view, batches, index, output, check_crcs, gathered)
            except CorruptRecords as problem:
                run.fail(index, problem.message)
            except OutOfBudget:
                if before:
                    run.interrupt(index)
                else:
                    run.fail(index, f"it holds more than the {output.limit} bytes that one may")
            else:
                continue
            output.used = before
            break
    return gathered


def _gather_one(
    view: memoryview, batches: Batches, index: int, output: Output, check_crcs: bool, gathered: Gathered
) -> None:
    start, end, magic = int(batches.starts[index]), int(batches.ends[index]), int(batches.magic[index])
    codec = int(batches.attributes[index]) & batch.CODEC_MASK
    before = output.used
    if magic == 2:
        decompress(codec, view[start + batch.HEADER_BYTES : end], output)
        count, size = int(batches.counts[index]), output.used - before
        if count * batch.SMALLEST_RECORD_BYTES > size:
            raise CorruptRecords(f"its {count} records do not fit into {size} bytes")
        gathered.batches.append(index)
        gathered.starts.append(before)
        gathered.ends.append(output.used)
    elif not codec:
        output.write(view[start:end])
        gathered.messages.append(Message(index, before, output.used, int(batches.base_offsets[index])))
    else:
        decompress(codec, wrapped_set(view, start, end), output, magic=magic)
        inside = memoryview(output.data)[: output.used]  # type: ignore[arg-type]
        gathered.messages.extend(unwrap(inside, before, view[start:end], index, check_crcs))
