"""Numbers as a line of little bars. Pure."""

from __future__ import annotations

from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-~=+*#"


def sparkline(values: Sequence[int | None], bars: str = BARS) -> str:
    """One sign for each value, from zero (the lowest bar) to the largest among them; a space for what is not known."""
    highest = max((value for value in values if value is not None), default=0)
    return "".join(" " if value is None else bars[_height(value, highest, len(bars))] for value in values)


def _height(value: int, highest: int, heights: int) -> int:
    """0 is the lowest bar alone: whatever is above zero is to be seen."""
    if value <= 0:
        return 0
    return max(1, value * (heights - 1) // highest)
