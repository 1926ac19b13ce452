"""Batches brought together in one buffer: decompressed where they were compressed, copied otherwise."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kcli.errors import CorruptRecords
from kcli.protocol.records import batch
from kcli.protocol.records.decompression import OutOfBudget, Output, decompress
from kcli.protocol.records.header_columns import Batches
from kcli.protocol.records.legacy import Messages, unwrap, wrapped_set
from kcli.protocol.records.run import Run
from kcli.protocol.records.varints import Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Results(NamedTuple):
    """Payloads of v2 batches (which, from where, to where) and messages of older formats, in the gathering buffer."""

    batches: Ints
    starts: Ints
    ends: Ints
    messages: Messages
    output: Output


class _Gathering:
    def __init__(self, batches: Batches, output: Output, check_crcs: bool) -> None:
        self.headers = [
            it.tolist()
            for it in (
                batches.starts, batches.ends, batches.magic, batches.attributes, batches.counts, batches.base_offsets,
            )
        ]  # fmt: skip
        self.output = output
        self.check_crcs = check_crcs
        self.batches, self.starts, self.ends = array("q"), array("q"), array("q")
        self.messages: list[Messages] = []

    def add(self, view: memoryview, index: int) -> None:
        output = self.output
        start, end, magic, attributes, count, base_offset = (column[index] for column in self.headers)
        codec = attributes & batch.CODEC_MASK
        before = output.used
        if magic == 2:
            decompress(codec, view[start + batch.HEADER_BYTES : end], output)
            size = output.used - before
            if count * batch.SMALLEST_RECORD_BYTES > size:
                raise CorruptRecords(f"its {count} records do not fit into {size} bytes")
            self.batches.append(index)
            self.starts.append(before)
            self.ends.append(output.used)
        elif codec:
            decompress(codec, wrapped_set(view, start, end), output, magic=magic)
            inside = memoryview(output.data)[: output.used]  # type: ignore[arg-type]
            self.messages.append(unwrap(inside, output.data, before, view[start:end], index, self.check_crcs))
        else:
            output.write(view[start:end])
            places = (np.array([it]) for it in (index, before, output.used, base_offset))
            self.messages.append(Messages.plain(*places))


def gather(
    batches: Batches, runs: Iterable[Run], wanted: NDArray[np.bool_], output: Output, check_crcs: bool
) -> Results:
    """Bring the `wanted` batches of `runs` into `output`; a batch that cannot be ends its run."""
    gathering = _Gathering(batches, output, check_crcs)
    for run in runs:
        view = memoryview(run.buffer)
        for index in (np.flatnonzero(wanted[run.lo : run.limit]) + run.lo).tolist():
            before = output.used
            try:
                gathering.add(view, index)
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
    output.trim()
    indices, starts, ends = (np.array(it) for it in (gathering.batches, gathering.starts, gathering.ends))
    return Results(indices, starts, ends, Messages.join(gathering.messages), output)
