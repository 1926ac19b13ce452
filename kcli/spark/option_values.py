"""The values of options: how one text becomes a number, a flag, a length of time, a choice. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from kcli.durations import UNITS_MS
from kcli.errors import ConfigError

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_UNITS_MS = {**UNITS_MS, "us": 0.001, "min": UNITS_MS["m"]}


def whole(name: str, text: str, *, at_least: int = 1, at_most: int = LONG_MAX) -> int:
    """A whole number within bounds."""
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", text.strip()):
        raise ConfigError(f"{name}={text} is not a whole number")
    number = int(text)
    if not at_least <= number <= at_most:
        bound = f"below {at_least}" if number < at_least else f"above {at_most}"
        raise ConfigError(f"{name}={text.strip()} is {bound}")
    return number


def flag(name: str, text: str) -> bool:
    """true or false."""
    if text.strip().lower() not in ("true", "false"):
        raise ConfigError(f"{name}={text} is neither true nor false")
    return text.strip().lower() == "true"


def length_ms(name: str, text: str) -> int:
    """A length of time as Spark's configuration has it: `15m`, `90s`, `100ms`; a bare number is milliseconds."""
    match = re.fullmatch(r"([0-9]{1,15})(us|ms|s|m|min|h|d)?", text.strip().lower())
    if match is None:
        raise ConfigError(f"{name}={text} is not a length of time like 15m, 90s or 100ms")
    return int(int(match[1]) * _UNITS_MS[match[2] or "ms"])


def names(name: str, text: str) -> tuple[str, ...]:
    """Names between commas, each once."""
    found = [item.strip() for item in text.split(",") if item.strip()]
    if not found:
        raise ConfigError(f"{name} is empty")
    for item in found:
        if found.count(item) > 1:
            raise ConfigError(f"{name} names {item} twice")
    return tuple(found)


def choice(*allowed: str) -> Callable[[str, str], str]:
    """A parser for one word of several, whatever its case."""

    def parse(name: str, text: str) -> str:
        if text.strip().lower() not in allowed:
            raise ConfigError(f"{name}={text} is not one of {', '.join(allowed)}")
        return text.strip().lower()

    return parse


CHOICE = {
    "startingOffsetsByTimestampStrategy": choice("error", "latest"),
    "startingGroupStrategy": choice("error", "earliest", "latest"),
}
