"""Where a read of one partition starts and where it stops. Pure: what was asked, and what it means for a given log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kcli.text import format_time


class Bound:
    """One end of a read, as asked. `n` is an offset, a count or a time in ms, as the kind says; never negative."""

    __slots__ = ("n",)

    def __init__(self, n: int = 0) -> None:
        if n < 0:
            raise ValueError(f"{type(self).__name__} takes a number >= 0, not {n}")
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
    """The log start offset: the oldest record that is still there."""

    __slots__ = ()

    def __str__(self) -> str:
        return "start"


class Latest(Bound):
    """The log end seen when the range is resolved: high watermark, or last stable offset under read_committed."""

    __slots__ = ()

    def __str__(self) -> str:
        return "end"


class Offset(Bound):
    """Exactly this offset. As a start it is read, as an end it is the first one not read."""

    __slots__ = ()


class FromStart(Bound):
    """`n` offsets after the log start."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"+{self.n}"


class FromEnd(Bound):
    """`n` offsets before the log end, yet not before the log start."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"-{self.n}"


class Time(Bound):
    """The first offset whose record has a timestamp at or after `n`, in ms since the epoch."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"@{self.n}"


EARLIEST = Earliest()
LATEST = Latest()


class ReadRange(NamedTuple):
    """A read as asked: from `start` up to, not including, `end`; without an end it follows the log."""

    start: Bound
    end: Bound | None = None

    def __str__(self) -> str:
        return str(self.start) if self.end is None else f"{self.start}:{self.end}"


class LogFacts(NamedTuple):
    """What the leader told about one partition. `at_time[ms]` is the first offset at or after `ms`, -1 if none."""

    log_start: int
    log_end: int
    at_time: Mapping[int, int] = {}


class ResolvedRange(NamedTuple):
    """A range in offsets: records with `start <= offset < end` are wanted, fetching begins at `position`.

    `position` is below `start` only if `start` lies beyond the log's end. `missing` says which records were asked for
    and cannot be had (None: all can); `notes` say what else a person would want to know.
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
        """The start in offsets before the log's limits were applied."""
        return self.asked.start.n if isinstance(self.asked.start, Offset) else self.start

    @property
    def asked_end(self) -> int | None:
        """The end in offsets before the log's limits were applied; None: follow."""
        return self.asked.end.n if isinstance(self.asked.end, Offset) else self.end

    @property
    def lost(self) -> tuple[tuple[int, int], ...]:
        """Offsets asked for by number, as (first, behind), that lie before the log's start."""
        behind = self.log_start if self.asked_end is None else min(self.log_start, self.asked_end)
        return ((self.asked_start, behind),) if self.asked_start < behind else ()


def times_of(asked: ReadRange) -> list[int]:
    """The timestamps that must be looked up before `resolve_range` can answer."""
    return [bound.n for bound in asked if isinstance(bound, Time)]


def resolve_range(asked: ReadRange, facts: LogFacts, *, wait_for_end: bool = False) -> ResolvedRange:
    """Turn a range into offsets of this log.

    An end beyond the log's end is brought back to it, so that the read ends, unless `wait_for_end`: then the read goes
    on until records up to that offset have arrived.
    """
    start, start_note = _start(asked.start, facts)
    end, end_note = (None, None) if asked.end is None else _end(asked.end, facts, wait_for_end)
    return ResolvedRange(
        asked,
        start,
        end,
        position=min(start, facts.log_end),
        log_start=facts.log_start,
        log_end=facts.log_end,
        notes=tuple(note for note in (start_note, end_note) if note),
        missing=_missing(asked, facts, wait_for_end),
    )


def _start(bound: Bound, facts: LogFacts) -> tuple[int, str | None]:
    log_start, log_end, at_time = facts
    if isinstance(bound, Earliest):
        return log_start, None
    if isinstance(bound, FromEnd):
        return max(log_start, log_end - bound.n), None
    if isinstance(bound, Time):
        found = at_time[bound.n]
        return (found, None) if found >= 0 else (log_end, f"no record at or after {format_time(bound.n)}")
    start = _offset(bound, facts)
    beyond = f"it would start at {start}, beyond the log's end {log_end}" if start > log_end else None
    return max(start, log_start), beyond


def _end(bound: Bound, facts: LogFacts, wait_for_end: bool) -> tuple[int, str | None]:
    log_start, log_end, at_time = facts
    if isinstance(bound, Time):
        found = at_time[bound.n]
        return (found if found >= 0 else log_end), None  # the usual end of a window that ends now: nothing to remark
    end = _offset(bound, facts)
    if end <= log_end or wait_for_end:
        return max(end, log_start), None
    return log_end, f"it would end at {end}, the log ends at {log_end}"


def _offset(bound: Bound, facts: LogFacts) -> int:
    """The offset of a bound that needs no look-up by time, not brought into the log's limits."""
    if isinstance(bound, Latest):
        return facts.log_end
    if isinstance(bound, FromEnd):
        return facts.log_end - bound.n
    return bound.n if isinstance(bound, Offset) else facts.log_start + bound.n


def _missing(asked: ReadRange, facts: LogFacts, wait_for_end: bool) -> str | None:
    """Which of the offsets asked for by number cannot be had. Times, counts and `start` promise no number."""
    reasons = []
    end = asked.end.n if isinstance(asked.end, Offset) else None
    if isinstance(asked.start, Offset):
        first_kept = facts.log_start if end is None else min(facts.log_start, end)
        if asked.start.n < first_kept:
            reasons.append(f"offsets {asked.start.n} to {first_kept - 1} are gone: the log starts at {facts.log_start}")
    if end is not None and end > facts.log_end and not wait_for_end:
        first_unborn = max(facts.log_end, asked.start.n if isinstance(asked.start, Offset) else 0)
        if first_unborn < end:
            reasons.append(f"offsets {first_unborn} to {end - 1} do not exist: the log ends at {facts.log_end}")
    return "; ".join(reasons) or None
