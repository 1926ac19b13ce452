"""Values of Avro's binary encoding, resolved to another schema than the writer's if one is given.

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

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kcli.schemas.avro_compile import compile_reader
from kcli.schemas.avro_schema import SchemaTree
from kcli.schemas.avro_write import AvroWriter
from kcli.schemas.contracts import MAX_DEPTH
from kcli.schemas.simple_formats import check_depth

if TYPE_CHECKING:
    from kcli.schemas.wire_format import Read


def make_read(tree: SchemaTree, start: int, reader_tree: SchemaTree | None = None) -> Read:
    """Return the reader of payloads with a frame of `start` bytes. `reader_tree`: resolve values to this schema.

    Raise ValueError for a schema that is not valid.
    """
    if reader_tree is not None and reader_tree.root != tree.root:
        AvroWriter(reader_tree).check_defaults()
        read = compile_reader(tree, start, reader_tree)
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


def tree_of(text: str, referred: Iterable[str] = ()) -> SchemaTree:
    """Return the types of a schema and of those it refers to. Raise ValueError."""
    return SchemaTree(text, referred)
