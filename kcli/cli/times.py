"""Moments and lengths of time as people and Kafka's tools write them. Pure: no I/O, no clock.

    TIME     = epoch seconds or milliseconds | DATE | DATE "T" CLOCK [ZONE] | "-" DURATION | "now"
    DURATION = 1h30m | P1DT2H30M

A time without a zone is UTC. Days of a duration have 24 hours; it has no months or years, whose length is not known.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from kcli.durations import UNITS_MS, duration_ms
from kcli.errors import ConfigError

TIME_SHAPES = (
    "epoch seconds or milliseconds, 2024-01-31, 2024-01-31T10:00[:00[.000]] with Z or +02:00 (none: UTC), or -1h30m"
)
DURATION_SHAPES = "1h30m, 90s, 7d, or in ISO's form PT1H30M, P7D"

_LARGEST = 2**63 - 1
_LONGEST = 100
_SECONDS_BELOW = 100_000_000_000
"""An epoch number below this is seconds (up to the year 5138), from here on milliseconds (since March 1973)."""

# Not compiled here: most command lines need none of them, and compiling takes longer than all the rest.
DURATION_STEP = r"[0-9]+(?:\.[0-9]+)?(?:ms|[smhdw])"
DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
_ZONE = r"[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?"
TIME = rf"now|-(?:{DURATION_STEP})+|{DATE}(?:[Tt ]{_CLOCK}(?:{_ZONE})?)?|[0-9]+(?:\.[0-9]+)?"
_DATETIME = rf"(?P<date>{DATE})(?:[Tt ](?P<clock>{_CLOCK})(?P<zone>{_ZONE})?)?"
_ISO_DURATION = (
    r"P(?=[0-9T])(?:([0-9]{1,9})W)?(?:([0-9]{1,9})D)?"
    r"(?:T(?=[0-9])(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9}(?:[.,][0-9]{1,9})?)S)?)?"
)


def time_ms(text: str, now_ms: int) -> int:
    """One TIME in milliseconds since the epoch; ConfigError says what is wrong with it."""
    if len(text) > _LONGEST or not re.fullmatch(TIME, text):
        raise ConfigError(f"'{text[:_LONGEST]}' is not a time: a time is {TIME_SHAPES}")
    if text == "now":
        return now_ms
    if text.startswith("-"):
        return max(0, now_ms - int(duration_ms(text[1:]) or 0))
    if re.fullmatch(r"[0-9.]+", text):
        return _epoch_ms(text)
    return _calendar_ms(text)


def length_ms(text: str) -> int:
    """One DURATION in milliseconds; ConfigError says what is wrong with it."""
    simple = duration_ms(text) if len(text) <= _LONGEST else None
    if simple is not None:
        return int(simple)
    iso = re.fullmatch(_ISO_DURATION, text[: _LONGEST + 1], re.IGNORECASE)
    if iso is None:
        raise ConfigError(f"'{text[:_LONGEST]}' is not a length of time like {DURATION_SHAPES}{_length_hint(text)}")
    numbers = [float((number or "0").replace(",", ".")) for number in iso.groups()]
    return int(sum(number * UNITS_MS[unit] for number, unit in zip(numbers, "wdhms", strict=True)))


def option_ms(option: str, text: str, *, at_least: int = 1) -> int:
    """The length of time that an option was given, in whole ms; ConfigError names the option."""
    ms = duration_ms(text) if len(text) <= _LONGEST else None
    if ms is None or ms < at_least or ms != int(ms):
        bound = f", at least {at_least}ms" if at_least else ""
        raise ConfigError(f"{option} is a length of time like 30s or 1m30s{bound}, not '{text[:_LONGEST]}'")
    return int(ms)


def check_interval(seconds: float) -> None:
    """ConfigError for an --interval between two looks that makes no sense."""
    if not 0 < seconds < 1e6:
        raise ConfigError(f"--interval must be a number of seconds above 0, not {seconds:g}")


def _length_hint(text: str) -> str:
    if re.match(r"[+-]P?[0-9T]", text, re.IGNORECASE):
        return "; it reaches back from now without a sign"
    if re.match(r"P[0-9]+[YM]", text, re.IGNORECASE):
        return "; months and years differ in length: say it in days"
    return ""


def _epoch_ms(text: str) -> int:
    whole = int(text.partition(".")[0])
    if whole > _LARGEST:
        raise ConfigError(f"'{text}' is no time that Kafka could store")
    return round(float(text) * 1000) if whole < _SECONDS_BELOW else whole


def _calendar_ms(text: str) -> int:
    match = re.fullmatch(_DATETIME, text)
    assert match is not None  # TIME has seen it
    clock = match["clock"] or "00:00"
    whole, _, fraction = clock.partition(".")
    try:
        moment = datetime.fromisoformat(f"{match['date']}T{whole}").replace(tzinfo=_zone(match["zone"]))
    except ValueError as error:
        raise ConfigError(f"'{text}' is not on the calendar ({error})") from None
    ms = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1) + int(f"{fraction:0<3}"[:3])
    if ms < 0:
        raise ConfigError(f"'{text}' is before 1970")
    return ms


def _zone(text: str | None) -> timezone:
    if text is None or text in "Zz":
        return timezone.utc
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
    return timezone(-offset if text[0] == "-" else offset)
