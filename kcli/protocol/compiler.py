"""The compiler of message classes: for a class and a version it makes two closures, one reads and one writes.

Reading takes (view, position) and returns (value, next position). Every count and length is compared with the bytes
that are left before it is used, so a hostile count costs nothing. Writing appends parts to a list that is joined once.
Errors are ProtocolError; each level adds its place, so that the evidence names the field with its indices.
"""

import functools
import operator
import struct
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from kcli.errors import ProtocolError
from kcli.protocol.bulk_arrays import BULK_ERRORS, BULK_THRESHOLD, ReadArray, make_array_reader
from kcli.protocol.primitives import Buffer, end_of, read_unsigned_varint, unsigned_varint
from kcli.protocol.scalars import COMPACT_LENGTH, INT32_COUNT, Codec, check_null, null_length, scalar
from kcli.protocol.wire import Field, FieldType, fields_of

# One field of a struct, or a run of adjacent numbers: its name for errors (empty: errors already have it), the function
# that reads it into the values, the function that writes it, and its smallest size in bytes.
_Step = tuple[str, Callable[[memoryview, int, dict[str, Any]], int], Callable[[Any, list[Buffer]], None], int]

_codecs: dict[tuple[type, int, bool], Codec] = {}
_array_readers: dict[tuple[type, int, bool], ReadArray] = {}


def codec_for(cls: type, version: int, flexible: bool) -> Codec:
    """Return the codec of a declared class in one version. It is compiled on first use and cached."""
    key = (cls, version, flexible)
    cached = _codecs.get(key)
    if cached is None:
        cached = _codecs[key] = _compile(cls, version, flexible)
    return cached


def _compile(cls: Any, version: int, flexible: bool) -> Codec:
    fields = fields_of(cls)
    present = [field for field in fields if field.is_in(version)]
    steps = list(_steps([field for field in present if field.tag is None], version, flexible))
    if flexible:
        steps.append(_tagged_section([field for field in present if field.tag is not None], version))
    check_loss = _loss_check([field for field in fields if field not in present and not field.ignorable])
    defaults = {field.name: field.default for field in fields}
    fresh = [(field.name, field.make_default) for field in fields if not field.default_is_shared]
    fresh = [(name, make) for name, make in fresh if name not in {name for name, _, _, _ in steps}]

    def read(view: memoryview, position: int) -> tuple[Any, int]:
        values = defaults.copy()
        for name, make in fresh:
            values[name] = make()
        name = ""
        try:
            for name, read_step, _, _ in steps:  # noqa: B007 - the name is for the except clause
                position = read_step(view, position, values)
        except ProtocolError as error:
            raise _add_place(error, name) from None
        value = cls.__new__(cls)
        value.__dict__ = values
        return value, position

    def write(value: Any, out: list[Buffer]) -> None:
        check_loss(value)
        name = ""
        try:
            for name, _, write_step, _ in steps:  # noqa: B007
                write_step(value, out)
        except ProtocolError as error:
            raise _add_place(error, name) from None

    return read, write, sum(min_size for _, _, _, min_size in steps)


def _steps(fields: list[Field], version: int, flexible: bool) -> Iterator[_Step]:
    """Yield one step for each run of adjacent numbers, read by one struct call, and for each other field."""
    run: list[Field] = []
    for field in fields:
        if field.type.wire.code:
            run.append(field)
            continue
        if run:
            yield _number_run(run)
            run = []
        yield _single(field, version, flexible)
    if run:
        yield _number_run(run)


def _number_run(fields: list[Field]) -> _Step:
    names = [field.name for field in fields]
    layout = struct.Struct(">" + "".join(field.type.wire.code for field in fields))
    unpack, pack, size = layout.unpack_from, layout.pack, layout.size
    alone = [(field.name, scalar(field.type.wire, False, False)) for field in fields]
    get: Callable[[Any], Any] = operator.attrgetter(*names, names[0])  # repeated: always a tuple

    def read(view: memoryview, position: int, values: dict[str, Any]) -> int:
        try:
            values.update(zip(names, unpack(view, position)))  # noqa: B905 - strict is slower; the lengths are equal
        except struct.error:
            raise_read_error(view, position)
        return position + size

    def write(value: Any, out: list[Buffer]) -> None:
        try:
            out.append(pack(*get(value)[:-1]))
        except struct.error:
            raise_write_error(value)

    def raise_read_error(view: memoryview, position: int) -> NoReturn:
        for name, (read_alone, _, _) in alone:
            try:
                _, position = read_alone(view, position)
            except ProtocolError as error:
                raise _add_place(error, name) from None
        raise AssertionError("a run of numbers failed together but not alone")

    def raise_write_error(value: Any) -> NoReturn:
        for name, (_, write_alone, _) in alone:
            try:
                write_alone(getattr(value, name), [])
            except ProtocolError as error:
                raise _add_place(error, name) from None
        raise AssertionError("a run of numbers failed together but not alone")

    return "", read, write, size


