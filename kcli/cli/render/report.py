"""A command's answer as data: what it is, its items, and which of their fields make the columns. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

Item = dict[str, Any]


class Report:
    """Items to show in any output format.

    `kind` names the document ("topic.list"). `items` are JSON-ready dicts, what `json` and `jsonl` print whole.
    `columns` are the fields that tables and csv show, in order; `rows` are the flat rows for them where an item is not
    one row, or, where these are very many, `table` has the values of all rows by field. A failed item has a field
    `error`, `{"code": ..., "message": ...}`; tables then get an ERROR column.
    """

    def __init__(
        self,
        kind: str,
        columns: Sequence[str],
        items: Sequence[Item],
        rows: Sequence[Item] | None = None,
        *,
        table: Mapping[str, Sequence[Any]] | None = None,
    ):
        self.kind = kind
        self.columns = list(columns)
        self.items = items
        self._rows = items if rows is None else rows
        self._table = table

    def values(self, fields: Sequence[str]) -> list[Sequence[Any]]:
        """What all rows have in each of these fields; None where a row has nothing."""
        if self._table is not None:
            count = len(next(iter(self._table.values()), ()))
            return [self._table.get(field) or (None,) * count for field in fields]
        if not self._rows:
            return [()] * len(fields)
        return list(zip(*[tuple(map(row.get, fields)) for row in self._rows], strict=True))

    @property
    def columns_and_error(self) -> list[str]:
        """The columns, `error` behind them if it is none of them."""
        return self.columns if "error" in self.columns else [*self.columns, "error"]

    @property
    def errors(self) -> list[Item]:
        """The `error` fields of the rows that failed."""
        return [error for error in self.values(["error"])[0] if error]

    @property
    def failed(self) -> bool:
        return bool(self.errors)


def error_field(error: Exception) -> Item:
    """What an item's `error` field says: a broker's code by name, or the kind of error, and one sentence."""
    code = getattr(error, "code", None)
    return {"code": code.name if code is not None else type(error).__name__, "message": str(error)}


def header(field: str) -> str:
    """A column's heading: upper case and hyphens, never a space, so that scripts may split on white space."""
    return field.replace("_", "-").upper()


def cell(value: Any, missing: str = "-") -> str:
    """A field as text: `-` (or what `missing` says) for none, lists joined by commas, an error as its sentence."""
    if value is None:
        return missing
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        if "code" in value and "message" in value:
            return str(value["message"] or value["code"])
        return ",".join(f"{key}={cell(part, missing)}" for key, part in value.items()) or missing
    if isinstance(value, list | tuple):
        return ",".join(cell(part, missing) for part in value) or missing
    return str(value)
