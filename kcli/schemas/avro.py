"""Values of Avro's binary encoding. fastavro resolves them to another schema than the writer's, if one is given.

| Avro | native value |
|---|---|
| decimal | Decimal, all digits |
| date, time, timestamp, local timestamp | date, time, datetime in UTC, datetime without a zone |
| timestamp with nanoseconds, or outside the years 1 to 9999 | `Timestamp` |
| date outside the years 1 to 9999, time of more than a day | its number |
| uuid, duration | UUID, `Duration` |
| bytes, fixed | bytes |
| enum, union | the symbol, the value of the branch |

A value must take all bytes of its payload. A payload of the schema `"bytes"` may also be the bytes alone, as Java's
serialiser of Confluent writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from decimal import Decimal
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any, NoReturn

from kcli.schemas.avro_compile import CONVERTS, compile_reader, decimal_of
from kcli.schemas.avro_schema import LOGICAL, RESOLVED, TOO_DEEP, Expansion, SchemaTree, separator_of
from kcli.schemas.avro_write import AvroWriter
from kcli.schemas.contracts import MAX_DEPTH, missing_extra
from kcli.schemas.simple_formats import check_depth

if TYPE_CHECKING:
    from kcli.schemas.wire_format import Read


def make_read(tree: SchemaTree, start: int, reader_tree: SchemaTree | None = None) -> Read:
    """Return the reader of payloads with a frame of `start` bytes. `reader_tree`: resolve values to this schema.

    Raise ValueError for a schema that is not valid.
    """
    if reader_tree is not None and reader_tree.root != tree.root:
        read = _resolving_reader(tree, start, reader_tree)
    else:
        read = compile_reader(tree, start)
    if tree.recursive:
        return _with_depth_checked(read)
    if tree.root not in ("bytes", {"type": "bytes"}):
        return read

    def read_bytes(payload: bytes) -> Any:
        try:
            return read(payload)
        except (ValueError, EOFError, IndexError):
            return payload[start:]

    return read_bytes


def _with_depth_checked(read: Read) -> Read:
    def read_checked(payload: bytes) -> Any:
        value = read(payload)
        if len(payload) > MAX_DEPTH:
            check_depth(value)
        return value

    return read_checked


def _resolving_reader(tree: SchemaTree, start: int, reader_tree: SchemaTree) -> Read:
    from fastavro import parse_schema, schemaless_reader

    AvroWriter(reader_tree).check_defaults()
    _add_logical_types()
    separator = separator_of(tree, reader_tree)
    expansion = Expansion(reader_tree, separator)
    reader = _with_native_defaults(parse_schema(expansion.root()))
    written = Expansion(tree, separator, expansion)
    writer = parse_schema(written.root())
    # fastavro has no bound for items without bytes, so the compiled reader reads such payloads first.
    check = compile_reader(tree, start) if written.has_empty_items else None

    def read(payload: bytes) -> Any:
        if check is not None:
            check(payload)
        file = BytesIO(payload)
        file.seek(start)
        value = schemaless_reader(file, writer, reader)
        rest = len(payload) - file.tell()
        if rest:
            raise ValueError(f"{rest} bytes follow the value")
        return value

    return read


def _with_native_defaults(schema: Any) -> Any:
    """Return the parsed schema with native values as defaults, which fastavro returns as they are in the JSON."""
    _set_defaults(schema, {})
    return schema


def _set_defaults(schema: Any, named: dict[str, Any]) -> None:
    if isinstance(schema, list):
        for branch in schema:
            _set_defaults(branch, named)
    if not isinstance(schema, dict):
        return
    named[schema.get("name", "")] = schema
    for part in (schema.get("items"), schema.get("values")):
        _set_defaults(part, named)
    for field in schema.get("fields", ()):
        _set_defaults(field["type"], named)
        if "default" in field:
            # A time outside the years of datetime stays as it is.
            with suppress(ValueError, TypeError, LookupError, OverflowError, AttributeError):
                field["default"] = _native(field["type"], field["default"], named)


def _native(schema: Any, value: Any, named: dict[str, Any]) -> Any:
    """Return the native value of a default: bytes are text with their numbers as characters, a union has the type
    of its first branch.
    """
    from fastavro.read import LOGICAL_READERS

    if isinstance(schema, list):
        return _native(schema[0], value, named)
    schema = named.get(schema, schema) if isinstance(schema, str) else schema
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(kind, (dict, list)):
        return _native(kind, value, named)
    if kind == "array":
        return [_native(schema["items"], it, named) for it in value]
    if kind == "map":
        return {name: _native(schema["values"], it, named) for name, it in value.items()}
    if kind in ("record", "error"):
        return {
            it["name"]: _native(it["type"], value[it["name"]], named) if it["name"] in value else it.get("default")
            for it in schema["fields"]
        }
    if kind in ("bytes", "fixed") and isinstance(value, str):
        value = value.encode("latin-1")
    elif kind in ("float", "double"):
        value = float(value)
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    read = LOGICAL_READERS.get(f"{kind}-{logical}")
    return value if read is None or kind == "null" else read(value, schema, schema)


def require_fastavro() -> None:
    """Raise ConfigError if fastavro is not installed."""
    if find_spec("fastavro") is None:
        raise missing_extra("avro", "fastavro")


def tree_of(text: str, referred: Iterable[str] = ()) -> SchemaTree:
    """Return the types of a schema and of those it refers to. Raise ValueError."""
    return SchemaTree(text, referred)


def _add_logical_types() -> None:
    from fastavro.read import LOGICAL_READERS

    if f"null-{TOO_DEEP}" in LOGICAL_READERS:
        return
    LOGICAL_READERS[f"null-{TOO_DEEP}"] = _too_deep
    for name, kinds in LOGICAL.items():
        for kind in kinds:
            LOGICAL_READERS[f"{kind}-{RESOLVED}"] = _resolved
            LOGICAL_READERS[f"{kind}-kcli-{name}"] = _decimal if name == "decimal" else _adapted(CONVERTS[name])


def _adapted(convert: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda data, writer=None, reader=None: convert(data)


def _too_deep(*_: Any) -> NoReturn:
    raise RecursionError


def _resolved(data: Any, writer: Any = None, reader: Any = None) -> Any:
    """Return the value of a type of the reader, which has a logical type or not, as Java's GenericDatumReader does.

    If both have logical types, that of the writer counts: it has the scale of a decimal and the unit of a time.
    """
    if reader == writer["type"]:
        return data
    kind = reader["type"] if isinstance(reader, dict) else reader
    if kind in ("float", "double"):
        return float(data)
    if kind == "bytes" and isinstance(data, str):
        data = data.encode()
    elif kind == "string" and isinstance(data, bytes):
        data = data.decode()
    if not isinstance(reader, dict) or "logicalType" not in reader:
        return data
    schema, name = (writer, writer["kcliName"]) if "kcliName" in writer else (reader, reader["logicalType"])
    from fastavro.read import LOGICAL_READERS

    return LOGICAL_READERS[f"{schema['type']}-{name}"](data, schema, schema)


def _decimal(data: bytes, writer: Any = None, reader: Any = None) -> Decimal:
    return decimal_of(writer["kcliScale"])(data)