def _single(field: Field, version: int, flexible: bool) -> _Step:
    name = field.name
    read_value, write_value, min_size = _value(field.type, version, flexible, field.may_be_null(version))

    def read(view: memoryview, position: int, values: dict[str, Any]) -> int:
        values[name], position = read_value(view, position)
        return position

    def write(value: Any, out: list[Buffer]) -> None:
        write_value(getattr(value, name), out)

    return name, read, write, min_size


def _value(type: FieldType, version: int, flexible: bool, nullable: bool) -> Codec:
    """Return the codec of a field or of an array's element."""
    if type.struct is not None:
        codec = codec_for(type.struct, version, flexible)
        return _nullable_struct(codec) if nullable else codec
    if type.element is None:
        return scalar(type.wire, flexible, nullable)
    if type.element.wire.code:
        return _array_of_numbers(type.element.wire.code, flexible, nullable)
    element = _value(type.element, version, flexible, type.element.wire.nullable)
    if type.element.struct is None or type.element.wire.nullable:
        return _array(element, flexible, nullable)
    return _array(element, flexible, nullable, functools.partial(_array_reader, type.element.struct, version, flexible))


def _array(element: Codec, flexible: bool, nullable: bool, bulk: Callable[[], ReadArray] | None = None) -> Codec:
    read_count, write_count, min_size = COMPACT_LENGTH if flexible else INT32_COUNT
    read_element, write_element, element_size = element
    element_size = max(element_size, 1)  # with elements of no bytes, any count would fit
    total = 0  # elements of all arrays so far

    def read(view: memoryview, position: int) -> tuple[Any, int]:
        nonlocal total
        count, start = read_count(view, position)
        if count < 0:
            check_null("an array", nullable, position)
            return None, start
        _check_count(count, element_size, view, start)
        total += count
        if bulk is not None and total >= BULK_THRESHOLD:
            try:
                return bulk()(view, start, count)
            except BULK_ERRORS:
                pass  # the loop below finds the error and its place
        elements: list[Any] = []
        position = start
        try:
            for _ in range(count):
                item, position = read_element(view, position)
                elements.append(item)
        except ProtocolError as error:
            raise _add_place(error, f"[{len(elements)}]") from None
        return elements, position

    def write(value: Any, out: list[Buffer]) -> None:
        if value is None:
            out.append(write_count(null_length("an array", nullable)))
            return
        out.append(write_count(len(value)))
        index = 0
        try:
            for index, item in enumerate(value):  # noqa: B007
                write_element(item, out)
        except ProtocolError as error:
            raise _add_place(error, f"[{index}]") from None

    return read, write, min_size


def _array_reader(cls: type, version: int, flexible: bool) -> ReadArray:
    """Return the reader of long arrays of this class. It is made on first use and cached."""
    key = (cls, version, flexible)
    cached = _array_readers.get(key)
    if cached is None:
        fields = fields_of(cls)
        present = [field for field in fields if field.is_in(version)]
        untagged = [
            (field, _value(field.type, version, flexible, field.may_be_null(version))[0])
            for field in present
            if field.tag is None
        ]
        read_tags = _tagged_section([f for f in present if f.tag is not None], version)[1] if flexible else None
        cached = _array_readers[key] = make_array_reader(cls, fields, untagged, read_tags, flexible)
    return cached


def _array_of_numbers(code: str, flexible: bool, nullable: bool) -> Codec:
    """Return the codec of an array of numbers (partition indexes, replicas), read by one struct call."""
    read_count, write_count, min_size = COMPACT_LENGTH if flexible else INT32_COUNT
    width = struct.calcsize(">" + code)

    def read(view: memoryview, position: int) -> tuple[Any, int]:
        count, start = read_count(view, position)
        if count < 0:
            check_null("an array", nullable, position)
            return None, start
        if not count:
            return [], start
        _check_count(count, width, view, start)
        return list(struct.unpack_from(f">{count}{code}", view, start)), start + count * width

    def write(value: Any, out: list[Buffer]) -> None:
        if value is None:
            out.append(write_count(null_length("an array", nullable)))
            return
        out.append(write_count(len(value)))
        try:
            out.append(struct.pack(f">{len(value)}{code}", *value))
        except struct.error as error:
            raise ProtocolError(f"an array holds a number that does not fit: {error}") from None

    return read, write, min_size


