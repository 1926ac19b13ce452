"""The batches of one section while they are decoded: how far they are good, and why not further."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kcli.errors import CorruptRecords
from kcli.protocol.records.batch import Buffer
from kcli.protocol.records.columns import RecordColumns
from kcli.protocol.records.header_columns import Batches


class RecordSection(NamedTuple):
    """The records of one partition in a fetch response, and from where they were asked.

    `aborted` is the response's list of (producer id, first offset), or None to read uncommitted.
    """

    topic: str
    partition: int
    data: Buffer
    fetch_offset: int
    aborted: Sequence[tuple[int, int]] | None = None


class DecodedSection(NamedTuple):
    """What a section held.

    `next_offset`: the position behind the last whole batch (control, empty and aborted ones included), or
    the fetch offset if there was none. `last_epoch`: leader epoch of that batch, -1 unknown. `error`: set when a batch
    is damaged; the records before it are in `columns`, and `next_offset` stops at it. `truncated`: a partial last batch
    was there. `rest`: the batches that the bounds of a call left for another one; it goes on at `next_offset`.
    """

    columns: RecordColumns
    next_offset: int
    last_epoch: int = -1
    error: CorruptRecords | None = None
    truncated: bool = False
    rest: RecordSection | None = None


class Run:
    """Batches `lo` to `hi`, all of one section; those from `limit` on are not to be shown.

    Their places are counted in `buffer`, whose `pool` are the runs that can be decoded together. `problem` says what is
    wrong with batch `limit`; without one, and short of `hi`, the run was only interrupted. `unread_from` is where the
    section goes on behind `hi`, -1 if it does not.
    """

    __slots__ = (
        "buffer", "columns", "hi", "limit", "lo", "pool", "problem", "section", "start", "truncated", "unread_from",
    )  # fmt: skip

    def __init__(self, section: RecordSection, buffer: Buffer, start: int, pool: int) -> None:
        self.section = section
        self.buffer = buffer
        self.start = start
        self.pool = pool
        self.lo = self.hi = self.limit = 0
        self.truncated = False
        self.unread_from = -1
        self.problem: str | None = None
        self.columns: RecordColumns | None = None

    def fail(self, index: int, problem: str) -> None:
        """Batch `index` is damaged: it and what follows is not shown."""
        if index < self.limit:
            self.limit, self.problem = index, problem

    def interrupt(self, index: int) -> None:
        """Batch `index` and what follows is left for another call."""
        if index < self.limit:
            self.limit, self.problem = index, None

    def rest_from(self, batches: Batches) -> int:
        """Where in the buffer the next call should go on, -1: nowhere."""
        if self.problem is not None:
            return -1
        return self.unread_from if self.limit == self.hi else int(batches.starts[self.limit])

    def position(self, batches: Batches) -> tuple[int, int]:
        """The offset behind the last good batch, and its leader epoch."""
        if self.lo == self.limit:
            return self.section.fetch_offset, -1
        behind = int(batches.next_offsets[self.lo : self.limit].max())
        return max(self.section.fetch_offset, behind), int(batches.leader_epochs[self.limit - 1])

    def result(self, batches: Batches, rest: RecordSection | None) -> DecodedSection:
        """What to hand out."""
        position, epoch = self.position(batches)
        columns = RecordColumns.empty() if self.columns is None else self.columns
        columns.within = batches, self.lo, self.limit
        truncated = self.truncated and self.limit == self.hi
        if self.problem is None:
            return DecodedSection(columns, position, epoch, None, truncated, rest)
        topic, partition = self.section.topic, self.section.partition
        text = f"the batch at offset {position} is corrupt: {self.problem}"
        error = CorruptRecords(text, topic=topic, partition=partition, offset=position)
        return DecodedSection(columns, position, epoch, error)
