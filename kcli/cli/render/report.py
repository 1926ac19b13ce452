"""A command's answer as data: what it is, its items, and which of their fields make the columns. Pure."""

from collections.abc import Sequence
from typing import Any

Item = dict[str, Any]


class Report:
    """Items to show in any output format.

    `kind` names the document ("topic.list"). `items` are JSON-ready dicts, what `json` and `jsonl` print whole.
    `columns` are the fields that tables and csv show, in order; `rows` are the flat rows for them where an item is not
    one row. A failed item has a field `error`, `{"code": ..., "message": ...}`; tables then get an ERROR column.
    """

    def __init__(self, kind: str, columns: Sequence[str], items: Sequence[Item], rows: Sequence[Item] | None = None):
        self.kind = kind
        self.columns = list(columns)
        self.items = items
        self.rows = items if rows is None else rows

    @property
    def failed(self) -> bool:
        return any(row.get("error") for row in self.rows)


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
