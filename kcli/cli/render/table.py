"""Reports as tables: rich's on a terminal, tabulate's plain ones in a pipe.

Columns of numbers stand right. A column has no spaces in its heading, and `-` for a value that is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.cli.render.report import cell, header

if TYPE_CHECKING:
    from kcli.cli.environment import Environment
    from kcli.cli.render.report import Report


def as_table(env: Environment, report: Report) -> str:
    """The report's rows as a table, with an ERROR column if any row failed."""
    columns = [*report.columns, "error"] if report.failed else report.columns
    rows = [[_printable(cell(row.get(column))) for column in columns] for row in report.rows]
    numeric = [_is_numeric(report, column) for column in columns]
    headers = [header(column) for column in columns]
    if env.stdout_is_terminal:
        return _rich(env, headers, rows, numeric)
    return _plain(headers, rows, numeric)


def _printable(text: str) -> str:
    """Control characters escaped: a line break would break the table, an escape sequence could do worse."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _is_numeric(report: Report, column: str) -> bool:
    values = [row[column] for row in report.rows if row.get(column) is not None]
    return bool(values) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _plain(headers: list[str], rows: list[list[str]], numeric: list[bool]) -> str:
    from tabulate import tabulate

    aligned = ["right" if is_number else "left" for is_number in numeric]
    text = tabulate(rows, headers, tablefmt="plain", disable_numparse=True, colalign=aligned if rows else None)
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def _rich(env: Environment, headers: list[str], rows: list[list[str]], numeric: list[bool]) -> str:
    """Sentences (errors) are folded, names and numbers never: in a terminal too narrow for them whole lines wrap."""
    from io import StringIO

    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    needed = 0
    for number, name in enumerate(headers):
        is_error = name == header("error")
        widest = max(cell_len(text) for text in (name, *(row[number] for row in rows)))
        needed += (min(widest, _ERROR_WIDTH) if is_error else widest) + 2
        table.add_column(name, justify="right" if numeric[number] else "left", no_wrap=not is_error)
    for row in rows:
        table.add_row(*map(Text, row))
    text = StringIO()
    width = max(env.width, needed)
    Console(file=text, width=width, force_terminal=env.colour, highlight=False, emoji=False).print(table)
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())


_ERROR_WIDTH = 30  # at least, if the sentence is that long
