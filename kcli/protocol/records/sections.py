"""The sections of a response opened: which of them share a buffer, and where their batches are."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from kcli.protocol.records.batch import Buffer, walk_batches
from kcli.protocol.records.header_columns import Batches
from kcli.protocol.records.run import RecordSection, Run


def open_sections(sections: Sequence[RecordSection], most_batches: int) -> tuple[Batches, list[Run]]:
    """The headers of the whole batches, `most_batches` at most, and one run per section.

    Sections that follow each other in one buffer, as those of a fetch response do, are of one pool.
    """
    runs: list[Run] = []
    parts: list[Batches] = []
    starts, ends = array("q"), array("q")
    total = behind = 0
    for section in sections:
        buffer, start = _whole_buffer(section.data)
        if runs and (buffer is not runs[-1].buffer or start < behind):
            parts.append(Batches.read(np.frombuffer(runs[-1].buffer, np.uint8), starts, ends))
            starts, ends = array("q"), array("q")
        run = Run(section, buffer, start, len(parts))
        runs.append(run)
        behind = start + len(section.data)
        walk = walk_batches(buffer, start, behind, most_batches - total)
        starts += walk.starts
        ends += walk.ends
        run.truncated, run.problem = walk.truncated, walk.problem
        run.lo, total = total, total + len(walk.starts)
        run.hi = run.limit = total
        if walk.stopped_at < behind and not walk.truncated and walk.problem is None:
            run.unread_from = walk.stopped_at
    parts.append(Batches.read(np.frombuffer(runs[-1].buffer, np.uint8), starts, ends))
    return Batches.join(parts), runs


def _whole_buffer(data: Buffer) -> tuple[Buffer, int]:
    """The bytes object that `data` is a view of, and where in it the view begins."""
    if not isinstance(data, memoryview):
        return data, 0
    owner = data.obj
    if len(data) and type(owner) in (bytes, bytearray) and data.contiguous:
        whole: Buffer = owner  # type: ignore[assignment]
        return whole, _address(data) - _address(whole)
    return bytes(data), 0


def _address(data: Buffer) -> int:
    return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])
