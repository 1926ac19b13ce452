"""Payloads of Avro from JSON-like or native values: the inverse of `kcli.schemas.avro` and `kcli.schemas.json_values`.

A type takes the native value that `kcli.schemas.avro` returns for it (bytes, Decimal, datetime, ...), what that becomes
in JSON, and what people write: a decimal or a timestamp also as a number. A time is never rounded: one with more
decimal places than the schema is an error. A member
that the record of the schema lacks is an error, and a missing one has its default.

A union has no tag in JSON, so its branch is the first that takes the value exactly: 5 is a long before it is a double,
and a text is a string before it is the base64 of bytes. If none does, it is the first that takes it at all; and last,
an object with one member that names a branch, as Avro's own JSON writes it. Pure.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import date, time
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any, NoReturn, TypeAlias
from uuid import UUID

from kcli.schemas.avro_schema import PRIMITIVES, SchemaTree, full_name, logical_type
from kcli.schemas.contracts import MAX_DEPTH, EncodeError
from kcli.schemas.json_values import Duration, Timestamp, parse_clock, parse_timestamp
from kcli.schemas.simple_formats import kind_of

#: Append a value to the bytes. Arguments: bytes, value, its path for messages, and whether its type must be exact.
Write: TypeAlias = Callable[[bytearray, Any, str, bool], None]

_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_FLOAT_DIGITS = 15  # a double has each decimal with as many digits, and not each with more
_UNITS = {"millis": 1_000_000, "micros": 1000, "nanos": 1}


class AvroWriter:
    """Writes the values of one schema. Raise ValueError if the schema is not valid."""

    def __init__(self, tree: SchemaTree) -> None:
        self._tree = tree
        self._named: dict[str, Write] = {}
        self._write = self._of(tree.root, "")

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value. Raise EncodeError, which names the place in the value."""
        out = bytearray()
        try:
            self._write(out, value, "value", False)
        except RecursionError:
            raise EncodeError(f"the value is nested deeper than {MAX_DEPTH} levels") from None
        return bytes(out)

    def encode_default(self, schema: Any, namespace: str, value: Any) -> bytes:
        """Return the bytes of a default of this type, which is JSON of a schema. Raise EncodeError."""
        out = bytearray()
        self._default(out, schema, namespace, value, "default")
        return bytes(out)

    def check_defaults(self) -> None:
        """Raise ValueError for the default of a field that its type does not allow."""
        for name, (schema, namespace) in self._tree.types.items():
            for field in schema.get("fields", ()):
                if "default" in field:
                    try:
                        self._default(bytearray(), field["type"], namespace, field["default"], str(field.get("name")))
                    except EncodeError as error:
                        raise ValueError(f"a default of the type {name!r} is not valid: {error}") from None

    def _of(self, schema: Any, namespace: str) -> Write:
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return _PRIMITIVES[schema]
            schema, namespace = self._tree.types[self._tree.resolve(schema, namespace)]
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            name = full_name(schema, namespace)[0]
            if name not in self._named:
                # A type that contains itself finds this before it is complete.
                self._named[name] = lambda *arguments: self._named[name](*arguments)
                self._named[name] = self._named_type(kind, schema, namespace)
            return self._named[name]
        if kind == "array":
            return _array(self._of(schema["items"], namespace))
        if kind == "map":
            return _map(self._of(schema["values"], namespace))
        if isinstance(kind, str) and kind in PRIMITIVES:
            return _logical(schema, kind, _PRIMITIVES[kind])
        return self._of(kind, namespace)

    def _named_type(self, kind: str, schema: Mapping[str, Any], namespace: str) -> Write:
        if kind == "enum":
            return _enum(schema["symbols"])
        if kind == "fixed":
            return _logical(schema, kind, _fixed(schema["size"]))
        inner = full_name(schema, namespace)[1]
        fields = [(str(field["name"]), self._of(field["type"], inner), field) for field in schema["fields"]]
        names = {name for name, _, _ in fields}

        def write(out: bytearray, value: Any, path: str, exact: bool) -> None:
            if not isinstance(value, dict):
                _wrong(path, "an object", value)
            for name in value:
                if name not in names:
                    raise EncodeError(f"{path}: the schema has no field {str(name)[:100]!r}")
            for name, write_field, field in fields:
                if name in value:
                    write_field(out, value[name], f"{path}.{name}", exact)
                elif "default" in field:
                    self._default(out, field["type"], inner, field["default"], f"{path}.{name}")
                else:
                    raise EncodeError(f"{path}.{name}: the field is missing and has no default")

        return write

    def _default(self, out: bytearray, schema: Any, namespace: str, value: Any, path: str) -> None:
        """Write a default: bytes are text with a character for each byte, and a union has the first fitting branch."""
        if isinstance(schema, str) and schema not in PRIMITIVES:
            schema, namespace = self._tree.types[self._tree.resolve(schema, namespace)]
        kind = schema.get("type") if isinstance(schema, dict) else schema
        if isinstance(kind, list):
            self._default_of_union(out, kind, namespace, value, path)
        elif isinstance(kind, dict):
            self._default(out, kind, namespace, value, path)
        elif kind in ("bytes", "fixed") and isinstance(value, str):
            data = _default_bytes(value, path)
            if kind == "bytes":
                _long(out, len(data))
            elif len(data) != schema["size"]:
                raise EncodeError(f"{path}: the default must be {schema['size']} bytes, not {len(data)}")
            out += data
        elif kind in ("record", "error") and isinstance(value, dict):
            inner = full_name(schema, namespace)[1]
            for field in schema["fields"]:
                name = str(field["name"])
                if name not in value and "default" not in field:
                    raise EncodeError(f"{path}.{name}: the field is missing and has no default")
                part = value[name] if name in value else field["default"]
                self._default(out, field["type"], inner, part, f"{path}.{name}")
        elif kind == "array" and isinstance(value, list):
            _array(lambda out, part, path, _: self._default(out, schema["items"], namespace, part, path))(
                out, value, path, False
            )
        elif kind == "map" and isinstance(value, dict):
            _map(lambda out, part, path, _: self._default(out, schema["values"], namespace, part, path))(
                out, value, path, False
            )
        else:
            self._of(schema, namespace)(out, value, path, False)

    def _default_of_union(self, out: bytearray, schema: list[Any], namespace: str, value: Any, path: str) -> None:
        first = None
        for index, branch in enumerate(schema):
            start = len(out)
            try:
                _long(out, index)
                self._default(out, branch, namespace, value, path)
                return
            except EncodeError as error:
                del out[start:]
                first = first or error
        raise first or EncodeError(f"{path}: the union has no branch")

    def _union(self, schema: list[Any], namespace: str) -> Write:
        branches = [self._of(branch, namespace) for branch in schema]
        names = [_branch_name(branch, namespace) for branch in schema]
        has_text = "string" in names

        def attempt(out: bytearray, value: Any, path: str, *, exact: bool) -> EncodeError | None:
            first = None
            for index, branch in enumerate(branches):
                if exact and has_text and names[index] in ("bytes", "fixed") and isinstance(value, str):
                    continue
                start = len(out)
                try:
                    _long(out, index)
                    branch(out, value, path, exact)
                    return None
                except EncodeError as error:
                    del out[start:]
                    # The error of a branch that differs in more than its type tells more.
                    first = error if first is None or "must be" in str(first) else first
            return first or EncodeError(f"{path}: the union has no branch")

        def write(out: bytearray, value: Any, path: str, exact: bool) -> None:
            if attempt(out, value, path, exact=True) is None:
                return
            error = attempt(out, value, path, exact=False)
            if error is None:
                return
            if isinstance(value, dict) and len(value) == 1 and (tag := next(iter(value))) in names:
                _long(out, names.index(tag))
                branches[names.index(tag)](out, value[tag], f"{path}.{tag}", exact)
                return
            raise error

        return write


