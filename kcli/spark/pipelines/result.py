"""What a pipeline finds: rows of plain values, ready for any output."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Result(NamedTuple):
    """`rows` are dicts of JSON's types by the names in `columns`; more fields than those go into JSON only."""

    columns: list[str]
    rows: list[dict[str, Any]]


def collect(frame: DataFrame) -> Result:
    """All rows of a small frame. Times are ISO strings in UTC, bytes are text where they are UTF-8, else hex.

    SQL lets columns have one name: the second `offset` is called `offset_2`.
    """
    table = frame.toArrow()
    names = _each_once(table.column_names)
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return Result(names, [dict(zip(names, map(plain, row), strict=True)) for row in rows])


def _each_once(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that were there before."""
    found: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in count(2))
        found.append(name if name not in found else next(it for it in numbered if it not in (*names, *found)))
    return found


def plain(value: Any) -> Any:
    """A value of Arrow's as one of JSON's."""
    from datetime import date, datetime, timezone
    from decimal import Decimal

    if isinstance(value, datetime):
        utc = value.astimezone(timezone.utc) if value.tzinfo else value
        return utc.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return text_of(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def text_of(value: bytes) -> str:
    """Bytes as a person reads them: UTF-8, and what is not that as 0x and hexadecimal digits."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "0x" + value.hex()


def write_parquet(columns: Sequence[str], rows: Sequence[dict[str, Any]], path: str) -> None:
    """Rows as one Parquet file."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({name: pyarrow.array([row.get(name) for row in rows]) for name in columns})
    parquet.write_table(table, path)
