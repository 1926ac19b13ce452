"""Places in a log, as a user gives them to any command or option: one grammar, one type, one resolver. Pure.

    PLACE = "start" | "end" | N | "+N" | "-N" | "@" TIME | RELATIVE | DATE
    TIME  = see kcli.text; RELATIVE and DATE are its times that are not numbers: -1h30m, now, 2024-01-31T10:00Z

`start` and `end` have the names of other tools, too. A number alone is an offset, so a time that is a number needs the
"@"; other times may have it.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from kcli.errors import ConfigError
from kcli.text import CALENDAR_OR_RELATIVE_TIME, DURATION_STEP, TIME, duration_ms, format_time, parse_time

Kind = Literal["start", "end", "offset", "after-start", "before-end", "time", "ago"]

PLACES = "start, end, 100, +100, -100, @TIME"
LARGEST_OFFSET = 2**63 - 1
LONGEST = 100
"""The most characters of a place."""


class Place(NamedTuple):
    """A place in a log, as requested; equal places have one kind and number.

    `n` is the offset, the number of offsets after the log start or before the log end, the time in milliseconds since
    the epoch, or for "ago" the milliseconds before a time that is not known yet: `at` makes it a time.
    """

    kind: Kind
    n: int = 0

    @classmethod
    def offset(cls, n: int) -> Place:
        """Return this offset. As a start of a range it is included, as an end excluded."""
        return cls("offset", _natural(n))

    @classmethod
    def after_start(cls, n: int) -> Place:
        """Return the offset `n` after the log start offset."""
        return cls("after-start", _natural(n))

    @classmethod
    def before_end(cls, n: int) -> Place:
        """Return the offset `n` before the end offset, but not before the log start offset."""
        return cls("before-end", _natural(n))

    @classmethod
    def time(cls, ms: int) -> Place:
        """Return the first offset whose record has a timestamp at or after `ms` since the epoch."""
        return cls("time", _natural(ms))

    @classmethod
    def ago(cls, ms: int) -> Place:
        """Return the time `ms` before a time that is not known yet."""
        return cls("ago", _natural(ms))

    def at(self, now_ms: int) -> Place:
        """Return the place with a relative time made absolute."""
        return Place.time(max(0, now_ms - self.n)) if self.kind == "ago" else self

    def __str__(self) -> str:
        if self.kind in ("start", "end"):
            return self.kind
        if self.kind == "time":
            return f"@{format_time(self.n)}"
        if self.kind == "ago":
            return f"@-{self.n}ms"
        return f"{ {'after-start': '+', 'before-end': '-'}.get(self.kind, '') }{self.n}"


LOG_START = Place("start")
LOG_END = Place("end")
"""The end offset: the high watermark, or under read_committed the last stable offset."""

NAMED = {
    "start": LOG_START,
    "beginning": LOG_START,
    "earliest": LOG_START,
    "oldest": LOG_START,
    "end": LOG_END,
    "latest": LOG_END,
    "newest": LOG_END,
}

# Not compiled here: most command lines need none of them, and compiling takes longer than all the rest.
TIME_PLACE = rf"@(?:{TIME})|{CALENDAR_OR_RELATIVE_TIME}"
_MISTAKES: list[tuple[str, str]] = [
    (rf"({DURATION_STEP})+", "a time in the past begins with '-' or '@-', like @-1h"),
    (r"@\+.*", "a relative time is in the past, like @-1h"),
    (rf"@({DURATION_STEP})+.*", "a relative time begins with '-', like @-1h"),
    (r"@-[0-9.]+", "a relative time needs a unit, like @-30s, @-5m, @-1h30m, @-2d"),
]


def parse_place(text: str, now_ms: int | None = None, *, shapes: str = PLACES) -> Place:
    """Return the place that a user has given; a relative time stays "ago" without `now_ms`, ms since the epoch.

    The message of `ConfigError` is what to do, for example `use one of start, end, 100`: the caller puts its option and
    the text before it. `shapes` are the places that the caller accepts.
    """
    if text in NAMED:
        return NAMED[text]
    if len(text) > LONGEST:
        raise ConfigError(f"it has more than {LONGEST} characters")
    if text.startswith("@") or re.fullmatch(CALENDAR_OR_RELATIVE_TIME, text):
        return _time_place(text.removeprefix("@"), now_ms)
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ConfigError(mistake(text) or f"use one of {shapes}")
    number = int(text.lstrip("+-"))
    if number > LARGEST_OFFSET:
        raise ConfigError("an offset has at most 63 bits")
    if text.startswith("+"):
        return Place.after_start(number)
    return Place.before_end(number) if text.startswith("-") else Place.offset(number)


def parse_place_option(option: str, text: str, now_ms: int | None = None, *, shapes: str = PLACES) -> Place:
    """Return the place that is the value of an option; `ConfigError` has the option, the value, and what to do."""
    try:
        return parse_place(text, now_ms, shapes=shapes)
    except ConfigError as error:
        raise ConfigError(f"{option}: '{text[:40]}' is not valid; {error}") from None


def _time_place(text: str, now_ms: int | None) -> Place:
    if (hint := mistake(f"@{text}")) is not None and not re.fullmatch(TIME, text):
        raise ConfigError(hint)
    if now_ms is not None:
        return Place.time(parse_time(text, now_ms))
    relative = 0.0 if text == "now" else duration_ms(text.removeprefix("-"))
    return Place.time(parse_time(text, 0)) if relative is None else Place.ago(int(relative))


def mistake(text: str) -> str | None:
    """Return what to do instead of a known wrong form of a place; None for any other text."""
    return next((hint for shape, hint in _MISTAKES if re.fullmatch(shape, text)), None)


def resolve(place: Place, log_start: int, log_end: int, at_time: int | None = None) -> int:
    """Return the offset of a place in a log; one given by number may be outside the log.

    `at_time` is the first offset with a timestamp at or after the time of the place, -1 or None without such a record:
    then the place is the log end.
    """
    if place.kind == "start":
        return log_start
    if place.kind == "end":
        return log_end
    if place.kind == "offset":
        return place.n
    if place.kind == "after-start":
        return log_start + place.n
    if place.kind == "before-end":
        return max(log_start, log_end - place.n)
    if place.kind == "ago":
        raise ValueError("a relative time has no offset; make it a time with at(now_ms)")
    return log_end if at_time is None or at_time < 0 else at_time


def offset_of(place: Place | None) -> int | None:
    """Return the offset of a place that is given by number; None for any other place."""
    return place.n if place is not None and place.kind == "offset" else None


def ends_before_start(start: Place, end: Place) -> bool:
    """Return whether two places of one kind are in the wrong order. Different kinds need the log's offsets to tell."""
    if start.kind != end.kind:
        return False
    return end.n > start.n if start.kind in ("before-end", "ago") else end.n < start.n


def _natural(n: int) -> int:
    if n < 0:
        raise ValueError(f"a place must be at least 0; got {n}")
    return n