def _branch_name(schema: Any, namespace: str) -> str:
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, dict):
        return ""
    kind = schema.get("type")
    return full_name(schema, namespace)[0] if "name" in schema else kind if isinstance(kind, str) else ""


def _wrong(path: str, wanted: str, value: Any) -> NoReturn:
    raise EncodeError(f"{path}: the value must be {wanted}, not {kind_of(value)}")


def _default_bytes(text: str, path: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise EncodeError(f"{path}: the default of bytes has a character above U+00FF") from None


def _long(out: bytearray, number: int) -> None:
    """Append an integer of 64 bits as a zigzag varint."""
    rest = number << 1 ^ number >> 63
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)


# Types without a logical type


def _null(out: bytearray, value: Any, path: str, exact: bool) -> None:
    if value is not None:
        _wrong(path, "null", value)


def _boolean(out: bytearray, value: Any, path: str, exact: bool) -> None:
    if not isinstance(value, bool):
        _wrong(path, "true or false", value)
    out.append(value)


def _integer(bits: int) -> Write:
    limit = 1 << (bits - 1)

    def write(out: bytearray, value: Any, path: str, exact: bool) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            _wrong(path, "a whole number", value)
        if not -limit <= value < limit:
            raise EncodeError(f"{path}: the number has more than {bits} bits")
        _long(out, value)

    return write


