"""Readers of Avro's binary encoding, compiled: Python source with straight-line code for one schema.

It is several times as fast as a walk through the schema for each value, and it has the bounds that payloads of
strangers need: an index or count cannot lead out of the payload, and recursion has a limit. The source has
nothing of the schema but the names of fields, as literals of Python.

With a reader's schema, each type is compiled for the type that it resolves to: fields that the reader lacks are read
and dropped, and those that the writer lacks have their default. A type that does not resolve is an error of the values
that have it, because the branch of a union may never occur.

A payload is the bytes `b`, and `i` is the position in it. Reading past the end needs no checks of its own: an index is
an IndexError, and a slice that is too short leaves `i` after the end, where the reader finds it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta, timezone
from decimal import Context, Decimal
from typing import Any, NoReturn, TypeAlias
from uuid import UUID

from kcli.schemas.avro_schema import SchemaTree, Type, full_name, logical_type, reader_type
from kcli.schemas.avro_write import AvroWriter
from kcli.schemas.contracts import MAX_DEPTH
from kcli.schemas.json_values import Duration, Timestamp

_MAX_LINES = 200_000
_MAX_INDENT = 8
_MAX_DECIMAL_BYTES = 4096
_MOST_EMPTY_ITEMS = 10_000
_DIGITS = Context(prec=10_000, Emax=999_999, Emin=-999_999)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_UTC_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LOCAL_EPOCH = datetime(1970, 1, 1)
# Below 4e9 seconds a double is within 0.24 us of the instant, so that rounding to microseconds is exact, and fastest.
_FLOAT_MILLIS = 4_000_000_000_000
_of_seconds = datetime.fromtimestamp


def compile_reader(tree: SchemaTree, start: int, reader_tree: SchemaTree | None = None) -> Callable[[bytes], Any]:
    """Return the reader of payloads whose value begins at `start` and ends with the payload. Raise ValueError.

    `reader_tree`: resolve values to this schema; its defaults must be valid. The reader raises ValueError, IndexError,
    KeyError, EOFError, struct.error or RecursionError.
    """
    wanted = None if reader_tree is None else (reader_tree.root, "")
    return _Compiler(tree, reader_tree).reader(tree.root, "", start, wanted)


#: A type of the reader's schema, and the namespace around it; None: values stay as they are written.
_Wanted: TypeAlias = tuple[Any, str] | None


class _Compiler:
    def __init__(self, tree: SchemaTree, reader_tree: SchemaTree | None = None) -> None:
        self._tree = tree
        self._reader_tree = reader_tree
        # Those of records, by the full names (names of strangers) of the writer's and the reader's type.
        self._functions: dict[tuple[str, str | None], str] = {}
        self._calls = 0
        self._waiting: list[tuple[str, Any, str, _Wanted]] = []
        self._lines: list[str] = []
        self._indent = 0
        self._names = 0
        self._has_empty_items = False
        self._constants: dict[str, Any] = {
            "varint": _varint,
            "double": struct.Struct("<d").unpack_from,
            "float32": struct.Struct("<f").unpack_from,
            "bad_index": _bad_index,
            "bad_length": _bad_length,
            "bad_count": _bad_count,
            "empty_items": [0],  # in the payload: items of arrays that take no bytes
            "too_many": _too_many,
            "bad_end": _bad_end,
            "too_deep": _too_deep,
            "unresolved": _unresolved,
            "MAX": 2 * MAX_DEPTH,  # a union within another type may take a call, too
            "TRUTH": (False, True),
        }

    def reader(self, schema: Any, namespace: str, start: int, wanted: _Wanted) -> Callable[[bytes], Any]:
        self._emit("def read(b):")
        with self._block():
            self._emit(f"i = {start}")
            self._emit("level = 0")
            self._value(schema, namespace, "v", wanted)
            self._emit("if i != len(b): bad_end(b, i)")
            self._emit("return v")
        while self._waiting:
            function, schema, namespace, wanted = self._waiting.pop()
            self._emit(f"def {function}(b, i, level):")
            with self._block():
                self._emit("if level > MAX: too_deep()")
                self._value(schema, namespace, "v", wanted, is_body=True)
                self._emit("return v, i")
        if self._has_empty_items:
            self._lines.insert(1, " empty_items[0] = 0")
        exec(compile("\n".join(self._lines), "<schema>", "exec"), self._constants)
        read: Callable[[bytes], Any] = self._constants["read"]
        return read

    # Source

    def _emit(self, line: str) -> None:
        if len(self._lines) >= _MAX_LINES:
            raise ValueError("it has too many types")
        self._lines.append(" " * self._indent + line)

    @contextmanager
    def _block(self) -> Iterator[None]:
        outer = self._indent
        self._indent += 1
        yield
        self._indent = outer

    def _name(self) -> str:
        self._names += 1
        return f"t{self._names}"

    def _function(self, schema: Any, namespace: str, wanted: _Wanted) -> str:
        """Return the name of a new function that reads values of a type."""
        function = f"f{self._calls}"
        self._calls += 1
        self._waiting.append((function, schema, namespace, wanted))
        return function

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants[name] = value
        return name

    # Types

    def _value(self, schema: Any, namespace: str, target: str, wanted: _Wanted, *, is_body: bool = False) -> None:
        """Emit the lines that read a value into the variable `target`. `is_body`: not by a call of its function."""
        written = self._tree.definition(schema, namespace)
        kind, schema, namespace = written
        if kind == "union":
            self._union(schema, namespace, target, wanted)
            return
        reader = None
        if wanted is not None and self._reader_tree is not None:
            reader = reader_type(written, self._reader_tree, *wanted)
            if reader is None:
                names = _shown(written), _shown(self._reader_tree.definition(*wanted))
                self._emit(f"unresolved{names!r}")
                return
        if kind == "record":
            self._record(schema, namespace, target, reader, is_body=is_body)
        elif kind in ("array", "map"):
            if self._indent > _MAX_INDENT and not is_body:
                self._call(self._function(schema, namespace, wanted), target)
            else:
                self._blocks(schema, namespace, target, reader, is_map=kind == "map")
        elif kind == "enum":
            self._enum(schema["symbols"], target, reader)
        elif kind == "fixed":
            self._emit(f"{target} = b[i:i + {schema['size']}]; i += {schema['size']}")
            self._emit("if i > len(b): bad_end(b, i)")
            self._logical(schema, "fixed", target, reader)
        else:
            self._primitive(kind, target)
            self._logical(schema, kind, target, reader)

    def _call(self, function: str, target: str) -> None:
        self._emit(f"{target}, i = {function}(b, i, level + 1)")

    def _record(
        self, schema: Mapping[str, Any], namespace: str, target: str, reader: Type | None, *, is_body: bool
    ) -> None:
        name, inner = full_name(schema, namespace)
        wanted = None if reader is None else (reader.schema, reader.namespace)
        key = name, None if reader is None else full_name(reader.schema, reader.namespace)[0]
        function = self._functions.get(key)
        if not is_body and (function is not None or name in self._tree.recursive or self._indent > _MAX_INDENT):
            if function is None:
                function = self._functions[key] = self._function(schema, namespace, wanted)
            self._call(function, target)
            return
        if not is_body:
            # The first use is inline. Those that follow share a function, so that the source cannot grow without end.
            self._functions[key] = self._function(schema, namespace, wanted)
        renamed = {} if reader is None else _fields_of_reader(schema, reader.schema)
        parts = []
        for field in schema["fields"]:
            part = self._name()
            own = str(field.get("name"))
            if reader is None:
                self._value(field["type"], inner, part, None)
                parts.append(f"{own!r}: {part}")
            elif own not in renamed:
                self._value(field["type"], inner, part, None)
            else:
                self._value(field["type"], inner, part, (renamed[own]["type"], full_name(*reader[1:])[1]))
                parts.append(f"{str(renamed[own].get('name'))!r}: {part}")
        if reader is not None:
            parts += self._defaults(reader, {id(field) for field in renamed.values()})
        self._emit(f"{target} = {{{', '.join(parts)}}}")

    def _defaults(self, reader: Type, resolved: set[int]) -> Iterator[str]:
        """Yield the fields of the reader that the writer's record lacks, with their defaults."""
        assert self._reader_tree is not None
        inner = full_name(reader.schema, reader.namespace)[1]
        for field in reader.schema["fields"]:
            if id(field) in resolved:
                continue
            name = str(field.get("name"))
            if "default" not in field:
                names = "a record without this field", f"no default of the field {name[:100]!r}"
                self._emit(f"unresolved{names!r}")
                return
            # The binary form of the default, read back, is its native value.
            data = AvroWriter(self._reader_tree).encode_default(field["type"], inner, field["default"])
            value = _Compiler(self._reader_tree).reader(field["type"], inner, 0, None)(data)
            yield f"{name!r}: {self._constant(value)}"

    def _enum(self, symbols: list[str], target: str, reader: Type | None) -> None:
        names = dict(enumerate(symbols))
        if reader is not None:
            known, default = set(reader.schema["symbols"]), reader.schema.get("default")
            names = {
                number: symbol if symbol in known else default
                for number, symbol in names.items()
                if symbol in known or default in known
            }
        table = self._constant({number * 2: symbol for number, symbol in names.items()})
        self._unsigned("x")
        self._emit(f"{target} = {table}[x]")

    def _blocks(
        self, schema: Mapping[str, Any], namespace: str, target: str, reader: Type | None, *, is_map: bool
    ) -> None:
        part = "values" if is_map else "items"
        item_type = schema[part]
        wanted = None if reader is None else (reader.schema[part], reader.namespace)
        count, item, key = self._name(), self._name(), self._name()
        self._emit(f"{target} = {'{}' if is_map else '[]'}")
        self._emit("while 1:")
        with self._block():
            self._unsigned("x")
            self._emit("if x == 0: break")
            self._emit(f"{count} = x >> 1")
            self._emit("if x & 1:")
            with self._block():
                self._emit(f"{count} += 1")  # a negative count, and then the size of the block
                self._unsigned("x")
            if is_map or self._tree.least_bytes(item_type, namespace):
                self._emit(f"if {count} > len(b) - i: bad_count()")
            else:
                self._has_empty_items = True
                self._emit(f"empty_items[0] += {count}")
                self._emit(f"if empty_items[0] > {_MOST_EMPTY_ITEMS}: too_many()")
            self._emit(f"for _ in range({count}):")
            with self._block():
                if is_map:
                    self._primitive("string", key)
                self._value(item_type, namespace, item, wanted)
                self._emit(f"{target}[{key}] = {item}" if is_map else f"{target}.append({item})")

    def _union(self, schema: list[Any], namespace: str, target: str, wanted: _Wanted) -> None:
        if self._indent > _MAX_INDENT + 4:
            self._call(self._function(schema, namespace, wanted), target)
            return
        self._unsigned("x")
        for index, branch in enumerate(schema):
            self._emit(f"{'elif' if index else 'if'} x == {index * 2}:")
            with self._block():
                self._value(branch, namespace, target, wanted)
        self._emit("else: bad_index()" if schema else "bad_index()")

    def _unsigned(self, target: str) -> None:
        """Emit the read of a varint, whose zigzag is not undone."""
        self._emit(f"{target} = b[i]; i += 1")
        self._emit(f"if {target} > 127: {target}, i = varint(b, i, {target})")

    def _primitive(self, kind: str, target: str) -> None:
        if kind == "null":
            self._emit(f"{target} = None")
        elif kind == "boolean":
            self._emit(f"{target} = TRUTH[b[i]]; i += 1")
        elif kind in ("int", "long"):
            self._unsigned("x")
            self._emit(f"{target} = x >> 1 ^ -(x & 1)")
        elif kind in ("float", "double"):
            size, function = (4, "float32") if kind == "float" else (8, "double")
            self._emit(f"{target} = {function}(b, i)[0]; i += {size}")
        else:
            self._unsigned("x")
            self._emit("if x & 1: bad_length()")
            decode = ".decode()" if kind == "string" else ""
            self._emit(f"j = i + (x >> 1); {target} = b[i:j]{decode}; i = j")

    def _logical(self, schema: Mapping[str, Any], kind: str, target: str, reader: Type | None) -> None:
        """Emit the promotion to the reader's type, and the conversion of the logical type.

        The reader decides whether there is one, as Java's GenericDatumReader does. If both schemas have one, that of
        the writer counts, which has the scale of a decimal and the unit of a time.
        """
        if reader is not None:
            if promote := _PROMOTIONS.get((kind, reader.kind)):
                self._emit(promote.format(target))
            if logical_type(reader.schema, reader.kind) is None:
                return
            if logical_type(schema, kind) is None:
                kind, schema = reader.kind, reader.schema
        name = logical_type(schema, kind)
        if name is None:
            return
        convert = decimal_of(schema.get("scale", 0)) if name == "decimal" else CONVERTS[name]
        self._emit(f"{target} = {self._constant(convert)}({target})")


