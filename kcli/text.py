"""Formatters and parsers of values that people read and write: times, durations, sizes, counts, topics, partitions.

    TIME     = SECONDS | MS | DATE | DATE "T" CLOCK [ZONE] | "-" DURATION | "now"
    SECONDS  = 9 or 10 digits, with or without a fraction: 1700000000.5
    MS       = 12 or 13 digits: 1700000000500
    DURATION = 1h30m | P1DT2H30M

This is the grammar of every time that a user gives. A number is seconds or milliseconds since 1970, from March 1973 to
November 2286; the digits tell the unit. Any other number, as of microseconds or a date without hyphens, is an error,
because a wrong unit means another century. A time without a zone is UTC. A day of a duration has 24 hours. A duration
has no months or years, because their length varies. Pure: the current time is an argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, AnyStr

from kcli.errors import ConfigError

if TYPE_CHECKING:
    from datetime import datetime, timezone
    from uuid import UUID

TIME_SHAPES = (
    "seconds (9 or 10 digits) or milliseconds (12 or 13 digits) since 1970, 2024-01-31, 2024-01-31T10:00[:00[.000]] "
    "with Z or +02:00 (none: UTC), or -1h30m"
)
DURATION_SHAPES = "1h30m, 90s, 7d, or in ISO's form PT1H30M, P7D"
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}

_LONGEST = 100  # characters of a time or duration
_MOST_PARTITIONS = 100_000

# Not compiled here: most command lines need none of them, and compiling takes longer than all the rest.
DURATION_STEP = r"[0-9]+(?:\.[0-9]+)?(?:ms|[smhdw])"
DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
_ZONE = r"[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?"
CALENDAR_OR_RELATIVE_TIME = rf"now|-(?:{DURATION_STEP})+|{DATE}(?:[Tt ]{_CLOCK}(?:{_ZONE})?)?"
TIME = rf"{CALENDAR_OR_RELATIVE_TIME}|[0-9]+(?:\.[0-9]+)?"
_DATETIME = rf"(?P<date>{DATE})(?:[Tt ](?P<clock>{_CLOCK})(?P<zone>{_ZONE})?)?"
_SECONDS = r"[1-9][0-9]{8,9}(?:\.[0-9]+)?"
_MS = r"[1-9][0-9]{11,12}"
_DIGITS_OF_DATE = r"((?:19[7-9]|20[0-9])[0-9])([0-9]{2})([0-9]{2})(?:([0-9]{2})([0-9]{2})(?:([0-9]{2})([0-9]{3})?)?)?"
_ISO_DURATION = (
    r"P(?=[0-9T])(?:([0-9]{1,9})W)?(?:([0-9]{1,9})D)?"
    r"(?:T(?=[0-9])(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9}(?:[.,][0-9]{1,9})?)S)?)?"
)


# Durations


def duration_ms(text: str) -> float | None:
    """Return `90s`, `1h30m` or `1.5d` in milliseconds; None if the text is not a duration of this form."""
    if not re.fullmatch(f"(?:{DURATION_STEP})+", text):
        return None
    steps = re.findall(r"([0-9]+)(?:\.([0-9]+))?(ms|[smhdw])", text)
    # The fraction is computed from whole numbers: the float 16.1 * 1000 is slightly more than 16100.
    return sum(float(whole) * UNITS_MS[unit] + _fraction_ms(digits, UNITS_MS[unit]) for whole, digits, unit in steps)


def _fraction_ms(digits: str, unit_ms: int) -> float:
    digits = digits[:18] or "0"
    return int(digits) * unit_ms / float(10 ** len(digits))


def parse_duration(text: str) -> int:
    """Return a DURATION in milliseconds. `ConfigError` says what is wrong with the text."""
    simple = duration_ms(text) if len(text) <= _LONGEST else None
    if simple is not None:
        return int(simple)
    iso = re.fullmatch(_ISO_DURATION, text[: _LONGEST + 1], re.IGNORECASE)
    if iso is None:
        raise ConfigError(
            f"'{text[:_LONGEST]}' is not a valid duration; write it like {DURATION_SHAPES}{_duration_hint(text)}"
        )
    numbers = [float((number or "0").replace(",", ".")) for number in iso.groups()]
    return int(sum(number * UNITS_MS[unit] for number, unit in zip(numbers, "wdhms", strict=True)))


def parse_duration_option(option: str, text: str, *, at_least: int = 1) -> int:
    """Return an option's duration in whole milliseconds. `ConfigError` names the option."""
    ms = duration_ms(text) if len(text) <= _LONGEST else None
    if ms is None or ms < at_least or ms != int(ms):
        bound = f" of at least {at_least}ms" if at_least else ""
        raise ConfigError(f"{option}: '{text[:_LONGEST]}' is not valid; use a duration{bound}, such as 30s or 1m30s")
    return int(ms)


