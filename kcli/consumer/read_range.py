"""Ranges of a partition to read, as requested and resolved to the offsets of its log. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kcli.text import format_time, format_time_lookup


class Bound:
    """One end of a range, as requested.

    `n` is an offset, a count, or milliseconds since the epoch, by the class; >= 0.
    """

    __slots__ = ("n",)

    def __init__(self, n: int = 0) -> None:
        if n < 0:
            raise ValueError(f"{type(self).__name__} must be at least 0; got {n}")
        self.n = n

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Bound) and self.n == other.n

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.n))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n})"

    def __str__(self) -> str:
        return str(self.n)


class Earliest(Bound):
    """The log start offset."""

    __slots__ = ()

    def __str__(self) -> str:
        return "start"


class Latest(Bound):
    """The end offset when the range is resolved: the high watermark, or under read_committed the last stable offset."""

    __slots__ = ()

    def __str__(self) -> str:
        return "end"


class Offset(Bound):
    """This offset. A start is included, an end is excluded."""

    __slots__ = ()


class FromStart(Bound):
    """The offset `n` after the log start offset."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"+{self.n}"


class FromEnd(Bound):
    """The offset `n` before the end offset, but not before the log start offset."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"-{self.n}"


class Time(Bound):
    """The first offset whose record has a timestamp at or after `n`, in milliseconds since the epoch."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"@{format_time(self.n)}"


EARLIEST = Earliest()
LATEST = Latest()


class ReadRange(NamedTuple):
    """A range as requested: from `start` up to, not including, `end`; without an end, the read follows the log."""

    start: Bound
    end: Bound | None = None

    def __str__(self) -> str:
        return str(self.start) if self.end is None else f"{self.start}:{self.end}"


class LogOffsets(NamedTuple):
    """The offsets of one log, from its leader.

    `at_time[ms]` is the first offset with a timestamp at or after `ms`, or -1.
    """

    log_start: int
    log_end: int
    at_time: Mapping[int, int] = {}


class ResolvedRange(NamedTuple):
    """A range as offsets: the records with `start <= offset < end`, fetched from `position` on.

    `position` is below `start` only if `start` is after the log end. `missing` describes requested offsets that do not
    exist (None: none); `notes` contain other remarks for the user.
    """

    asked: ReadRange
    start: int
    end: int | None
    position: int
    log_start: int
    log_end: int
    notes: tuple[str, ...] = ()
    missing: str | None = None

    @property
    def asked_start(self) -> int:
        """The requested start offset, before the limits of the log were applied."""
        return self.asked.start.n if isinstance(self.asked.start, Offset) else self.start

    @property
    def asked_end(self) -> int | None:
        """The requested end offset, before the limits of the log were applied; None: no end."""
        return self.asked.end.n if isinstance(self.asked.end, Offset) else self.end

    @property
    def lost(self) -> tuple[tuple[int, int], ...]:
        """The requested offsets before the log start, as (first offset, offset after the last)."""
        after = self.log_start if self.asked_end is None else min(self.log_start, self.asked_end)
        return ((self.asked_start, after),) if self.asked_start < after else ()


def times_of(asked: ReadRange) -> list[int]:
    """Return the timestamps to look up before `resolve_range`."""
    return [bound.n for bound in asked if isinstance(bound, Time)]


def resolve_range(asked: ReadRange, log: LogOffsets, *, wait_for_end: bool = False) -> ResolvedRange:
    """Resolve a range to offsets of this log.

    An end after the log end is replaced by the log end, so that the read ends; with `wait_for_end` the read waits for
    the records up to the requested end.
    """
    if log.log_end < log.log_start:  # the last stable offset of a transaction whose first batch was deleted in part
        log = log._replace(log_end=log.log_start)
    start, start_note = _start(asked.start, log)
    end, end_note = (None, None) if asked.end is None else _end(asked.end, log, wait_for_end)
    return ResolvedRange(
        asked,
        start,
        end,
        position=min(start, log.log_end),
        log_start=log.log_start,
        log_end=log.log_end,
        notes=tuple(note for note in (start_note, end_note) if note),
        missing=_missing(asked, log, wait_for_end),
    )


def _start(bound: Bound, log: LogOffsets) -> tuple[int, str | None]:
    log_start, log_end, at_time = log
    if isinstance(bound, Earliest):
        return log_start, None
    if isinstance(bound, FromEnd):
        return max(log_start, log_end - bound.n), None
    if isinstance(bound, Time):
        offset = at_time[bound.n]
        if offset < 0:
            return log_end, format_time_lookup(bound.n, offset, log_start)
        deleted = (
            f"the records before offset {offset} were deleted; the first one is at or after {format_time(bound.n)}"
        )
        return offset, deleted if 0 < offset == log_start else None
    start = _offset(bound, log)
    note = f"start offset {start} is after the log end {log_end}" if start > log_end else None
    return max(start, log_start), note


def _end(bound: Bound, log: LogOffsets, wait_for_end: bool) -> tuple[int, str | None]:
    log_start, log_end, at_time = log
    if isinstance(bound, Time):
        offset = at_time[bound.n]
        return (offset if offset >= 0 else log_end), None  # no note: a window that ends now usually has no later record
    end = _offset(bound, log)
    if end <= log_end or wait_for_end:
        return max(end, log_start), None
    return log_end, f"end offset {end} is after the log end {log_end}"


def _offset(bound: Bound, log: LogOffsets) -> int:
    """Return the offset of a bound that is not a time, without the limits of the log."""
    if isinstance(bound, Latest):
        return log.log_end
    if isinstance(bound, FromEnd):
        return log.log_end - bound.n
    return bound.n if isinstance(bound, Offset) else log.log_start + bound.n


def _missing(asked: ReadRange, log: LogOffsets, wait_for_end: bool) -> str | None:
    """Describe the offsets requested by number that do not exist. Times, counts and `start` request no number."""
    reasons = []
    end = asked.end.n if isinstance(asked.end, Offset) else None
    if isinstance(asked.start, Offset):
        first_kept = log.log_start if end is None else min(log.log_start, end)
        if asked.start.n < first_kept:
            reasons.append(
                f"offsets {asked.start.n} to {first_kept - 1} were deleted: the log starts at {log.log_start}"
            )
    if end is not None and end > log.log_end and not wait_for_end:
        first_missing = max(log.log_end, asked.start.n if isinstance(asked.start, Offset) else 0)
        if first_missing < end:
            reasons.append(f"offsets {first_missing} to {end - 1} do not exist: the log ends at {log.log_end}")
    return "; ".join(reasons) or None