def _check_count(count: int, element_size: int, view: memoryview, position: int) -> None:
    if count * element_size > len(view) - position:
        left = len(view) - position
        raise ProtocolError(f"an array of {count} elements does not fit in the {left} bytes left", position=position)


def _nullable_struct(codec: Codec, null: int = 0xFF) -> Codec:
    """Return the codec of a struct that may be null: one byte precedes it, -1 for null, 1 for a struct.

    In a tagged field the byte is an unsigned number, and 0 is null.
    """
    read_struct, write_struct, _ = codec

    def read(view: memoryview, position: int) -> tuple[Any, int]:
        end = end_of("the null marker of a struct", view, position, 1)
        if view[position] >= 0x80 or view[position] == null:
            return None, end
        return read_struct(view, end)

    def write(value: Any, out: list[Buffer]) -> None:
        if value is None:
            out.append(bytes((null,)))
            return
        out.append(b"\x01")
        write_struct(value, out)

    return read, write, 1


class _Tagged:
    """A field of the tagged section in one version."""

    def __init__(self, tag: int, field: Field, version: int) -> None:
        self.tag = tag
        self.name = field.name
        self.default = field.default
        if field.type.struct is not None and field.may_be_null(version):
            codec = _nullable_struct(codec_for(field.type.struct, version, True), null=0)
        else:
            codec = _value(field.type, version, True, field.may_be_null(version))
        self.read, self.write, _ = codec


def _tagged_section(fields: list[Field], version: int) -> _Step:
    """Return the step for tagged fields (KIP-482): a count, then tag, size and value of each, in tag order.

    Fields at their default are not sent, and unknown ones are skipped.
    """
    tagged_fields = {field.tag: _Tagged(field.tag, field, version) for field in fields if field.tag is not None}
    in_order = [tagged_fields[tag] for tag in sorted(tagged_fields)]

    def read(view: memoryview, position: int, values: dict[str, Any]) -> int:
        try:
            count, position = read_unsigned_varint(view, position)
            for _ in range(count):  # each takes at least two bytes, so the bytes bound a hostile count
                tag, position = read_unsigned_varint(view, position)
                size, position = read_unsigned_varint(view, position)
                end = end_of(f"tagged field {tag}", view, position, size)
                if tag in tagged_fields:
                    values[tagged_fields[tag].name] = read_known(tagged_fields[tag], view[:end], position)
                position = end
        except ProtocolError as error:
            error.evidence.setdefault("field", "(tags)")
            raise
        return position

    def read_known(field: _Tagged, view: memoryview, position: int) -> Any:
        try:
            value, end = field.read(view, position)
        except ProtocolError as error:
            raise _add_place(error, field.name) from None
        if end != len(view):
            raise ProtocolError("a tagged field is longer than its value", position=position, field=field.name)
        return value

    def write(value: Any, out: list[Buffer]) -> None:
        sent = [(field, it) for field in in_order if (it := getattr(value, field.name)) != field.default]
        out.append(unsigned_varint(len(sent)))
        for field, field_value in sent:
            parts: list[Buffer] = []
            try:
                field.write(field_value, parts)
            except ProtocolError as error:
                raise _add_place(error, field.name) from None
            data = b"".join(parts)
            out += (unsigned_varint(field.tag), unsigned_varint(len(data)), data)

    return "", read, write, 1


def skip_tags(view: memoryview, position: int) -> int:
    """Return the end of a tagged section without known fields, as in headers."""
    _, read, _, _ = _UNKNOWN_TAGS
    return read(view, position, {})


def _loss_check(missing_fields: list[Field]) -> Callable[[Any], None]:
    """Return a check that fields missing in the version are at their default; otherwise a value would be lost."""
    defaults = [(field.name, field.default) for field in missing_fields]

    def check(value: Any) -> None:
        for name, default in defaults:
            field_value = getattr(value, name)
            if field_value != default:
                raise ProtocolError(f"this version cannot carry {name}={field_value!r}", field=name)

    return check


def _add_place(error: ProtocolError, place: str) -> ProtocolError:
    """Add `place` (a field name or "[index]") before the inner place that the error already names."""
    inner: str | None = error.evidence.get("field")
    if inner and place and not inner.startswith("["):
        place += "."
    error.evidence["field"] = place + (inner or "")
    return error


_UNKNOWN_TAGS = _tagged_section([], 0)
