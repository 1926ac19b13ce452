"""What a pipeline finds: rows of plain values, ready for any output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.text import format_time

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame


class Result(NamedTuple):
    """`rows` are dicts of JSON's types by the names in `columns`; more fields than those go into JSON only."""

    columns: list[str]
    rows: list[dict[str, Any]]


def collect(frame: DataFrame) -> Result:
    """All rows of a small frame, as plain values (`kcli.spark.pipelines.result`).

    SQL lets columns have one name: the second `offset` is called `offset_2`.
    """

    table = frame.toArrow()
    names = _each_once(table.column_names)
    return Result(names, rows_of(table.rename_columns(names)))


def _each_once(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that were there before."""
    found: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in count(2))
        found.append(name if name not in found else next(it for it in numbered if it not in (*names, *found)))
    return found


def write_parquet(columns: Sequence[str], rows: Sequence[dict[str, Any]], path: str) -> None:
    """Rows as one Parquet file."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({name: pyarrow.array([row.get(name) for row in rows]) for name in columns})
    parquet.write_table(table, path)


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def ms_of(text: str) -> int:
    """The milliseconds that `format_time` has made this text of."""
    if on_calendar(text):
        return (datetime.fromisoformat(text.replace("Z", "+00:00")) - _EPOCH) // timedelta(milliseconds=1)
    return int(text)


def on_calendar(text: str) -> bool:
    """Whether what `format_time` has made is a date, no bare number."""
    return text.endswith("Z")


def text_of(value: bytes) -> str:
    """Bytes as a person reads them: UTF-8, and what is not that as 0x and hexadecimal digits."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "0x" + value.hex()


def rows_of(table: pyarrow.Table) -> list[dict[str, Any]]:
    """The rows of a small table, as plain values by the names of the columns."""
    columns = [values_of(column) for column in table.columns]
    return [dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def values_of(column: pyarrow.ChunkedArray) -> list[Any]:
    """A column's values; lengths of time are as ISO 8601 has them, maps are lists of pairs."""
    counted = _counted(column.type)
    values: list[Any] = (column if counted == column.type else column.cast(counted)).to_pylist()
    make = _maker(column.type)
    return [None if value is None else make(value) for value in values]


def _counted(kind: Any) -> Any:
    """The type with numbers in it where there were times."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_timestamp(kind) or types.is_duration(kind) or types.is_date64(kind):
        return pa.int64()
    if types.is_date32(kind):
        return pa.int32()
    if types.is_struct(kind):
        return pa.struct([field.with_type(_counted(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_counted(kind.key_type), _counted(kind.item_type))
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_counted(kind.value_type)))
    return kind


def _maker(kind: Any) -> Callable[[Any], Any]:
    """What makes a value of such a type, with numbers for its times, a plain one."""
    from pyarrow import types

    if types.is_timestamp(kind):
        per_second = _PER_SECOND[kind.unit]
        return lambda number: format_time(number * 1000 // per_second)
    if types.is_duration(kind):
        per_second = _PER_SECOND[kind.unit]
        return lambda number: _plain_length(number * 10**6 // per_second)
    if types.is_date64(kind):
        return lambda number: _plain_date(number // 86_400_000)
    if types.is_date32(kind):
        return _plain_date
    if types.is_time(kind):
        return lambda clock: str(clock.isoformat())
    if types.is_struct(kind):
        makers = {field.name: _maker(field.type) for field in kind}
        return lambda parts: {name: _or_none(makers[name], part) for name, part in parts.items()}
    if types.is_map(kind):
        key, item = _maker(kind.key_type), _maker(kind.item_type)
        return lambda pairs: [[key(name), _or_none(item, part)] for name, part in pairs]
    if types.is_list(kind):
        make = _maker(kind.value_type)
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
    """A date, or the bare number of days since the epoch."""
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return str(days)


def _plain_length(us: int) -> str:
    """`P1DT2H3.5S`, as ISO 8601 has it; below nothing the minus sign stands before it."""
    seconds, us_left = divmod(abs(us), 10**6)
    (days, seconds), fraction = divmod(seconds, 86_400), f".{us_left:06}".rstrip("0").rstrip(".")
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    clock = "".join(f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M")) if number)
    if seconds or fraction or not (days or clock):
        clock += f"{seconds}{fraction}S"
    return ("-" if us < 0 else "") + "P" + (f"{days}D" if days else "") + (f"T{clock}" if clock else "")
