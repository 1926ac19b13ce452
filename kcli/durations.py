"""Lengths of time as people write them, `1h30m`, both ways. Pure."""

from __future__ import annotations

import re

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_STEP = r"[0-9]+(?:\.[0-9]+)?(?:ms|[smhdw])"


def duration_ms(text: str) -> float | None:
    """`90s`, `1h30m`, `1.5d` in milliseconds; None when it is not a length of time."""
    if not re.fullmatch(f"(?:{_STEP})+", text):
        return None
    steps = re.findall(r"([0-9]+)(?:\.([0-9]+))?(ms|[smhdw])", text)
    # Digits behind the point apart, as whole numbers: of 16.1 * 1000 a float makes a little more than 16100.
    return sum(float(whole) * UNITS_MS[unit] + _part(digits, UNITS_MS[unit]) for whole, digits, unit in steps)


def _part(digits: str, unit_ms: int) -> float:
    digits = digits[:18] or "0"
    return int(digits) * unit_ms / float(10 ** len(digits))


def shown_duration(ms: float) -> str:
    """A length of time in one word of its two largest units: `450ms`, `12s`, `3m07s`, `5h00m`, `2d04h`."""
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
