"""Results of pipelines: rows of plain values for all output formats, converted from Arrow. Pure.

Times become text in UTC, and bytes become text if they are UTF-8. Arrow's times are read as numbers, because a producer
may send years that Python's calendar does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from itertools import count
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from kcli.text import format_time

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame


class Result(NamedTuple):
    """`rows` are dicts of JSON types, with the keys in `columns`; other keys are for JSON output only."""

    columns: list[str]
    rows: list[dict[str, Any]]


def collect(frame: DataFrame) -> Result:
    """Return all rows of a small frame, as plain values.

    SQL permits repeated column names: the second `offset` becomes `offset_2`.
    """

    table = frame.toArrow()
    names = _unique_names(table.column_names)
    return Result(names, rows_of(table.rename_columns(names)))


def _unique_names(names: Sequence[str]) -> list[str]:
    """Return unique names: repeated ones get a number."""
    unique: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in count(2))
        unique.append(name if name not in unique else next(free for free in numbered if free not in (*names, *unique)))
    return unique


def write_parquet(columns: Sequence[str], rows: Sequence[dict[str, Any]], file: BinaryIO) -> None:
    """Write rows as one Parquet file."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({name: pyarrow.array([row.get(name) for row in rows]) for name in columns})
    parquet.write_table(table, file)


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def ms_of(text: str) -> int:
    """Return the milliseconds of a text made by `format_time`."""
    if on_calendar(text):
        return (datetime.fromisoformat(text.replace("Z", "+00:00")) - _EPOCH) // timedelta(milliseconds=1)
    return int(text)


def on_calendar(text: str) -> bool:
    """Return whether a text made by `format_time` is a date, not a bare number."""
    return text.endswith("Z")


def text_of(value: bytes) -> str:
    """Return bytes as text: UTF-8, otherwise 0x and hexadecimal digits."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "0x" + value.hex()


def rows_of(table: pyarrow.Table) -> list[dict[str, Any]]:
    """Return the rows of a small table, as dicts of plain values."""
    columns = [values_of(column) for column in table.columns]
    return [dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def values_of(column: pyarrow.ChunkedArray) -> list[Any]:
    """Return the plain values of a column; durations in ISO 8601, maps as lists of pairs."""
    counted = _numeric_type(column.type)
    values: list[Any] = (column if counted == column.type else column.cast(counted)).to_pylist()
    make = _converter(column.type)
    return [None if value is None else make(value) for value in values]


def _numeric_type(kind: Any) -> Any:
    """Return the type with numbers in place of times."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_timestamp(kind) or types.is_duration(kind) or types.is_date64(kind):
        return pa.int64()
    if types.is_date32(kind):
        return pa.int32()
    if types.is_struct(kind):
        return pa.struct([field.with_type(_numeric_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_numeric_type(kind.key_type), _numeric_type(kind.item_type))
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_numeric_type(kind.value_type)))
    return kind


def _converter(kind: Any) -> Callable[[Any], Any]:
    """Return a function that converts a value of this type, with numbers in place of times, to a plain one."""
    from pyarrow import types

    if types.is_timestamp(kind):
        per_second = _PER_SECOND[kind.unit]
        return lambda number: format_time(number * 1000 // per_second)
    if types.is_duration(kind):
        per_second = _PER_SECOND[kind.unit]
        return lambda number: _plain_duration(number * 10**6 // per_second)
    if types.is_date64(kind):
        return lambda number: _plain_date(number // 86_400_000)
    if types.is_date32(kind):
        return _plain_date
    if types.is_time(kind):
        return lambda clock: str(clock.isoformat())
    if types.is_struct(kind):
        makers = {field.name: _converter(field.type) for field in kind}
        return lambda parts: {name: _or_none(makers[name], part) for name, part in parts.items()}
    if types.is_map(kind):
        key, item = _converter(kind.key_type), _converter(kind.item_type)
        return lambda pairs: [[key(name), _or_none(item, part)] for name, part in pairs]
    if types.is_list(kind):
        make = _converter(kind.value_type)
        return lambda parts: [_or_none(make, part) for part in parts]
    return _plain


def _or_none(make: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else make(value)


def _plain(value: Any) -> Any:
    from decimal import Decimal

    if isinstance(value, bytes):
        return text_of(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def _plain_date(days: int) -> str:
    """Return a date, or the number of days since the epoch if the calendar does not have it."""
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return str(days)


def _plain_duration(us: int) -> str:
    """Return a duration in ISO 8601, as `P1DT2H3.5S`; a negative one starts with a minus sign."""
    seconds, us_left = divmod(abs(us), 10**6)
    (days, seconds), fraction = divmod(seconds, 86_400), f".{us_left:06}".rstrip("0").rstrip(".")
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    clock = "".join(f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M")) if number)
    if seconds or fraction or not (days or clock):
        clock += f"{seconds}{fraction}S"
    return ("-" if us < 0 else "") + "P" + (f"{days}D" if days else "") + (f"T{clock}" if clock else "")
