"""A command's result as data: its kind, its items, and the fields that are columns. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kcli.errors import OutcomeUnknown

Item = dict[str, Any]


class Report:
    """Items to print in any output format.

    `kind` names the document ("topic.list"). `items` are JSON-ready dicts, which `json` and `jsonl` print whole.
    `columns` are the fields of tables and csv, in order. `rows` are the flat rows for them if an item is not one row;
    for very many rows, `table` has the values of all rows by field instead. A failed item has a field `error`,
    `{"code": ..., "message": ...}`; tables then have an ERROR column. `optional`: columns that a narrow terminal omits,
    the most important first; the command has an option --wide, with which there are none.
    """

    def __init__(
        self,
        kind: str,
        columns: Sequence[str],
        items: Sequence[Item],
        rows: Sequence[Item] | None = None,
        *,
        table: Mapping[str, Sequence[Any]] | None = None,
        optional: Sequence[str] = (),
    ):
        self.kind = kind
        self.columns = list(columns)
        self.optional = tuple(optional)
        self.items = items
        self._rows = items if rows is None else rows
        self._table = table

    def values(self, fields: Sequence[str]) -> list[Sequence[Any]]:
        """Return the values of all rows for each of these fields; None where a row has none."""
        if self._table is not None:
            count = len(next(iter(self._table.values()), ()))
            return [self._table.get(field) or (None,) * count for field in fields]
        if not self._rows:
            return [()] * len(fields)
        return list(zip(*[tuple(map(row.get, fields)) for row in self._rows], strict=True))

    @property
    def columns_and_error(self) -> list[str]:
        """The columns, with `error` as the last one unless it is one of them."""
        return self.columns if "error" in self.columns else [*self.columns, "error"]

    @property
    def errors(self) -> list[Item]:
        """The `error` fields of the failed rows."""
        return [error for error in self.values(["error"])[0] if error]

    @property
    def failed(self) -> bool:
        return bool(self.errors)


def error_field(error: Exception) -> Item:
    """Return an item's `error` field: the broker's error code or the class of the error, and a sentence without it."""
    code = getattr(error, "code", None)
    name = code.name if code is not None else type(error).__name__
    return {"code": name, "message": str(error).removeprefix(f"{name}: ")}


def failure_status(error: Exception) -> str:
    """Return the `status` of an item whose change has this error: unknown if it may have been made, else failed."""
    return "unknown" if isinstance(error, OutcomeUnknown) else "failed"


def header(field: str) -> str:
    """Return a column's heading: upper case and hyphens, never a space, so that scripts can split on white space."""
    return field.replace("_", "-").upper()


def cell(value: Any, missing: str = "-") -> str:
    """Return a field as text: `missing` for None, lists joined by commas, an error as its sentence."""
    if value is None:
        return missing
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        if "code" in value and "message" in value:
            return _error_text(value["code"], value["message"])
        return ",".join(f"{key}={cell(part, missing)}" for key, part in value.items()) or missing
    if isinstance(value, list | tuple):
        return ",".join(cell(part, missing) for part in value) or missing
    return str(value)


def _error_text(code: str, message: str) -> str:
    """Return an error as in the message on stderr: with the code of a broker, without the name of a class."""
    if not message:
        return code
    return f"{code}: {message}" if code.isupper() else message


Finish = Callable[[str], str]

_PLAIN = {str, int, type(None)}  # values of these types are equal only if they look the same


def texts_of(values: Sequence[Any], missing: str = "-", finish: Finish | None = None) -> list[str]:
    """Return the values as `cell` formats them; `finish` is applied to each text."""
    if not _are_plain(values):
        return [_text(value, missing, finish) for value in values]
    texts = {value: _text(value, missing, finish) for value in set(values)}
    return list(map(texts.__getitem__, values))


def _are_plain(values: Iterable[Any]) -> bool:
    return set(map(type, values)) <= _PLAIN


def is_numeric(values: Iterable[Any]) -> bool:
    """Return whether all values that are present are numbers."""
    kinds = set(map(type, values)) - {type(None)}
    return bool(kinds) and kinds <= {int, float}


def _text(value: Any, missing: str, finish: Finish | None) -> str:
    text = cell(value, missing)
    return text if finish is None else finish(text)


def padded(name: str, values: Sequence[Any], least: int, *, right: bool, finish: Finish | None = None) -> list[str]:
    """Return the name and the values as text, all padded with spaces to one width of at least `least`."""
    texts = {value: _text(value, "-", finish) for value in set(values)} if _are_plain(values) else None
    if texts is None:
        values = texts_of(values, finish=finish)
        texts = {text: text for text in set(values)}
    width = max([least, *map(display_width, texts.values())])
    filled = {value: _fill(text, width, right=right) for value, text in texts.items()}
    return [_fill(name, width, right=right), *map(filled.__getitem__, values)]


def _fill(text: str, width: int, *, right: bool) -> str:
    spaces = " " * (width - display_width(text))
    return spaces + text if right else text + spaces


def display_width(text: str) -> int:
    """Return the number of terminal cells of a text: 2 for a wide character, 0 for a combining one."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
