"""Views of `kcli group watch`: lines for pipes and programs, and a live table for terminals."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kcli.cli.output.report import Report, cell, display_width, error_field, header
from kcli.cli.output.table import GAP, fitting_columns, style_of
from kcli.text import format_duration, format_time, group_text
from kcli.visible import visible

if TYPE_CHECKING:
    from kcli.admin.groups.rates import TopicRow
    from kcli.cli.environment import Environment
    from kcli.cli.output.report import Item

COLUMNS = ["group", "state", "members", "topic", "partitions", "lag", "consumed_per_s", "produced_per_s", "drain"]
# Columns of the live view: the first two are always shown, the others as far as the terminal is wide enough, the most
# important first.
ALWAYS = ["group", "lag"]
OPTIONAL = ["topic", "drain", "state", "consumed_per_s", "produced_per_s", "lag_so_far", "partitions", "members"]
NUMBERS = {"members", "partitions", "lag", "consumed_per_s", "produced_per_s", "drain"}


def row_item(row: TopicRow) -> Item:
    """Return the row as data: rates in records per second; `drain_ms` is null for never and for unknown."""
    item: Item = {
        "group": row.group,
        "state": row.state or None,
        "member_count": row.members if row.state else None,
        "topic": row.topic,
        "partition_count": row.partitions if row.topic is not None else None,
        "lag": row.lag,
        "consumed_per_s": _rounded(row.consumed),
        "produced_per_s": _rounded(row.produced),
        "drain_ms": None if row.drain_ms is None else round(row.drain_ms),
    }
    if row.error is not None:
        item["error"] = error_field(row.error)
    return item


def row_cells(row: TopicRow) -> list[str]:
    """Return the cells of COLUMNS: `-` for an unknown value, `never` for a lag that does not shrink."""
    values = {**as_row(row_item(row)), "group": group_text(row.group), "drain": drain(row)}
    return [_cell(values[column]) for column in COLUMNS]


def as_row(item: Item) -> Item:
    """Return the item with the field names of a table."""
    return {**item, "members": item["member_count"], "partitions": item["partition_count"]}


def drain(row: TopicRow) -> str:
    """Return the time until the lag is 0: `3m07s`, `never`, or `-` if it is unknown."""
    if row.drain_ms is not None:
        return format_duration(row.drain_ms) if row.drain_ms else "0s"
    return "never" if row.lag and row.consumed is not None else "-"


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)


def _cell(value: Any) -> str:
    return "-" if value is None else str(value)


_DATA_COLUMNS = ["time", *(column if column != "drain" else "drain_ms" for column in COLUMNS)]


class LineView:
    """A line for each topic and sample, flushed at once. Columns of a table only grow, so that lines stay aligned."""

    def __init__(self, env: Environment, output: str | None) -> None:
        self._env = env
        self._output = output
        self._widths = [0] * (len(COLUMNS) + 1)
        self._has_header = False

    def __repr__(self) -> str:
        return f"<LineView {self._output or 'table'}>"

    def __enter__(self) -> LineView:
        return self

    def __exit__(self, *_exc: object) -> None:
        pass

    def refresh(self) -> None:
        """A line that is printed stays as it is."""

    def show(self, rows: Sequence[TopicRow], wall_ms: int) -> None:
        """Print one sample; report failed rows on standard error too."""
        time = format_time(wall_ms)
        text = self._table(rows, time) if self._output in (None, "table") else self._for_programs(rows, time)
        self._has_header = True
        self._env.stdout.write(text)
        self._env.stdout.flush()
        for row in rows:
            if row.error is not None:
                self._env.report(f"kcli: {group_text(row.group)}: {cell(str(row.error))}")

    def _for_programs(self, rows: Sequence[TopicRow], time: str) -> str:
        from kcli.cli.output.printer import as_text

        items = [{"time": time, **row_item(row)} for row in rows]
        report = Report("group.watch", _DATA_COLUMNS, items, [as_row(item) for item in items])
        text = as_text(report, self._output or "")
        return text.partition("\n")[2] if self._has_header and self._output != "jsonl" else text

    def _table(self, rows: Sequence[TopicRow], time: str) -> str:
        lines = [] if self._has_header else [["TIME", *map(header, COLUMNS)]]
        lines += [[time, *row_cells(row)] for row in rows]
        for line in lines:
            self._widths = [max(width, len(text)) for width, text in zip(self._widths, line, strict=True)]
        return "".join(self._aligned(line) for line in lines)

    def _aligned(self, line: list[str]) -> str:
        cells = [
            text.rjust(width) if name in NUMBERS else text.ljust(width)
            for text, width, name in zip(line, self._widths, ["time", *COLUMNS], strict=True)
        ]
        return "  ".join(cells).rstrip() + "\n"


BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-~=+*#"
_DEFAULT_LINES = 24


class LiveView:
    """A table on the alternate screen of the terminal while entered, redrawn for each sample and each new size."""

    def __init__(self, env: Environment, interval_s: float, *, keys: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        utf8 = (getattr(env.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
        self._env = env
        self._bars = BARS if utf8 else ASCII_BARS
        self._footer = f"every {interval_s:g} s; {'q' if keys else 'Ctrl-C'} quits"
        self._console = Console(
            file=env.stdout,
            force_terminal=True,
            color_system="standard",
            no_color=not env.colour,
            highlight=False,
            emoji=False,
        )
        self._live = Live(console=self._console, screen=True, auto_refresh=False, transient=True)
        self._size = (0, 0)
        self._sample: tuple[Sequence[TopicRow], int] | None = None

    def __repr__(self) -> str:
        return f"<LiveView {self._footer}>"

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._live.stop()

    def show(self, rows: Sequence[TopicRow], wall_ms: int) -> None:
        """Draw one sample."""
        self._sample = rows, wall_ms
        self._size = self._console.size = self._terminal_size()
        self._live.update(picture(rows, wall_ms, self._footer, self._bars, width=self._size[0]), refresh=True)

    def refresh(self) -> None:
        """Draw the last sample again if the terminal was resized."""
        if self._sample is not None and self._terminal_size() != self._size:
            self.show(*self._sample)

    def _terminal_size(self) -> tuple[int, int]:
        """Columns and lines now. COLUMNS is not used, because a shell sets it once."""
        try:
            columns, lines = os.get_terminal_size(self._env.stdout.fileno())
        except (OSError, ValueError):
            columns, lines = 0, 0
        return columns or self._env.width, lines or _DEFAULT_LINES


def picture(rows: Sequence[TopicRow], wall_ms: int, footer: str, bars: str = BARS, *, width: int) -> Any:
    """Return the table and its footer for rich. Names are escaped so that they cannot control the terminal.

    Columns that do not fit into `width` are left out and named in the footer.
    """
    from datetime import datetime, timezone

    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    cells = {name: list(map(visible, values)) for name, values in _columns(rows, bars).items()}
    widths = {name: max(display_width(text) for text in (header(name), *cells[name])) for name in cells}
    bars_wanted, widths["lag_so_far"] = widths["lag_so_far"], len(header("lag_so_far"))
    shown = fitting_columns(widths, ALWAYS, OPTIONAL, width)
    spare = width - sum(widths[name] for name in shown) - GAP * (len(shown) - 1)
    widths["lag_so_far"] += max(0, min(spare, bars_wanted - widths["lag_so_far"]))
    widths["group"] += min(0, spare)  # a name that does not fit is cut; LAG is not
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in shown:
        justify: Any = "right" if name in NUMBERS else "left"
        table.add_column(header(name), justify=justify, no_wrap=True, width=max(1, widths[name]))
    for index in range(len(rows)):
        texts = {name: cells[name][index] for name in shown}
        if "lag_so_far" in texts:
            texts["lag_so_far"] = texts["lag_so_far"][-widths["lag_so_far"] :]
        table.add_row(*(Text(text, style=style_of(name, text)) for name, text in texts.items()))
    time = datetime.fromtimestamp(wall_ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
    errors = [
        Text(visible(f"{group_text(row.group)}: {row.error}"), style="red") for row in rows if row.error is not None
    ]
    hidden = ", ".join(header(name) for name in cells if name not in shown)
    note = f"{time}  {footer}{f'; too narrow for {hidden}' if hidden else ''}"
    return Group(table, *errors, Text(note, style="dim"))


def _columns(rows: Sequence[TopicRow], bars: str) -> dict[str, list[str]]:
    """Return the cells of each column."""
    cells = list(map(row_cells, rows))
    columns = {name: [line[index] for line in cells] for index, name in enumerate(COLUMNS)}
    return {**columns, "lag_so_far": [sparkline(row.lags, bars) for row in rows]}


def sparkline(values: Sequence[int | None], bars: str = BARS) -> str:
    """Return one bar for each value, from 0 (the lowest bar) to the largest value; a space for an unknown value."""
    highest = max((value for value in values if value is not None), default=0)
    return "".join(" " if value is None else bars[_height(value, highest, len(bars))] for value in values)


def _height(value: int, highest: int, heights: int) -> int:
    """Return the height of a bar; only 0 has the lowest one, so that a small value is visible."""
    if value <= 0:
        return 0
    return max(1, value * (heights - 1) // highest)