def _floating(form: str) -> Write:
    def write(out: bytearray, value: Any, path: str, exact: bool) -> None:
        number = _FLOATS.get(value) if isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, (int, float)) or (exact and isinstance(number, int)):
            _wrong(path, "a number", value)
        try:
            data = struct.pack(form, number)
        except (OverflowError, struct.error):  # the latter for an integer
            raise EncodeError(f"{path}: the number is too large for a float") from None
        if exact and number == number and struct.unpack(form, data)[0] != number:
            raise EncodeError(f"{path}: the number must be one that a float has exactly")
        out += data

    return write


def _data(value: Any, path: str) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if not isinstance(value, str):
        _wrong(path, "base64 text", value)
    try:
        return b64decode(value, validate=True)
    except (Base64Error, ValueError):
        raise EncodeError(f"{path}: the value must be base64 text, and it is another text") from None


def _bytes(out: bytearray, value: Any, path: str, exact: bool) -> None:
    data = _data(value, path)
    _long(out, len(data))
    out += data


def _string(out: bytearray, value: Any, path: str, exact: bool) -> None:
    if not isinstance(value, str):
        _wrong(path, "a text", value)
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise EncodeError(f"{path}: the text has a character without a form in UTF-8") from None
    _long(out, len(data))
    out += data


def _fixed(size: int) -> Write:
    def write(out: bytearray, value: Any, path: str, exact: bool) -> None:
        data = _data(value, path)
        if len(data) != size:
            raise EncodeError(f"{path}: the value must be {size} bytes, not {len(data)}")
        out += data

    return write


def _enum(symbols: list[str]) -> Write:
    numbers = {symbol: number for number, symbol in enumerate(symbols)}

    def write(out: bytearray, value: Any, path: str, exact: bool) -> None:
        if not isinstance(value, str) or value not in numbers:
            shown = repr(value[:100]) if isinstance(value, str) else kind_of(value)
            raise EncodeError(f"{path}: {shown} is not a symbol of the enum; use {', '.join(symbols[:20])}")
        _long(out, numbers[value])

    return write


def _array(item: Write) -> Write:
    def write(out: bytearray, value: Any, path: str, exact: bool) -> None:
        if not isinstance(value, (list, tuple)):
            _wrong(path, "a list", value)
        if value:
            _long(out, len(value))
        for number, part in enumerate(value):
            item(out, part, f"{path}[{number}]", exact)
        out.append(0)

    return write


def _map(of_value: Write) -> Write:
    def write(out: bytearray, value: Any, path: str, exact: bool) -> None:
        if not isinstance(value, dict):
            _wrong(path, "an object", value)
        if value:
            _long(out, len(value))
        for name, part in value.items():
            _string(out, name, path, exact)
            of_value(out, part, f"{path}.{name}", exact)
        out.append(0)

    return write


_PRIMITIVES: dict[str, Write] = {
    "null": _null,
    "boolean": _boolean,
    "int": _integer(32),
    "long": _integer(64),
    "float": _floating("<f"),
    "double": _floating("<d"),
    "bytes": _bytes,
    "string": _string,
}


# Logical types


def _logical(schema: Mapping[str, Any], kind: str, plain: Write) -> Write:
    name = logical_type(schema, kind)
    if name is None:
        return plain
    if name == "decimal":
        return _decimal(schema, kind)
    if name == "uuid":
        return _uuid if kind == "fixed" else _uuid_text
    if name == "duration":
        return _duration
    numbers = _date_number if name == "date" else _time_number(name) if name.startswith("time-") else _instant(name)

    def write(out: bytearray, value: Any, path: str, exact: bool) -> None:
        if isinstance(value, (date, time, Timestamp)):
            value = value.isoformat()
        plain(out, numbers(value, path) if isinstance(value, str) else value, path, exact)

    return write


