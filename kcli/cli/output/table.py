"""Reports as tables: rich's on a terminal, plain ones in a pipe and for many rows.

Numbers are right-aligned. A heading has no spaces, and a missing value is `-`. The layout of a plain table is that of
tabulate, which takes fifty times as long; rich takes 0.5 ms per row, so it makes tables of `MOST_RICH` rows at most.

A table in a pipe has all columns of its report, in their order, so that scripts can rely on them. A terminal omits
optional columns that do not fit into a line, and colours states and lags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcli.cli.output.report import display_width, header, is_numeric, padded, texts_of
from kcli.text import group_text
from kcli.visible import visible

if TYPE_CHECKING:
    from kcli.cli.environment import Environment
    from kcli.cli.output.report import Report

MOST_RICH = 300  # rows
GAP = 2  # spaces between columns
_HEADING_PADDING = 2  # a column is at least this much wider than its heading, as with tabulate


def as_table(env: Environment, report: Report) -> tuple[str, list[str]]:
    """Return the report's rows as a table, with an ERROR column if a row failed, and the columns that are left out."""
    columns, hidden = _shown_columns(env, report)
    values = _values(report, columns)
    numeric = [is_numeric(column) for column in values]
    if env.stdout_is_terminal and not (values and len(values[0]) > MOST_RICH):
        texts = [texts_of(column, finish=visible) for column in values]
        return _rich(env, columns, texts, numeric), hidden
    return _plain([header(column) for column in columns], values, numeric), hidden


def _shown_columns(env: Environment, report: Report) -> tuple[list[str], list[str]]:
    """Return the columns of the table, and the optional ones for which the terminal is too narrow."""
    columns = report.columns_and_error if report.failed else report.columns
    if not env.stdout_is_terminal or not report.optional:
        return columns, []
    widths = {}
    for name, values in zip(columns, _values(report, columns), strict=True):
        widest = max(map(display_width, {header(name), *texts_of(values, finish=visible)}))
        widths[name] = min(widest, _ERROR_WIDTH) if name == "error" else widest
    always = [name for name in columns if name not in report.optional]
    shown = fitting_columns(widths, always, report.optional, env.width)
    return shown, [name for name in columns if name not in shown]


def _values(report: Report, columns: Sequence[str]) -> list[Sequence[Any]]:
    """Return the values by column. A group with the empty name must not look like a missing value."""
    found = report.values(columns)
    if "group" in columns:
        number = columns.index("group")
        found[number] = [group_text(value) if isinstance(value, str) else value for value in found[number]]
    return found


def fitting_columns(widths: Mapping[str, int], always: Sequence[str], optional: Sequence[str], width: int) -> list[str]:
    """Return the columns that fit into `width`, in the order of `widths`.

    Those of `always` are among them even if they do not fit; then come those of `optional`, the most important first. A
    column that does not fit leaves its place to narrower ones.
    """
    shown = set(always)
    used = sum(widths[name] + GAP for name in shown) - GAP
    for name in optional:
        if name in widths and used + GAP + widths[name] <= width:
            shown.add(name)
            used += GAP + widths[name]
    return [name for name in widths if name in shown]


_STATES = {"Stable": "green", "Empty": "yellow", "Dead": "red", "failed": "red", "unknown": "yellow"}
_REBALANCING = {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}


def style_of(column: str, text: str) -> str:
    """Return the style of a cell on a terminal, for rich; "" without one."""
    if column in ("state", "status"):
        return "cyan" if text in _REBALANCING else _STATES.get(text, "")
    if column in ("lag", "max_lag"):
        return {"0": "green", "-": ""}.get(text, "yellow")
    return "red" if column == "error" else ""


def _plain(headers: Sequence[str], values: Sequence[Sequence[Any]], numeric: Sequence[bool]) -> str:
    columns = [
        padded(name, column, display_width(name) + _HEADING_PADDING, right=is_number, finish=visible)
        for name, column, is_number in zip(headers, values, numeric, strict=True)
    ]
    return "\n".join(map(str.rstrip, map((" " * GAP).join, zip(*columns, strict=True)))) + "\n"


def plain_table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table for stderr, without the last line break. It imports nothing, as a short read must end fast."""
    columns = list(zip(*rows, strict=True)) or [()] * len(headings)
    return _plain(headings, columns, [is_numeric(column) for column in columns]).rstrip("\n")


def _rich(env: Environment, columns: Sequence[str], texts: list[list[str]], numeric: list[bool]) -> str:
    """Return a table for a terminal. Errors are folded; names and numbers never are: in a narrow terminal whole lines
    wrap.
    """
    from io import StringIO

    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    needed = 0
    for name, cells, is_number in zip(columns, texts, numeric, strict=True):
        is_error = name == "error"
        widest = max(cell_len(text) for text in (header(name), *cells))
        needed += (min(widest, _ERROR_WIDTH) if is_error else widest) + GAP
        table.add_column(header(name), justify="right" if is_number else "left", no_wrap=not is_error)
    for row in zip(*texts, strict=True):
        table.add_row(*(Text(text, style=style_of(name, text)) for name, text in zip(columns, row, strict=True)))
    text = StringIO()
    width = max(env.width, needed)
    colours: Any = "standard" if env.colour else None
    Console(
        file=text, width=width, force_terminal=env.colour, color_system=colours, highlight=False, emoji=False
    ).print(table)
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())


_ERROR_WIDTH = 30  # smallest width of a longer error
