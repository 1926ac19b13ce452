"""What a bounded read has covered so far, partition by partition. Pure bookkeeping."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.consumer.read_range import Offset, ReadRange, ResolvedRange
from kcli.errors import KcliError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns


class PartitionCoverage(NamedTuple):
    """What was asked of one partition, what was read, and why reading stopped.

    `asked_start` and `asked_end` are offsets (-1: never found out; no end: follow). Everything from `start` up to
    `position` was covered: `records` were handed out, of `bytes` of keys and values; the other offsets hold nothing a
    reader may see. `complete`: nothing that was asked for is missing. `error` is set if one ended the reading.
    `open`: there is more to read, or to wait for. `lost`: offsets asked for by number that were deleted before they
    were read, as (first, behind).
    """

    tp: TopicPartition
    asked_start: int
    asked_end: int | None
    position: int
    records: int
    bytes: int
    reason: str
    complete: bool
    start: int = -1
    notes: tuple[str, ...] = ()
    error: KcliError | None = None
    open: bool = False
    lost: tuple[tuple[int, int], ...] = ()


class Progress:
    """The reading of one resolved range."""

    __slots__ = ("bytes", "end_reason", "error", "failed", "gaps", "position", "records", "resolved")

    def __init__(self, resolved: ResolvedRange) -> None:
        self.resolved = resolved
        self.position = resolved.position
        self.records = 0
        self.bytes = 0
        self.gaps: list[tuple[int, int]] = []
        self.end_reason: str | None = None
        self.failed = False
        self.error: KcliError | None = None

    @property
    def open(self) -> bool:
        """Whether there is more to read."""
        return self.end_reason is None

    def count(self, columns: RecordColumns) -> None:
        """These records have been handed out."""
        self.records += len(columns)
        self.bytes += columns.payload_bytes

    def finish(self) -> None:
        """The end is reached."""
        empty = self.resolved.end is not None and self.resolved.position >= self.resolved.end
        self.end_reason = "nothing to read" if empty else "reached its end"

    def fail(self, reason: str, error: KcliError | None = None) -> None:
        """Reading cannot go on before the end."""
        self.end_reason, self.failed, self.error = reason, True, error

    def lost(self, first: int, behind: int) -> None:
        """The records from `first` up to `behind` were gone before they could be read."""
        self.gaps.append((first, behind))

    def coverage(self, tp: TopicPartition) -> PartitionCoverage:
        """The state of things in a person's terms."""
        resolved = self.resolved
        gaps = [f"offsets {first} to {behind - 1} were deleted before they were read" for first, behind in self.gaps]
        reason = self.end_reason
        if reason is None:
            reason = "following" if resolved.end is None else "stopped before its end"
        return PartitionCoverage(
            tp,
            resolved.asked_start,
            resolved.asked_end,
            self.position,
            self.records,
            self.bytes,
            reason="; ".join(part for part in (reason, resolved.missing, *gaps) if part),
            complete=not (self.failed or self.gaps or resolved.missing or (self.open and resolved.end is not None)),
            start=resolved.start,
            notes=resolved.notes,
            error=self.error,
            open=self.open,
            lost=(*resolved.lost, *self.gaps),
        )


def unresolved(tp: TopicPartition, asked: ReadRange, reason: str, error: KcliError | None) -> PartitionCoverage:
    """The coverage of a partition whose range could not be turned into offsets."""
    start = asked.start.n if isinstance(asked.start, Offset) else -1
    end = None if asked.end is None else asked.end.n if isinstance(asked.end, Offset) else -1
    return PartitionCoverage(tp, start, end, -1, 0, 0, reason, complete=False, error=error)
