"""Moments and lengths of time as Apache's group tool reads them. Pure.

A moment needs all its parts, milliseconds too, and is UTC without a zone. What the tool overlooks is refused here: it
ignores whatever follows the part of a text that it understands, so it takes +0530 for +05.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from kcli.cli import exit_status
from kcli.cli.compat.problems import Failed

_MOMENT = re.compile(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)(?:(Z)|([+-])(\d\d)(?::(\d\d))?)", re.ASCII)
_WHOLE = r"(?:([-+]?[0-9]+){})?"
_SECONDS = r"(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?"
_DURATION = re.compile(
    f"([-+]?)P{_WHOLE.format('D')}(T{_WHOLE.format('H')}{_WHOLE.format('M')}{_SECONDS})?", re.IGNORECASE | re.ASCII
)
_MS = {"D": 86_400_000, "H": 3_600_000, "M": 60_000, "S": 1_000}
_LONGEST_MS = 2**62


def parse_moment(text: str) -> int:
    """`2024-01-31T10:00:00.000+02:00` as ms since the epoch."""
    _, t, clock = text.partition("T")
    if not t or not clock:
        raise _unreadable("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    zoned = text if re.search("[-+Z]", clock.partition("T")[0]) else f"{text}Z"
    match = _MOMENT.fullmatch(zoned)
    if match is None:
        raise _unreadable(f'Unparseable date: "{zoned}"')
    *numbers, _, sign, hours, minutes = match.groups()
    year, month, day_of_month, hour, minute, second, ms = map(int, numbers)
    try:
        moment = datetime(year, month, day_of_month, hour, minute, second, tzinfo=timezone.utc)
        if ms > 999 or int(hours or 0) > 23 or int(minutes or 0) > 59:
            raise ValueError
    except ValueError:
        raise _unreadable(f'Unparseable date: "{zoned}"') from None
    since = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(seconds=1) * 1000 + ms
    ahead = (int(hours or 0) * 60 + int(minutes or 0)) * 60_000
    return since + ahead if sign == "-" else since - ahead


def parse_duration(text: str) -> int:
    """`P1DT2H30M`, `PT0.5S`, `-PT1H` in ms, rounded towards the past that it leads to."""
    match = _DURATION.fullmatch(text)
    if match is None or text[-1] in "pPtT" or not any(match.groups()[1:2] + match.groups()[3:]):
        raise Failed("Text cannot be parsed to a Duration", exit_status.USAGE)
    sign, days, _, hours, minutes, seconds, fraction = match.groups()
    parts = zip("DHMS", (days, hours, minutes, seconds), strict=True)
    nanos = sum(int(number or 0) * _MS[unit] for unit, number in parts) * 1_000_000
    below = int((fraction or "").ljust(9, "0") or 0)
    nanos += -below if seconds and seconds.startswith("-") else below
    ms = -(nanos // 1_000_000) if sign == "-" else -(-nanos // 1_000_000)
    if abs(ms) > _LONGEST_MS:
        raise Failed("Text cannot be parsed to a Duration", exit_status.USAGE)
    return ms


def _unreadable(message: str) -> Failed:
    return Failed(f"java.text.ParseException: {message}", exit_status.USAGE)
