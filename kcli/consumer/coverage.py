"""Coverage of a bounded read: the offsets read of each partition, whether all were read, and which were missed. Pure.

`RangeReader.coverage` returns a `PartitionCoverage` for each partition. A `ReadCoverage` is the result of the whole
read: with the reason for which it stopped, it decides whether the read is complete and which partitions failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kcli.consumer.read_range import ReadRange, ResolvedRange
from kcli.errors import KcliError
from kcli.log_place import offset_of
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns

_STOPPED = "stopped before its end"


class StopReason(Enum):
    """The reason for which a read stopped."""

    END = "all ranges are read"
    RECORD_LIMIT = "the limit of records is reached"
    IDLE = "no record arrived for too long"
    INTERRUPTED = "interrupted"
    FAILED = "an error ended the read"


class PartitionCoverage(NamedTuple):
    """The range requested of one partition, the offsets covered, and the reason for which reading stopped.

    `asked_start` and `asked_end` are offsets (-1: not resolved; None: no end). All offsets from `start` up to, not
    including, `position` are covered: `records` of them were returned, with `bytes` of keys and values; the others have
    no record that a consumer may see. `complete`: no requested offset is missing. `error` is the error that ended the
    reading. `open`: reading had not ended. `lost`: requested offsets that were deleted before they were read, as
    (first offset, offset after the last).
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

    @property
    def failed(self) -> bool:
        """True if offsets are missing for another reason than an early stop of the whole read."""
        stopped_early = self.open and self.asked_end is not None
        return self.error is not None or not (self.complete or stopped_early)

    def with_reason(self, reason: str) -> str:
        """Return `reason` followed by the description of the missing offsets."""
        return "; ".join([reason, *self.reason.split("; ")[1:]])

    def cut_at(self, position: int) -> PartitionCoverage:
        """Return the coverage up to `position` only. An error after that offset does not count."""
        return self._replace(
            position=position,
            reason=_STOPPED if self.error is not None else self.with_reason(_STOPPED),
            complete=self.complete and self.asked_end is None,
            error=None,
            open=True,
        )


class ReadCoverage(NamedTuple):
    """The coverage of a whole read: its partitions, and the reason for which it stopped."""

    partitions: tuple[PartitionCoverage, ...]
    stop: StopReason

    @classmethod
    def of(
        cls, partitions: Iterable[PartitionCoverage], stop: StopReason, dropped_from: Mapping[TopicPartition, int]
    ) -> ReadCoverage:
        """Return the coverage of a read whose caller dropped records: those of a partition from an offset on."""
        cut = (part if part.tp not in dropped_from else part.cut_at(dropped_from[part.tp]) for part in partitions)
        return cls(tuple(cut), stop)

    @property
    def errors(self) -> list[KcliError]:
        """The errors that ended the reading of partitions."""
        return [part.error for part in self.partitions if part.error is not None]

    @property
    def missing(self) -> list[PartitionCoverage]:
        """The partitions of which requested offsets are missing, without an error.

        None if the read reached its limit of records: then the records up to the limit are all that was requested.
        """
        if self.stop is StopReason.RECORD_LIMIT:
            return []
        return [part for part in self.partitions if not part.complete and part.error is None]

    @property
    def complete(self) -> bool:
        """True if all that was requested has been read."""
        return not self.errors and not self.missing


def is_bounded(ranges: Mapping[TopicPartition, ReadRange]) -> bool:
    """True if every range has an end, so that the read has one. A read without a range waits for new topics."""
    return bool(ranges) and all(requested.end is not None for requested in ranges.values())


class RangeProgress:
    """The progress of reading one resolved range."""

    __slots__ = ("bytes", "end_reason", "epoch", "error", "failed", "gaps", "position", "records", "resolved")

    def __init__(self, resolved: ResolvedRange) -> None:
        self.resolved = resolved
        self.position = resolved.position
        self.epoch = -1
        self.records = 0
        self.bytes = 0
        self.gaps: list[tuple[int, int]] = []
        self.end_reason: str | None = None
        self.failed = False
        self.error: KcliError | None = None

    @property
    def open(self) -> bool:
        """True if reading has not ended."""
        return self.end_reason is None

    def count(self, columns: RecordColumns) -> None:
        """Count records that were returned."""
        self.records += len(columns)
        self.bytes += columns.payload_bytes

    def finish(self) -> None:
        """End the reading: the position has reached the end of the range."""
        empty = self.resolved.end is not None and self.resolved.position >= self.resolved.end
        self.end_reason = "nothing to read" if empty else "reached its end"

    def fail(self, reason: str, error: KcliError | None = None) -> None:
        """End the reading before the end of the range."""
        self.end_reason, self.failed, self.error = reason, True, error

    def lost(self, first: int, after: int) -> None:
        """Record that the offsets from `first` up to, not including, `after` were deleted before they were read."""
        self.gaps.append((first, after))

    def coverage(self, tp: TopicPartition) -> PartitionCoverage:
        """Return the coverage so far."""
        resolved = self.resolved
        gaps = [f"offsets {first} to {after - 1} were deleted before they were read" for first, after in self.gaps]
        reason = self.end_reason
        if reason is None:
            reason = "following" if resolved.end is None else _STOPPED
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


def unresolved(tp: TopicPartition, requested: ReadRange, reason: str, error: KcliError | None) -> PartitionCoverage:
    """Return the coverage of a partition whose range has not been resolved to offsets."""
    start, end = offset_of(requested.start), offset_of(requested.end)
    start = -1 if start is None else start
    end = -1 if end is None and requested.end is not None else end
    return PartitionCoverage(tp, start, end, -1, 0, 0, reason, complete=False, error=error)