def _duration_hint(text: str) -> str:
    if re.match(r"[+-]P?[0-9T]", text, re.IGNORECASE):
        return "; omit the sign: a duration counts back from now"
    if re.match(r"P[0-9]+[YM]", text, re.IGNORECASE):
        return "; months and years differ in length: use days"
    return ""


def format_duration(ms: float) -> str:
    """Return a duration as its two largest units: `450ms`, `12s`, `3m07s`, `5h00m`, `2d04h`."""
    if ms < 1000:
        return f"{int(ms)}ms"
    seconds = int(ms // 1000)
    if seconds < 60:
        return f"{seconds}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m{seconds:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minutes:02}m"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02}h"


# Times


def parse_time(text: str, now_ms: int) -> int:
    """Return a TIME in milliseconds since the epoch. `ConfigError` says what is wrong with the text."""
    if text == "now":
        return now_ms
    if len(text) <= _LONGEST and text.startswith("-") and (ms := duration_ms(text[1:])) is not None:
        return max(0, now_ms - int(ms))
    return parse_absolute_time(text)


def parse_absolute_time(text: str) -> int:
    """Return a TIME that is not relative to now, in milliseconds since the epoch. `ConfigError` as in `parse_time`."""
    if len(text) <= _LONGEST and re.fullmatch(_DATETIME, text):
        return _calendar_ms(text)
    if len(text) > _LONGEST or not re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text):
        raise ConfigError(f"'{text[:_LONGEST]}' is not a valid time; use {TIME_SHAPES}")
    written = _date_of_digits(text)
    if re.fullmatch(_SECONDS, text):
        return round(float(text) * 1000)
    if written is None and re.fullmatch(_MS, text):
        return int(text)
    if written is not None:
        raise ConfigError(f"'{text}' is not a valid time; write the date as {written}")
    units = "seconds since 1970 have 9 or 10 digits, milliseconds 12 or 13, without a fraction"
    raise ConfigError(f"'{text}' is not a valid time; {units}")


def _date_of_digits(digits: str) -> str | None:
    """Return the ISO form of a date without hyphens: `20261128`, with hours and minutes, seconds, milliseconds."""
    match = re.fullmatch(_DIGITS_OF_DATE, digits)
    if match is None:
        return None
    year, month, day, hour, minute, second, ms = match.groups()
    clock = "" if hour is None else f"T{hour}:{minute}" + (f":{second}" if second else "") + (f".{ms}" if ms else "")
    written = f"{year}-{month}-{day}{clock}"
    try:
        _calendar_ms(written)
    except ConfigError:
        return None
    return written


def _calendar_ms(text: str) -> int:
    from datetime import datetime, timedelta

    match = re.fullmatch(_DATETIME, text)
    assert match is not None  # the callers have matched it
    clock = match["clock"] or "00:00"
    whole, _, fraction = clock.partition(".")
    try:
        if whole.startswith("24"):  # Python 3.14 takes it for the next midnight
            raise ValueError
        moment = datetime.fromisoformat(f"{match['date']}T{whole}").replace(tzinfo=_zone(match["zone"]))
    except ValueError:  # its text differs between versions of Python
        raise ConfigError(f"'{text}' is not on the calendar") from None
    ms = (moment - _epoch()) // timedelta(milliseconds=1) + int(f"{fraction:0<3}"[:3])
    if ms < 0:
        raise ConfigError(f"'{text}' is before 1970")
    return ms


def _zone(text: str | None) -> timezone:
    from datetime import timedelta, timezone

    if text is None or text in "Zz":
        return timezone.utc
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
    return timezone(-offset if text[0] == "-" else offset)


def format_time(ms: int) -> str:
    """Return a timestamp as RFC 3339 in UTC with milliseconds, or the bare number where the calendar ends."""
    try:
        return f"{_format_second(ms // 1000)}.{ms % 1000:03d}Z"
    except OverflowError:
        return str(ms)


def format_time_lookup(ms: int, offset: int, log_start: int) -> str:
    """Return the result of a search by time in a log, as a part of a sentence; `offset` is -1 without a record."""
    if offset < 0:
        return f"no record at or after {format_time(ms)}"
    return f"first record at or after {format_time(ms)}" + ("; log start" if offset <= log_start else "")


