"""Types of columns with decoded values: their SQL, their Arrow type, and the conversion of native values.

A type is plain data that pickles: the name of a SQL type, `JSON` (a string column with JSON text), or one of `Struct`,
`Array`, `Map`. Native values are those of `kcli.schemas`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

if TYPE_CHECKING:
    ColumnType: TypeAlias = "str | Struct | Array | Map"

#: A string column with the JSON text of values that Spark has no type for.
JSON = "json"
#: A string column with the text of values: UUIDs, times of day.
TEXT = "text"
#: Whole numbers of JSON, where 1.0 is an integer and 1.5 is not.
WHOLE = "whole"
_MOST_DECIMAL_DIGITS = 38
_EXACT_DOUBLE = 1 << 53
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


class Misfit(ValueError):
    """A value that its column cannot hold: where in the value, and why."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path.lstrip('.')}: {reason}" if path else reason)
        self.reason = reason
        self.path = path

    def within(self, step: str) -> Misfit:
        """Return the error of the value that contains this one."""
        return Misfit(self.reason, step + self.path)


def converter(kind: ColumnType, *, exact: bool = False) -> Convert | None:
    """Return the conversion of a native value, not null, to one that Arrow takes for this type; None: none is needed.

    It is for values that are of their types, as the decoders of Avro and Protobuf make them. `exact` is for all values,
    such as those of JSON: it checks each type, since Arrow takes a text for a list, a list for an object and true for a
    number. It also converts what Arrow takes in almost all cases: times outside the years of datetime, decimals with
    more digits after the point, invalid characters. It raises ValueError with the reason for a value that has no place.
    """
    if isinstance(kind, Struct):
        return _exact_struct(kind) if exact else _struct_converter(kind)
    if isinstance(kind, Array):
        inner = converter(kind.element, exact=exact)
        if exact:
            return _exact_list(inner or _as_it_is)
        return None if inner is None else (lambda values: [None if value is None else inner(value) for value in values])
    if isinstance(kind, Map):
        of_key, of_value = converter(kind.key, exact=exact), converter(kind.value, exact=exact)
        if exact:
            return _exact_map(of_key or _as_it_is, of_value or _as_it_is)
        if of_key is None and of_value is None:
            return None
        return lambda values: [
            (of_key(key) if of_key else key, value if value is None or of_value is None else of_value(value))
            for key, value in values.items()
        ]
    if kind in _ALWAYS:
        return _ALWAYS[kind]
    return _exact_converter(kind) if exact else None


def _struct_converter(kind: Struct) -> Convert | None:
    inner = [(name, convert) for name, part in kind.fields if (convert := converter(part)) is not None]
    if not inner:
        return None

    def convert_struct(value: dict[str, Any]) -> dict[str, Any]:
        value = dict(value)
        for name, convert in inner:
            field = value.get(name)
            if field is not None:
                value[name] = convert(field)
        return value

    return convert_struct


# Checked values


def _wrong(wanted: str, value: Any) -> NoReturn:
    from kcli.schemas.simple_formats import kind_of

    raise Misfit(f"the value must be {wanted}, not {kind_of(value)}")


def _exact_struct(kind: Struct) -> Convert:
    inner = [(name, converter(part, exact=True) or _as_it_is) for name, part in kind.fields]

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            _wrong("an object", value)
        converted, name = {}, ""
        try:
            for name, convert_field in inner:
                field = value.get(name)
                converted[name] = None if field is None else convert_field(field)
        except Misfit as misfit:
            raise misfit.within(f".{name}") from None
        return converted

    return convert


def _exact_list(inner: Convert) -> Convert:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            _wrong("a list", value)
        converted: list[Any] = []
        try:
            for part in value:
                converted.append(None if part is None else inner(part))
        except Misfit as misfit:
            raise misfit.within(f"[{len(converted)}]") from None
        return converted

    return convert


def _exact_map(of_key: Convert, of_value: Convert) -> Convert:
    def convert(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict):
            _wrong("an object", value)
        converted, name = [], None
        try:
            for name, part in value.items():
                converted.append((of_key(name), None if part is None else of_value(part)))
        except Misfit as misfit:
            raise misfit.within(f".{name}") from None
        return converted

    return convert


def _as_it_is(value: Any) -> Any:
    return value


def _json_text(value: Any) -> str:
    from kcli.schemas.json_values import json_texts

    return _characters(json_texts([value])[0])


def _text(value: Any) -> str:
    return _characters(value.isoformat() if hasattr(value, "isoformat") else str(value))


def _whole(value: Any) -> Any:
    """Return the integer of a number of JSON, where 1.0 is one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        _wrong("an integer", value)
    if isinstance(value, float):
        raise Misfit(f"{value} is not an integer")
    return _long(value)


def _of_type(wanted: str, *types: type) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            _wrong(wanted, value)
        return value

    return convert


def _integer(bits: int) -> Convert:
    limit = 1 << (bits - 1)

    def convert(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int):
            _wrong("an integer", value)
        if not -limit <= value < limit:
            raise Misfit(f"the integer {str(value)[:100]} has more than {bits} bits")
        return value

    return convert


_long = _integer(64)


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        _wrong("a number", value)
    if isinstance(value, int) and abs(value) > _EXACT_DOUBLE and (abs(value) >> 1024 or int(float(value)) != value):
        raise Misfit(f"the integer {str(value)[:100]} has more digits than a double keeps")
    return float(value)


def _exact_converter(kind: str) -> Convert:
    if match := _DECIMAL.fullmatch(kind):
        return _decimal_converter(int(match[1]), int(match[2]))
    return _CHECKED[kind]


def _timestamp(value: Any) -> Any:
    """Return microseconds for a timestamp with nanoseconds, or outside the years of datetime."""
    nanoseconds = getattr(value, "nanoseconds", None)
    if nanoseconds is None:
        if not isinstance(value, datetime):
            _wrong("a timestamp", value)
        return value
    microseconds: int = nanoseconds // 1000
    if not -(1 << 63) <= microseconds < 1 << 63:
        raise Misfit(f"the timestamp {value.isoformat()} is out of range")
    return microseconds


def _date(value: Any) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
        _wrong("a date", value)
    return value


def _characters(value: Any) -> str:
    """Return text with U+FFFD for lone surrogates, which UTF-8 does not have."""
    if not isinstance(value, str):
        _wrong("a text", value)
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
        if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
            _wrong("a decimal number", value)
        try:
            whole = digits.quantize(Decimal(value), step)
        except ArithmeticError:
            raise Misfit(f"{str(value)[:100]} has more than {scale} digits after the point") from None
        if whole and whole.adjusted() >= precision - scale:
            raise Misfit(f"{str(value)[:100]} has more than {precision} digits")
        return whole

    return convert


_ALWAYS: dict[str, Convert] = {
    JSON: _json_text,
    TEXT: _text,
    WHOLE: _whole,
    NANOS: _timestamp,
    LOCAL_NANOS: _timestamp,
}
_CHECKED: dict[str, Convert] = {
    "boolean": _of_type("true or false", bool),
    "int": _integer(32),
    "bigint": _long,
    "float": _of_type("a number", int, float),
    "double": _double,
    "string": _characters,
    "binary": _of_type("bytes", bytes),
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp,
}
