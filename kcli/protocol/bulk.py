"""Readers of long arrays of structs: the loop over all elements as one function, made as Python source on first use.

The closures of `plan` take several calls for each field, which is nothing until an answer tells of a hundred thousand
partitions. A reader made here unpacks numbers together with the length of the string behind them, and builds each
element in place, in a third of the time; whatever is long, null or contains something it leaves to those closures.
It is for sound bytes only: at the first doubt it raises, and whoever called it reads again in the way that can tell
what is wrong, and where.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kcli.errors import ProtocolError
from kcli.protocol.scalars import Read
from kcli.protocol.wire import Field

#: (view, position, how many) -> (elements, next position)
ReadMany = Callable[[memoryview, int, int], tuple[list[Any], int]]

#: What a reader raises where the bytes are not sound.
DOUBTS = (ProtocolError, struct.error, IndexError, UnicodeDecodeError)

MANY = 64  # elements: a reader is made in the time in which the closures read about so many


def reader_of_many(
    cls: type,
    fields: Iterable[Field],
    present: Sequence[tuple[Field, Read]],
    read_tags: Callable[[memoryview, int, dict[str, Any]], int] | None,
    flexible: bool,
) -> ReadMany:
    """A reader of structs of this class: of the untagged fields that are `present`, each with what reads it alone."""
    names: dict[str, Any] = {"cls": cls, "new": cls.__new__, "read_tags": read_tags}
    lines = list(_lines(present, names, flexible, with_tags=read_tags is not None))
    there = {field.name: f"v{number}" for number, (field, _) in enumerate(present)}
    members = []
    for number, field in enumerate(fields):
        if field.name not in there:
            names[f"d{number}"] = field.default if field.default_is_shared else field.make_default
        absent = f"d{number}" if field.default_is_shared else f"d{number}()"
        members.append(f"{field.name!r}: {there.get(field.name, absent)}")
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
    made: ReadMany = names["read_many"]
    return made


def _lines(
    present: Sequence[tuple[Field, Read]], names: dict[str, Any], flexible: bool, *, with_tags: bool
) -> Iterator[str]:
    """The statements that read the fields into v0, v1, ..., and the number of tagged fields into `tags`."""
    run: list[tuple[str, str]] = []
    for number, (field, read) in enumerate(present):
        value = f"v{number}"
        if field.type.wire.code:
            run.append((value, field.type.wire.code))
            continue
        names[f"r{number}"] = read
        if field.type.item is None and field.type.wire.name == "string":
            yield from _unpack([*run, ("n", "B" if flexible else "h")], names)
            yield from _string(value, f"r{number}", flexible)
        else:
            yield from _unpack(run, names)
            yield f"{value}, at = r{number}(view, at)"
        run = []
    yield from _unpack([*run, ("tags", "B")] if with_tags else run, names)


def _unpack(run: Sequence[tuple[str, str]], names: dict[str, Any]) -> Iterator[str]:
    """Numbers that lie side by side."""
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
    """A string whose length, as it is written, is in `n`; compact ones say one more, so that 0 is null."""
    more, width, long = (1, 1, 128) if flexible else (0, 2, 1 << 15)
    yield f"if n == {more}: {value} = ''"
    yield f"elif {more} < n < {long} and (end := at + n - {more}) <= size:"
    yield f"    {value} = str(view[at:end], 'utf-8')"
    yield "    at = end"
    yield f"else: {value}, at = {read}(view, at - {width})"
