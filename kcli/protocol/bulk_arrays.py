"""Readers of arrays of structs: one function per class, generated as Python source after `BULK_THRESHOLD` elements.

The closures of `compiler` take several calls per field, which matters for a response with a hundred thousand
partitions. A generated reader unpacks numbers together with the length of the string after them and builds each element
in place, in a third of the time. Long strings, nulls and nested values are left to those closures. A generated reader
raises at the first invalid byte without the place of the error; the compiler then reads the array again by its
closures, which report it.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kcli.errors import ProtocolError
from kcli.protocol.scalars import Read
from kcli.protocol.wire import Field

#: (view, position, count) -> (elements, next position)
ReadArray = Callable[[memoryview, int, int], tuple[list[Any], int]]

#: Errors that a reader raises for invalid bytes.
BULK_ERRORS = (ProtocolError, struct.error, IndexError, UnicodeDecodeError)

#: Elements, of one array or of many, from which a reader is made: making one takes as long as the closures need for
#: this many.
BULK_THRESHOLD = 64


def make_array_reader(
    cls: type,
    fields: Iterable[Field],
    present: Sequence[tuple[Field, Read]],
    read_tags: Callable[[memoryview, int, dict[str, Any]], int] | None,
    flexible: bool,
) -> ReadArray:
    """Make the reader of arrays of this class.

    `present` are the untagged fields of the version, each with the closure that reads it; `read_tags` reads the tagged
    section of flexible versions.
    """
    names: dict[str, Any] = {"cls": cls, "new": cls.__new__, "read_tags": read_tags}
    lines = list(_lines(present, names, flexible, with_tags=read_tags is not None))
    variables = {field.name: f"v{number}" for number, (field, _) in enumerate(present)}
    members = []
    for number, field in enumerate(fields):
        if field.name not in variables:
            names[f"d{number}"] = field.default if field.default_is_shared else field.make_default
        absent = f"d{number}" if field.default_is_shared else f"d{number}()"
        members.append(f"{field.name!r}: {variables.get(field.name, absent)}")
    lines.append(f"values = {{{', '.join(members)}}}")
    if read_tags is not None:
        lines.append("if tags: at = read_tags(view, at - 1, values)")
    lines += ["it = new(cls)", "it.__dict__ = values", "add(it)"]
    body = "".join(f"        {line}\n" for line in lines)
    source = (
        "def read_many(view, at, count):\n    size = len(view)\n    items = []\n    add = items.append\n"
        f"    for _ in range(count):\n{body}    return items, at\n"
    )
    exec(source, names)
    reader: ReadArray = names["read_many"]
    return reader


def _lines(
    present: Sequence[tuple[Field, Read]], names: dict[str, Any], flexible: bool, *, with_tags: bool
) -> Iterator[str]:
    """Yield statements that read the fields into v0, v1, ... and the number of tagged fields into `tags`."""
    run: list[tuple[str, str]] = []
    for number, (field, read) in enumerate(present):
        value = f"v{number}"
        if field.type.wire.code:
            run.append((value, field.type.wire.code))
            continue
        names[f"r{number}"] = read
        if field.type.element is None and field.type.wire.name == "string":
            yield from _unpack([*run, ("n", "B" if flexible else "h")], names)
            yield from _string(value, f"r{number}", flexible)
        else:
            yield from _unpack(run, names)
            yield f"{value}, at = r{number}(view, at)"
        run = []
    yield from _unpack([*run, ("tags", "B")] if with_tags else run, names)


def _unpack(run: Sequence[tuple[str, str]], names: dict[str, Any]) -> Iterator[str]:
    """Yield the statements for adjacent numbers."""
    if [code for _, code in run] == ["B"]:
        yield f"{run[0][0]} = view[at]"
        yield "at += 1"
    elif run:
        layout = struct.Struct(">" + "".join(code for _, code in run))
        unpack = f"u{len(names)}"
        names[unpack] = layout.unpack_from
        yield f"{', '.join(name for name, _ in run)}, = {unpack}(view, at)"
        yield f"at += {layout.size}"


def _string(value: str, read: str, flexible: bool) -> Iterator[str]:
    """Yield the statements for a string whose encoded length is in `n`; a compact length is one more, 0 is null."""
    more, width, long = (1, 1, 128) if flexible else (0, 2, 1 << 15)
    yield f"if n == {more}: {value} = ''"
    yield f"elif {more} < n < {long} and (end := at + n - {more}) <= size:"
    yield f"    {value} = str(view[at:end], 'utf-8')"
    yield "    at = end"
    yield f"else: {value}, at = {read}(view, at - {width})"