# The line that makes the reader's type of a value of the writer's type.
_PROMOTIONS = {
    **{(kind, wider): "{0} = float({0})" for kind in ("int", "long") for wider in ("float", "double")},
    ("string", "bytes"): "{0} = {0}.encode()",
    ("bytes", "string"): "{0} = {0}.decode()",
}


def _fields_of_reader(written: Mapping[str, Any], reader: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the reader's field for each field of the writer's record that it has by its name or by an alias."""
    names = {str(field.get("name")) for field in written["fields"]}
    fields = {str(field.get("name")): field for field in reader["fields"] if str(field.get("name")) in names}
    for field in reader["fields"]:
        aliases = field.get("aliases")
        if str(field.get("name")) not in names and isinstance(aliases, list):
            alias = next((alias for alias in aliases if alias in names and alias not in fields), None)
            if alias is not None:
                fields[alias] = field
    return fields


def _varint(b: bytes, i: int, first: int) -> tuple[int, int]:
    """Return the unsigned value of a varint that continues at `i`, and the position after it."""
    second = b[i]
    if second < 128:
        return first & 127 | second << 7, i + 1
    third = b[i + 1]
    if third < 128:
        return first & 127 | (second & 127) << 7 | third << 14, i + 2
    number, shift = first & 127 | (second & 127) << 7 | (third & 127) << 14, 21
    i += 2
    while True:
        byte = b[i]
        i += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, i
        shift += 7
        if shift > 63:
            raise ValueError("the data is not of this schema: an integer is longer than 64 bits")


def _bad_index() -> NoReturn:
    raise ValueError("the data is not of this schema: a union has no branch with its index")


def _bad_length() -> NoReturn:
    raise ValueError("the data is not of this schema: a length is negative")


def _bad_count() -> NoReturn:
    raise ValueError("the data is not of this schema: an array or map has more items than the data has bytes")


def _too_many() -> NoReturn:
    raise ValueError(f"the arrays have more than {_MOST_EMPTY_ITEMS} items that take no bytes")


def _shown(kind: Type) -> str:
    is_named = kind.kind in ("record", "enum", "fixed")
    return f"{kind.kind} {full_name(kind.schema, kind.namespace)[0][:100]!r}" if is_named else kind.kind


def _unresolved(written: str, wanted: str) -> NoReturn:
    raise ValueError(f"the schemas do not resolve: {written} was written, the reader's schema has {wanted}")


def _too_deep() -> NoReturn:
    raise RecursionError


def _bad_end(b: bytes, i: int) -> NoReturn:
    if i > len(b):
        raise EOFError
    raise ValueError(f"{len(b) - i} bytes follow the value")


# Logical types


def decimal_of(scale: int) -> Callable[[bytes], Decimal]:
    """Return the function that makes a decimal of its bytes."""
    unit = Decimal((0, (1,), -scale))
    number_of, multiply = int.from_bytes, _DIGITS.multiply

    def convert(data: bytes) -> Decimal:
        if len(data) > _MAX_DECIMAL_BYTES:
            raise ValueError(f"a decimal has {len(data)} bytes")
        return multiply(Decimal(number_of(data, "big", signed=True)), unit)

    return convert


def _uuid(data: Any) -> Any:
    if isinstance(data, bytes):
        return UUID(bytes=data)
    try:
        return UUID(data)
    except ValueError:
        return data


def _duration(data: bytes) -> Duration:
    return Duration(*(int.from_bytes(data[at : at + 4], "little") for at in (0, 4, 8)))


def _date(days: int) -> date | int:
    try:
        return date.fromordinal(days + _EPOCH_DAY)
    except (OverflowError, ValueError):
        return days


def _time(unit: int) -> Callable[[int], time | int]:
    def convert(number: int) -> time | int:
        if not 0 <= number * unit < 86_400_000_000:
            return number
        return (_LOCAL_EPOCH + timedelta(0, 0, number * unit)).time()

    return convert


def _millis(number: int) -> datetime | Timestamp:
    if -_FLOAT_MILLIS < number < _FLOAT_MILLIS:
        return _of_seconds(number / 1000, timezone.utc)
    try:
        return _UTC_EPOCH + timedelta(0, 0, 0, number)
    except OverflowError:
        return Timestamp(number * 1_000_000)


def _micros(number: int) -> datetime | Timestamp:
    if -_FLOAT_MILLIS < number // 1000 < _FLOAT_MILLIS:
        return _of_seconds(number / 1_000_000, timezone.utc)
    try:
        return _UTC_EPOCH + timedelta(0, 0, number)
    except OverflowError:
        return Timestamp(number * 1000)


def _nanos(number: int) -> datetime | Timestamp:
    return Timestamp(number) if number % 1000 else _micros(number // 1000)


def _local_millis(number: int) -> datetime | Timestamp:
    return _local_micros(number * 1000)


def _local_micros(number: int) -> datetime | Timestamp:
    try:
        return _LOCAL_EPOCH + timedelta(0, 0, number)
    except OverflowError:
        return Timestamp(number * 1000, is_local=True)


def _local_nanos(number: int) -> datetime | Timestamp:
    return Timestamp(number, is_local=True) if number % 1000 else _local_micros(number // 1000)


#: The functions that make values of logical types, but for decimals.
CONVERTS: dict[str, Callable[[Any], Any]] = {
    "uuid": _uuid,
    "duration": _duration,
    "date": _date,
    "time-millis": _time(1000),
    "time-micros": _time(1),
    "timestamp-millis": _millis,
    "timestamp-micros": _micros,
    "timestamp-nanos": _nanos,
    "local-timestamp-millis": _local_millis,
    "local-timestamp-micros": _local_micros,
    "local-timestamp-nanos": _local_nanos,
}
