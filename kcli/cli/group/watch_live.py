"""The view for a terminal: one table that is drawn anew at each look, on the screen's other page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kcli.cli.group.watch_cells import COLUMNS, NUMBERS, row_cells
from kcli.cli.output.escapes import visible
from kcli.cli.output.report import header

if TYPE_CHECKING:
    from kcli.cli.environment import Environment
    from kcli.cli.group.rates import TopicRow

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-~=+*#"


class Live:
    """While entered, the terminal shows the last look; what was there before is back afterwards."""

    def __init__(self, env: Environment, interval_s: float, *, keys: bool) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        utf8 = (getattr(env.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
        self._bars = BARS if utf8 else ASCII_BARS
        self._footer = f"every {interval_s:g} s; {'q' if keys else 'Ctrl-C'} quits"
        console = Console(
            file=env.stdout, force_terminal=True, no_color=not env.colour, highlight=False, emoji=False, width=env.width
        )
        self._live = RichLive(console=console, screen=True, auto_refresh=False, transient=True)

    def __repr__(self) -> str:
        return f"<Live {self._footer}>"

    def __enter__(self) -> Live:
        self._live.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._live.stop()

    def show(self, rows: Sequence[TopicRow], wall_ms: int) -> None:
        """Draw one look."""
        self._live.update(picture(rows, wall_ms, self._footer, self._bars), refresh=True)


def picture(rows: Sequence[TopicRow], wall_ms: int, footer: str, bars: str = BARS) -> Any:
    """The table with a line below it, for rich to draw. Names in it cannot command the terminal."""
    from datetime import datetime, timezone

    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in COLUMNS:
        table.add_column(header(name), justify="right" if name in NUMBERS else "left", no_wrap=True)
    table.add_column("LAG-SO-FAR", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row_cells(row)), Text(sparkline(row.lags, bars)))
    time = datetime.fromtimestamp(wall_ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
    errors = [Text(visible(f"{row.group}: {row.error}"), style="red") for row in rows if row.error is not None]
    return Group(table, *errors, Text(f"{time}  {footer}", style="dim"))


def sparkline(values: Sequence[int | None], bars: str = BARS) -> str:
    """One sign for each value, from zero (the lowest bar) to the largest among them; a space for what is not known."""
    highest = max((value for value in values if value is not None), default=0)
    return "".join(" " if value is None else bars[_height(value, highest, len(bars))] for value in values)


def _height(value: int, highest: int, heights: int) -> int:
    """0 is the lowest bar alone: whatever is above zero is to be seen."""
    if value <= 0:
        return 0
    return max(1, value * (heights - 1) // highest)
