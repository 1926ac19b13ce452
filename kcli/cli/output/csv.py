"""Reports as csv (RFC 4180, but with plain newlines) and tsv (tabs and newlines in a field escaped).

The first line has the field names. The `error` column is always present, as the last one unless the report has it as a
column of its own. A missing value is an empty field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.cli.output.report import texts_of
from kcli.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.cli.output.report import Finish, Report


def as_csv(report: Report, *, terminal: bool = False) -> str:
    """Return the report as csv: fields quoted where necessary; for a `terminal` with control characters escaped."""
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_records(report, visible if terminal else None))
    return text.getvalue()


def as_tsv(report: Report, *, terminal: bool = False) -> str:
    """Return the report as tsv, unquoted:

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
