"""Types of columns with decoded values: their SQL, their Arrow type, and the conversion of native values.

A type is plain data that pickles: the name of a SQL type, `JSON` (a string column with JSON text), or one of `Struct`,
`Array`, `Map`. Native values are those of `kcli.schemas`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    ColumnType: TypeAlias = "str | Struct | Array | Map"

#: A string column with the JSON text of values that Spark has no type for.
JSON = "json"
#: A string column with the text of values: UUIDs, times of day.
TEXT = "text"
#: Whole numbers of JSON, where 1.0 is an integer and 1.5 is not.
WHOLE = "whole"
_MOST_DECIMAL_DIGITS = 38
#: Timestamps of nanoseconds, which Spark has in microseconds.
NANOS, LOCAL_NANOS = "timestamp of nanoseconds", "timestamp_ntz of nanoseconds"
_SQL = {JSON: "string", TEXT: "string", WHOLE: "bigint", NANOS: "timestamp", LOCAL_NANOS: "timestamp_ntz"}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")

Convert: TypeAlias = Callable[[Any], Any]


class Struct(NamedTuple):
    """Fields by name, in order."""

    fields: tuple[tuple[str, ColumnType], ...]


class Array(NamedTuple):
    """A list of values."""

    element: ColumnType


class Map(NamedTuple):
    """Values by text, or by another key of a simple type."""

    value: ColumnType
    key: ColumnType = "string"


def decimal_type(precision: int, scale: int) -> ColumnType:
    """Return the type of decimals: text if they have more digits than Spark's."""
    fits = 0 < precision <= _MOST_DECIMAL_DIGITS and 0 <= scale <= precision
    return f"decimal({precision},{scale})" if fits else JSON


def sql_type(kind: ColumnType) -> str:
    """Return the type in the syntax of Spark's DDL."""
    if isinstance(kind, Struct):
        fields = ",".join(f"{_quoted(name)}:{sql_type(inner)}" for name, inner in kind.fields)
        return f"struct<{fields}>"
    if isinstance(kind, Array):
        return f"array<{sql_type(kind.element)}>"
    if isinstance(kind, Map):
        return f"map<{sql_type(kind.key)},{sql_type(kind.value)}>"
    return _SQL.get(kind, kind)


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def arrow_type(kind: ColumnType) -> Any:
    """Return the Arrow type that Spark expects for the type of a column."""
    import pyarrow as pa

    if isinstance(kind, Struct):
        return pa.struct([pa.field(name, arrow_type(inner)) for name, inner in kind.fields])
    if isinstance(kind, Array):
        return pa.list_(arrow_type(kind.element))
    if isinstance(kind, Map):
        return pa.map_(arrow_type(kind.key), arrow_type(kind.value))
    if match := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(match[1]), int(match[2]))
    return {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }[_SQL.get(kind, kind)]


def converter(kind: ColumnType, *, exact: bool = False) -> Convert | None:
    """Return the conversion of a native value, not null, to one that Arrow takes for this type; None: none is needed.

    `exact` also converts what Arrow takes in almost all cases: times outside the years of datetime, decimals with more
    digits after the point, invalid characters. It raises ValueError with the reason for a value that has no place.
    """
    if isinstance(kind, Struct):
        return _struct_converter(kind, exact)
    if isinstance(kind, Array):
        inner = converter(kind.element, exact=exact)
        return None if inner is None else (lambda values: [None if it is None else inner(it) for it in values])
    if isinstance(kind, Map):
        of_key, of_value = converter(kind.key, exact=exact), converter(kind.value, exact=exact)
        if of_key is None and of_value is None:
            return None
        return lambda values: [
            (of_key(key) if of_key else key, value if value is None or of_value is None else of_value(value))
            for key, value in values.items()
        ]
    if kind in _ALWAYS:
        return _ALWAYS[kind]
    return _exact_converter(kind) if exact else None


def _struct_converter(kind: Struct, exact: bool) -> Convert | None:
    inner = [(name, convert) for name, it in kind.fields if (convert := converter(it, exact=exact)) is not None]
    if not inner:
        return None

    def convert_struct(value: dict[str, Any]) -> dict[str, Any]:
        value = dict(value)
        for name, convert in inner:
            field = value.get(name)
            if field is not None:
                try:
                    value[name] = convert(field)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
        return value

    return convert_struct


def _json_text(value: Any) -> str:
    from kcli.schemas.json_values import json_texts

    return _characters(json_texts([value])[0])


def _text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _whole(value: Any) -> int:
    if isinstance(value, (bool, str, list, dict)) or value != int(value):
        raise ValueError(f"{str(value)[:100]} is not an integer")
    return int(value)


def _exact_converter(kind: str) -> Convert:
    if kind in ("timestamp", "timestamp_ntz"):
        return _timestamp
    if kind == "date":
        return _date
    if kind == "string":
        return _characters
    if match := _DECIMAL.fullmatch(kind):
        return _decimal_converter(int(match[1]), int(match[2]))
    return lambda value: value


def _timestamp(value: Any) -> Any:
    """Return microseconds for a timestamp with nanoseconds, or outside the years of datetime."""
    nanoseconds = getattr(value, "nanoseconds", None)
    if nanoseconds is None:
        if not isinstance(value, datetime):
            raise ValueError(f"{type(value).__name__} is not a timestamp")
        return value
    microseconds: int = nanoseconds // 1000
    if not -(1 << 63) <= microseconds < 1 << 63:
        raise ValueError(f"the timestamp {value.isoformat()} is out of range")
    return microseconds


_ALWAYS: dict[str, Convert] = {
    JSON: _json_text,
    TEXT: _text,
    WHOLE: _whole,
    NANOS: _timestamp,
    LOCAL_NANOS: _timestamp,
}


def _date(value: Any) -> Any:
    if isinstance(value, date) or (isinstance(value, int) and -(1 << 31) <= value < 1 << 31):
        return value
    raise ValueError(f"{str(value)[:100]} is not a date")


def _characters(value: Any) -> str:
    """Return text with U+FFFD for lone surrogates, which UTF-8 does not have."""
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__} is not text")
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def _decimal_converter(precision: int, scale: int) -> Convert:
    from decimal import Context, Decimal, Inexact

    digits = Context(prec=2 * _MOST_DECIMAL_DIGITS, traps=[Inexact])
    step = Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal:
        try:
            whole = digits.quantize(Decimal(value), step)
        except ArithmeticError:
            raise ValueError(f"{str(value)[:100]} has more than {scale} digits after the point") from None
        if whole and whole.adjusted() >= precision - scale:
            raise ValueError(f"{str(value)[:100]} has more than {precision} digits")
        return whole

    return convert
