"""JSON of decoded values: what every decoder returns, as text or as Python objects of JSON only.

| value | JSON |
|---|---|
| bytes | base64 text |
| Decimal | its exact digits as text |
| date, time, datetime, `Timestamp` | ISO 8601; a time zone is UTC, written Z; a local timestamp has none |
| UUID | its text |
| `Duration` | object with months, days, milliseconds |
| NaN, Infinity | the text NaN, Infinity, -Infinity |
| int of any size | number |
"""

from __future__ import annotations

import datetime
import json
import math
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_EXPONENT = 400
_CLOCK = re.compile(r"(?P<hours>\d\d):(?P<minutes>\d\d)(:(?P<seconds>\d\d)(\.(?P<fraction>\d{1,9}))?)?", re.ASCII)
_TIMESTAMP = re.compile(
    r"(?P<year>[+-]?\d{4,9})-(?P<month>\d\d)-(?P<day>\d\d)[T ](?P<clock>[\d:.]+)(?P<zone>[Zz]|[+-]\d\d:?\d\d)?",
    re.ASCII,
)


class Timestamp:
    """An instant with nanoseconds, or one that is outside the years of `datetime`; `is_local` has no time zone.

    `nanoseconds` are since 1970-01-01T00:00:00.
    """

    __slots__ = ("is_local", "nanoseconds")

    def __init__(self, nanoseconds: int, *, is_local: bool = False) -> None:
        self.nanoseconds = nanoseconds
        self.is_local = is_local

    def __repr__(self) -> str:
        return f"<Timestamp {self.isoformat()}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and (self.nanoseconds, self.is_local) == (other.nanoseconds, other.is_local)

    def __hash__(self) -> int:
        return hash((self.nanoseconds, self.is_local))

    def isoformat(self) -> str:
        """The text by ISO 8601; years before 0 and after 9999 have a sign, as ISO 8601 expands them."""
        seconds, nanoseconds = divmod(self.nanoseconds, 1_000_000_000)
        days, second = divmod(seconds, 86_400)
        # 400 years of the Gregorian calendar have 146097 days.
        periods, days = divmod(days, 146_097)
        day = datetime.date(2000, 1, 1) + datetime.timedelta(days - 10_957 % 146_097)
        year = day.year + 400 * periods
        date = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
        fraction = f".{nanoseconds:09d}" if nanoseconds else ""
        for zeros in ("000000", "000"):
            fraction = fraction.removesuffix(zeros) if fraction.endswith(zeros) else fraction
        clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        return f"{date}-{day.month:02d}-{day.day:02d}T{clock}{fraction}{'' if self.is_local else 'Z'}"


def parse_timestamp(text: str) -> Timestamp:
    """Return the instant of a text by ISO 8601; `is_local` if it has no time zone. Raise ValueError."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError("it is not a date and time")
    periods, year = divmod(int(match["year"]), 400)
    days = datetime.date(year + 400, int(match["month"]), int(match["day"])).toordinal()
    days += (periods - 1) * 146_097 - datetime.date(1970, 1, 1).toordinal()
    nanoseconds = days * 86_400 * 1_000_000_000 + parse_clock(match["clock"])
    zone = match["zone"]
    if zone and zone not in "Zz":
        minutes = int(zone[1:3]) * 60 + int(zone[-2:])
        nanoseconds += (minutes if zone[0] == "-" else -minutes) * 60 * 1_000_000_000
    return Timestamp(nanoseconds, is_local=not zone)


def parse_clock(text: str) -> int:
    """Return the nanoseconds of a time of day, such as 13:30 or 13:30:00.25. Raise ValueError."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError("it is not a time of day")
    hours, minutes, seconds = int(match["hours"]), int(match["minutes"]), int(match["seconds"] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("it is not a time of day")
    return (hours * 3600 + minutes * 60 + seconds) * 1_000_000_000 + int((match["fraction"] or "").ljust(9, "0"))


@dataclass(frozen=True)
class Duration:
    """A duration of Avro: months, days and milliseconds, each unsigned and independent of the others."""

    months: int
    days: int
    milliseconds: int


def json_texts(values: Sequence[Any]) -> list[str]:
    """Return the JSON text of each decoded value, on one line, as UTF-8 can represent it."""
    return [json_text(value) for value in values]


def json_text(value: Any) -> str:
    """Return the JSON text of a decoded value."""
    try:
        text = _encode(value)
    except (ValueError, TypeError):  # NaN, or a key of a map that is not a text
        text = _encode(json_ready(value))
    if not text.isascii() and _SURROGATE.search(text):
        return json.dumps(json_ready(value), separators=(",", ":"))
    return text


def json_ready(value: Any) -> Any:
    """Return the value as dict, list, str, int, finite float, bool and None only."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return value if math.isfinite(value) else _float_text(value)
    if isinstance(value, Mapping):
        return {member_name(name): json_ready(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(part) for part in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    """Return the JSON of a value that Python's encoder does not know."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b64encode(value).decode()
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return f"{value:f}" if isinstance(exponent, int) and abs(exponent) < _MAX_EXPONENT else str(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, (datetime.date, datetime.time, Timestamp)):
        return value.isoformat()
    if isinstance(value, Duration):
        return asdict(value)
    for kind in (int, float, str):
        if isinstance(value, kind):  # a subclass, such as an enumeration
            return json_ready(kind(value))
    return str(value)  # a UUID


def member_name(name: Any) -> str:
    """Return the text that a key of a map is in JSON."""
    if isinstance(name, str):
        return name
    ready = json_ready(name)
    return ready if isinstance(ready, str) else json.dumps(ready)


def _float_text(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"), default=_scalar
).encode
