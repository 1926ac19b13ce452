"""Reports as csv (RFC 4180, but with plain newlines) and tsv (tabs and newlines inside a field escaped).

Both begin with a header of field names, and always have an `error` column, last, so that it does not come and go.
A missing value is an empty field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.cli.records.escapes import visible
from kcli.cli.render.report import cell

if TYPE_CHECKING:
    from kcli.cli.render.report import Report


def as_csv(report: Report, *, terminal: bool = False) -> str:
    """Fields quoted where they need it; for a `terminal` with control characters shown escaped."""
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_shown(_records(report), terminal))
    return text.getvalue()


def as_tsv(report: Report, *, terminal: bool = False) -> str:
    """Fields unquoted: backslash, tab, newline and carriage return are written `\\\\`, `\\t`, `\\n`, `\\r`."""
    records = [list(map(_escape, record)) for record in _records(report)]
    return "".join("\t".join(record) + "\n" for record in _shown(records, terminal))


def _records(report: Report) -> list[list[str]]:
    fields = [*report.columns, "error"]
    return [fields, *([cell(row.get(field), missing="") for field in fields] for row in report.rows)]


def _shown(records: list[list[str]], terminal: bool) -> list[list[str]]:
    return [list(map(visible, record)) for record in records] if terminal else records


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
