"""Ranges of a partition to read, as requested and resolved to the offsets of its log. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kcli.log_place import Place, offset_of, resolve
from kcli.text import format_time, format_time_lookup


class ReadRange(NamedTuple):
    """A range as requested: from `start` up to, not including, `end`; without an end, the read follows the log."""

    start: Place
    end: Place | None = None

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
        return self.start if (start := offset_of(self.asked.start)) is None else start

    @property
    def asked_end(self) -> int | None:
        """The requested end offset, before the limits of the log were applied; None: no end."""
        return self.end if (end := offset_of(self.asked.end)) is None else end

    @property
    def lost(self) -> tuple[tuple[int, int], ...]:
        """The requested offsets before the log start, as (first offset, offset after the last)."""
        after = self.log_start if self.asked_end is None else min(self.log_start, self.asked_end)
        return ((self.asked_start, after),) if self.asked_start < after else ()


def times_of(asked: ReadRange) -> list[int]:
    """Return the timestamps to look up before `resolve_range`."""
    return [place.n for place in asked if place is not None and place.kind == "time"]


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


def _start(place: Place, log: LogOffsets) -> tuple[int, str | None]:
    log_start, log_end, at_time = log
    start = resolve(place, log_start, log_end, at_time.get(place.n))
    if place.kind == "time":
        if at_time[place.n] < 0:
            return start, format_time_lookup(place.n, -1, log_start)
        deleted = f"the records before offset {start} were deleted; the first one is at or after {format_time(place.n)}"
        return start, deleted if 0 < start == log_start else None
    note = f"start offset {start} is after the log end {log_end}" if start > log_end else None
    return max(start, log_start), note


def _end(place: Place, log: LogOffsets, wait_for_end: bool) -> tuple[int, str | None]:
    log_start, log_end, at_time = log
    end = resolve(place, log_start, log_end, at_time.get(place.n))
    if place.kind == "time":
        return end, None  # no note: a window that ends now usually has no later record
    if end <= log_end or wait_for_end:
        return max(end, log_start), None
    return log_end, f"end offset {end} is after the log end {log_end}"


def _missing(asked: ReadRange, log: LogOffsets, wait_for_end: bool) -> str | None:
    """Describe the offsets requested by number that do not exist. Times, counts and `start` request no number."""
    reasons = []
    start, end = offset_of(asked.start), offset_of(asked.end)
    if start is not None:
        first_kept = log.log_start if end is None else min(log.log_start, end)
        if start < first_kept:
            reasons.append(f"offsets {start} to {first_kept - 1} were deleted: the log starts at {log.log_start}")
    if end is not None and end > log.log_end and not wait_for_end:
        first_missing = max(log.log_end, start or 0)
        if first_missing < end:
            reasons.append(f"offsets {first_missing} to {end - 1} do not exist: the log ends at {log.log_end}")
    return "; ".join(reasons) or None