def _decimal(schema: Mapping[str, Any], kind: str) -> Write:
    scale, precision = schema.get("scale", 0), schema.get("precision")

    def write(out: bytearray, value: Any, path: str, exact: bool) -> None:
        if isinstance(value, bool) or not isinstance(value, (str, int, float, Decimal)):
            _wrong(path, "a decimal number, as text", value)
        try:
            number = Decimal(repr(value) if isinstance(value, float) else value)
            if not number.is_finite() or abs(number.adjusted()) > 10_000:
                raise InvalidOperation
        except (InvalidOperation, ValueError):
            raise EncodeError(f"{path}: the value must be a decimal number") from None
        with localcontext() as context:
            context.prec = 30_000
            unscaled = number.scaleb(scale)
            if unscaled != unscaled.to_integral_value():
                raise EncodeError(f"{path}: the number has more than {scale} decimal places")
            whole = int(unscaled)
        if isinstance(value, float) and abs(whole) >= 10**_FLOAT_DIGITS:
            raise EncodeError(
                f"{path}: a number with a decimal point keeps {_FLOAT_DIGITS} digits; give a longer decimal as text"
            )
        if isinstance(precision, int) and abs(whole) >= 10**precision:
            raise EncodeError(f"{path}: the number has more than {precision} digits")
        size = schema["size"] if kind == "fixed" else (whole + (whole < 0)).bit_length() // 8 + 1
        if kind == "bytes":
            _long(out, size)
        try:
            out += whole.to_bytes(size, "big", signed=True)
        except OverflowError:
            raise EncodeError(f"{path}: the number has more than {size} bytes") from None

    return write


def _uuid_of(value: Any, path: str) -> UUID:
    try:
        return value if isinstance(value, UUID) else UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise EncodeError(f"{path}: the value must be a UUID") from None


def _uuid(out: bytearray, value: Any, path: str, exact: bool) -> None:
    out += _uuid_of(value, path).bytes


def _uuid_text(out: bytearray, value: Any, path: str, exact: bool) -> None:
    if exact:
        _uuid_of(value, path)
    _string(out, str(value) if isinstance(value, UUID) else value, path, exact)


def _duration(out: bytearray, value: Any, path: str, exact: bool) -> None:
    names = list(Duration.__dataclass_fields__)
    if isinstance(value, Duration):
        value = asdict(value)
    if not isinstance(value, dict) or set(value) != set(names):
        raise EncodeError(f"{path}: the value must be an object with {', '.join(names)}")
    for name in names:
        number = value[name]
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**32:
            raise EncodeError(f"{path}.{name}: the value must be a whole number from 0 to {2**32 - 1}")
        out += number.to_bytes(4, "little")


def _date_number(text: str, path: str) -> int:
    try:
        return date.fromisoformat(text).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        raise EncodeError(f"{path}: the value must be a date, such as 2024-12-31") from None


def _time_number(name: str) -> Callable[[str, str], int]:
    unit = _UNITS[name.rpartition("-")[2]]

    def number(text: str, path: str) -> int:
        try:
            return _whole(parse_clock(text), unit, path)
        except ValueError:
            raise EncodeError(f"{path}: the value must be a time, such as 13:30:00.250") from None

    return number


def _instant(name: str) -> Callable[[str, str], int]:
    unit, is_local = _UNITS[name.rpartition("-")[2]], name.startswith("local-")

    def number(text: str, path: str) -> int:
        try:
            instant: Timestamp | None = parse_timestamp(text)
        except ValueError:
            instant = None
        if instant is None or instant.is_local != is_local:
            example = f"2024-12-31T13:30:00.250{'' if is_local else 'Z'}"
            raise EncodeError(f"{path}: the value must be a time, such as {example}")
        return _whole(instant.nanoseconds, unit, path)

    return number


def _whole(nanoseconds: int, unit: int, path: str) -> int:
    number, rest = divmod(nanoseconds, unit)
    if rest:
        raise EncodeError(f"{path}: the time has more decimal places than the schema")
    return number
