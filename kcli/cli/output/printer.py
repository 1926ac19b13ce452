"""Print a report in the chosen output format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kcli.cli import exit_status
from kcli.cli.output.report import cell, header, texts_of
from kcli.visible import visible, visible_json

if TYPE_CHECKING:
    from kcli.cli.environment import Environment
    from kcli.cli.output.report import Finish, Item, Report


def print_report(env: Environment, report: Report, output: str | None, *, failures_reported: bool = False) -> None:
    """Print the report on standard output; `output` None means a table.

    Failed items are part of the report. If standard output is not a terminal, a line on stderr reports them too, unless
    the caller does that (`failures_reported`). Control characters are escaped on a terminal.
    """
    terminal = env.stdout_is_terminal
    hidden: list[str] = []
    if output in (None, "table"):
        from kcli.cli.output.table import as_table

        text, hidden = as_table(env, report)
    else:
        text = as_text(report, output, terminal=terminal)
    env.stdout.write(text)
    report_hidden(env, hidden)
    failed = report.errors
    if failed and not env.stdout_is_terminal and not failures_reported:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        env.report(f"kcli: {cell(failed[0])}{more}")


def as_text(report: Report, output: str, *, terminal: bool = False) -> str:
    """Return the report in a format for programs; for a `terminal` with control characters escaped."""
    if output in ("csv", "tsv"):
        return (as_csv if output == "csv" else as_tsv)(report, terminal=terminal)
    from kcli.cli.output.json import as_document, as_lines

    text = as_document(report) if output == "json" else as_lines(report)
    if not terminal:
        return text
    return visible_json(text)


def as_csv(report: Report, *, terminal: bool = False) -> str:
    """Return the report as csv (RFC 4180, but with plain newlines), its first line with the names of the fields.

    The `error` column is always present, as the last one unless the report has it as a column of its own. A missing
    value is an empty field. For a `terminal`, control characters are escaped.
    """
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_records(report, visible if terminal else None))
    return text.getvalue()


def as_tsv(report: Report, *, terminal: bool = False) -> str:
    """Return the rows of `as_csv` as tsv, unquoted:

    backslash, tab, newline and carriage return are `\\\\`, `\\t`, `\\n`, `\\r`.
    """
    records = _records(report, _escaped_and_visible if terminal else _escape)
    return "".join("\t".join(record) + "\n" for record in records)


def _records(report: Report, finish: Finish | None) -> Iterator[tuple[str, ...]]:
    fields = report.columns_and_error
    yield tuple(fields)
    yield from zip(*(texts_of(column, "", finish) for column in report.values(fields)), strict=True)


def _escaped_and_visible(text: str) -> str:
    return visible(_escape(text))


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def print_names(env: Environment, items: Iterable[Item], field: str) -> int:
    """Print this field of each item, one per line, and report the errors of items; return the exit status."""
    status = exit_status.DONE
    for item in items:
        if "error" in item:
            env.report(f"kcli: {cell(item['error'])}")
            status = exit_status.FAILED
        if (name := item[field]) is not None:
            env.stdout.write((visible(name) if env.stdout_is_terminal else name) + "\n")
    return status


def report_hidden(env: Environment, hidden: Iterable[str]) -> None:
    """Report the columns that a table omits because the terminal is too narrow."""
    if names := ", ".join(map(header, hidden)):
        env.report(f"the terminal is too narrow for {names}; --wide shows all columns")