def format_timestamp(ms: int) -> str:
    """Return the timestamp of a record: as `format_time` does, "" for none (-1), else the bare negative number."""
    if ms < 0:
        return "" if ms == -1 else str(ms)
    return format_time(ms)


@lru_cache(maxsize=4096)
def _format_second(second: int) -> str:
    from datetime import timedelta

    return (_epoch() + timedelta(seconds=second)).isoformat()[:-6]


@lru_cache(maxsize=1)
def _epoch() -> datetime:
    from datetime import datetime, timezone

    return datetime(1970, 1, 1, tzinfo=timezone.utc)


# Counts, sizes, topics, partition numbers, ids


def format_count(count: int, noun: str) -> str:
    """Return `1 partition`, `2 partitions`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def format_size(size: float) -> str:
    """Return a number of bytes in kB or MB (powers of ten): `12.3 kB`, `4.5 MB`."""
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"


def parse_partitions(text: str) -> list[int]:
    """Return the partition numbers in `0,2,5-7`, sorted."""
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,10})(?:-([0-9]{1,10}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if last < first or last - first > _MOST_PARTITIONS:
            raise ConfigError(f"'{text}' is not a valid list of partitions; write it like 0,2,5-7")
        numbers.update(range(first, last + 1))
    return sorted(numbers)


def is_topic_name(name: str) -> bool:
    """Return whether brokers accept the name for a topic (`org.apache.kafka.common.internals.Topic`)."""
    return re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) is not None and name not in (".", "..")


def parse_topics(texts: Iterable[str], partitions: Sequence[str] = ()) -> dict[str, list[int] | None]:
    """Return the partitions of each topic in texts `TOPIC[:p,p..]`; None: all partitions of the topic.

    `partitions` (the values of --partition) apply to the topics that name no partitions themselves.
    """
    general = sorted({p for text in partitions for p in parse_partitions(text)}) or None
    wanted: dict[str, list[int] | None] = {}
    for text in texts:
        name, colon, numbers = text.partition(":")
        if not name:
            raise ConfigError(f"'{text}' is not a valid topic; write it like orders or orders:0,2,5-7")
        chosen = parse_partitions(numbers) if colon else general
        earlier = wanted.get(name, [])
        wanted[name] = None if chosen is None or earlier is None else sorted({*earlier, *chosen})
    return wanted


def runs_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the runs of consecutive numbers as (first, last), in ascending order."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def format_partitions(numbers: Iterable[int], separator: str = ",", *, at_most: int | None = None) -> str:
    """Return partition numbers with runs joined: `0-3,7`. Beyond `at_most` runs, the rest is ` and 12 more`."""
    runs = runs_of(numbers)
    named = runs if at_most is None else runs[:at_most]
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in named]
    rest = sum(last - first + 1 for first, last in runs[len(named) :])
    return separator.join(texts) + (f" and {rest} more" if rest else "")


def kafka_uuid(value: UUID | None) -> str | None:
    """Return a topic id as Kafka prints it: 16 bytes in URL-safe base64 without padding. None for None."""
    if value is None:
        return None
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(value.bytes).decode().rstrip("=")


# Names


def group_text(name: str) -> str:
    """Return the name of a group for people: `''` for the empty name, which Kafka permits for committed offsets."""
    return name or "''"


def format_alternatives(names: Iterable[str]) -> str:
    """Return `a`, `a or b`, `a, b or c`."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def closest_names(name: str, names: Iterable[str], at_most: int = 3, *, cutoff: float = 0.6) -> list[str]:
    """Return the names that a misspelled `name` most resembles, best first, regardless of case."""
    from difflib import get_close_matches

    by_lower = {other.lower(): other for other in names}
    return [by_lower[close] for close in get_close_matches(name.lower(), by_lower, n=at_most, cutoff=cutoff)]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ` (did you mean a or b?)` for the existing `names` that resemble `name`; "" without a good candidate."""
    close = closest_names(name, (other for other in names if other != name))
    return f" (did you mean {format_alternatives(close)}?)" if close else ""


def closest_name(name: str, names: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the name that a misspelled `name` most resembles; None without a good candidate."""
    return next(iter(closest_names(name, names, 1, cutoff=cutoff)), None)


def compile_regex(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Compile a regular expression of a user. Raise re.error for any fault of it.

    Python's warnings, as for the `[[` of `[[a]`, concern later versions of Python, and would print a line of kcli.
    """
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return re.compile(expression, flags)
        except (OverflowError, RecursionError) as error:
            raise re.error(str(error)) from None
