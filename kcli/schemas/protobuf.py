"""Values of Protobuf messages.

A message becomes a dict with the fields' names as in the schema. As in Protobuf's JSON, a field without presence (a
scalar of proto3, a list, a map) is always there, and one with presence only if it is set. 64-bit integers are ints,
enum values their names (an unknown one its number), bytes are bytes. Well-known types:

| type | native value |
|---|---|
| Timestamp | datetime in UTC; `Timestamp` for nanoseconds or years outside 1 to 9999 |
| Duration, FieldMask | text as in Protobuf's JSON: "1.5s", "a,b" |
| wrappers (Int64Value, ...), Struct, Value, ListValue | the value |
| Any | dict with "@type" and the fields; with "value" for a type of this table, and for the bytes of an unknown type |

After the frame, a payload has the path of the message in its schema: a count and indexes as zigzag varints, where the
path [0] is the single byte 0. Apicurio's serialisers write a message `Ref` with the name instead, after its length.
confluent-kafka-python wrote unsigned varints (`use.deprecated.format`): a payload that is not valid by its zigzag path
is read by that one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeAlias

from kcli.schemas.json_values import Timestamp

if TYPE_CHECKING:
    from kcli.schemas.protobuf_schema import Messages
    from kcli.schemas.wire_format import Read

Convert: TypeAlias = Callable[[Any], Any]

_MAX_PATH = 100
_MAX_ANY_DEPTH = 5
_WRAPPERS = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")


class _AnyDepth(threading.local):
    """The number of Any within Any that a thread is reading."""

    depth = 0


class MessageReader:
    """Payloads of the messages of one schema."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._converts: dict[str, Convert] = {}
        self._reads: dict[Any, Read] = {}
        self._any = _AnyDepth()
        self._building = threading.RLock()

    def read_message(self, name: str | None = None) -> Read:
        """Return the reader of payloads that are a message alone, by default the first of the schema."""
        messages = self._messages
        return self._read_body(messages.by_path((0,)) if name is None else messages.by_name(name))

    def read_framed(self, start: int, *, is_apicurio: bool = False, name: str | None = None) -> Read:
        """Return the reader of payloads whose frame has a length, and after it the path of the message.

        `name` is the message to read, whatever the path says.
        """

        def read(payload: bytes) -> Any:
            if payload[start : start + 1] == b"\0":
                return (read_named or self._by_path((0,)))(payload[start + 1 :])
            first: Exception | None = None
            for form in forms:
                try:
                    body, message = form(payload, start)
                    return (read_named or message)(payload[body:])
                except (ValueError, EOFError) as error:
                    first = first or error
            assert first is not None
            raise first

        read_named = None if name is None else self.read_message(name)
        forms = [self._by_indexes, self._by_unsigned_indexes, self._by_ref]
        if is_apicurio:
            forms.insert(0, forms.pop())
        return read

    def read_after_header(self, path: bytes) -> Read:
        """Return the reader of payloads without a frame, whose header ends with the path of the message."""
        _, indexes = _path(path, 0) if path else (0, (0,))
        return self._by_path(indexes)

    def _by_indexes(self, payload: bytes, start: int) -> tuple[int, Read]:
        body, indexes = _path(payload, start)
        return body, self._by_path(indexes)

    def _by_unsigned_indexes(self, payload: bytes, start: int) -> tuple[int, Read]:
        count, body = _varint(payload, start)
        if count > _MAX_PATH:
            raise ValueError("the data has no valid path of its message")
        indexes = []
        for _ in range(count):
            index, body = _varint(payload, body)
            indexes.append(index)
        return body, self._by_path(tuple(indexes) or (0,))

    def _by_path(self, indexes: tuple[int, ...]) -> Read:
        read = self._reads.get(indexes)
        if read is None:
            read = self._reads[indexes] = self._read_body(self._messages.by_path(indexes))
        return read

    def _by_ref(self, payload: bytes, start: int) -> tuple[int, Read]:
        length, at = _varint(payload, start)
        end = at + length
        if payload[at : at + 1] != b"\n" or end > len(payload):
            raise ValueError("the data does not name its message")
        size, at = _varint(payload, at + 1)
        if at + size != end:
            raise ValueError("the data does not name its message")
        return end, self._by_name(payload[at:end].decode())

    def _read_body(self, descriptor: Any) -> Read:
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass

        parse = GetMessageClass(descriptor).FromString
        convert = self._convert(descriptor)
        name = descriptor.full_name

        def read(payload: bytes) -> Any:
            try:
                message = parse(payload)
            except DecodeError:
                raise ValueError(f"the data is not a message {name}") from None
            return convert(message)

        return read

    # Messages to values

    def _convert(self, descriptor: Any) -> Convert:
        """Return the function that makes a value of a message."""
        with self._building:  # another thread must not find a function whose fields are not complete
            return self._converts.get(descriptor.full_name) or self._new_convert(descriptor)

    def _new_convert(self, descriptor: Any) -> Convert:
        from google.protobuf.message_factory import GetMessageClass

        name = descriptor.full_name
        special = self._well_known(name)
        if special is not None:
            self._converts[name] = special
            return special
        fields: list[tuple[str, bool, Convert | None]] = []
        of_class = GetMessageClass(descriptor)  # a field of the message may be called HasField
        has_field, list_fields = of_class.HasField, of_class.ListFields

        def convert(message: Any) -> dict[str, Any]:
            value: dict[str, Any] = {}
            for field, has_presence, convert_field in fields:
                if has_presence and not has_field(message, field):
                    continue
                part = getattr(message, field)
                value[field] = part if convert_field is None else convert_field(part)
            if is_extendable:
                self._add_extensions(list_fields(message), value)
            return value

        is_extendable = descriptor.is_extendable
        self._converts[name] = convert  # before its fields, which may be of this type
        fields += [(field.name, field.has_presence, self._field(field)) for field in descriptor.fields]
        return convert

    def _field(self, field: Any) -> Convert | None:
        single = self._single(field)
        if not is_repeated(field):
            return single
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            of_value = self._single(inner.fields_by_name["value"])
            if of_value is None:
                return dict
            return lambda entries: {key: of_value(entries[key]) for key in entries}
        return list if single is None else lambda parts: [single(part) for part in parts]

    def _single(self, field: Any) -> Convert | None:
        if field.message_type is not None:
            return self._convert(field.message_type)
        if field.enum_type is None:
            return None
        if field.enum_type.full_name == "google.protobuf.NullValue":
            return lambda _: None
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, number)

    def _add_extensions(self, parts: list[tuple[Any, Any]], value: dict[str, Any]) -> None:
        for field, part in parts:
            if field.is_extension:
                convert = self._field(field)
                value[f"[{field.full_name}]"] = part if convert is None else convert(part)

    def _well_known(self, full_name: str) -> Convert | None:
        """Return the function for a type with a form of its own in JSON; None for all others."""
        name = full_name.removeprefix("google.protobuf.")
        if name == full_name:
            return None
        if name == "Timestamp":
            return _timestamp
        if name in ("Duration", "FieldMask"):
            return _json_string
        if name.removesuffix("Value") in _WRAPPERS and name.endswith("Value"):
            return lambda message: message.value
        if name == "Struct":
            return lambda message: {key: _json_value(message.fields[key]) for key in message.fields}
        if name == "ListValue":
            return lambda message: [_json_value(part) for part in message.values]
        if name == "Value":
            return _json_value
        return self._read_any if name == "Any" else None

    def _read_any(self, message: Any) -> dict[str, Any]:
        if not message.type_url and not message.value:
            return {}
        # The bytes of an Any are parsed here, so the depth that the parser allows does not limit Any within Any.
        self._any.depth += 1
        try:
            if self._any.depth > _MAX_ANY_DEPTH:
                raise RecursionError
            name = message.type_url.rpartition("/")[2]
            value = self._by_name(name)(message.value)
        except ValueError:
            return {"@type": message.type_url, "value": message.value}
        finally:
            self._any.depth -= 1
        # The members of a type with its own form, such as Struct, may have any names, also "@type".
        fields = value if self._well_known(name) is None else {"value": value}
        return {"@type": message.type_url, **fields}

    def _by_name(self, name: str) -> Read:
        if name not in self._reads:
            self._reads[name] = self._read_body(self._messages.by_name(name))
        return self._reads[name]


def is_repeated(field: Any) -> bool:
    """Return whether a field has a list or a map; releases of the library differ in the attribute."""
    known = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if known is None else known)


def path_bytes(indexes: tuple[int, ...]) -> bytes:
    """Return the path of a message as payloads have it."""
    if indexes == (0,):
        return b"\0"
    return b"".join(_zigzag(number) for number in (len(indexes), *indexes))


def _zigzag(number: int) -> bytes:
    rest, data = number << 1, bytearray()
    while rest > 127:
        data.append(rest & 127 | 128)
        rest >>= 7
    data.append(rest)
    return bytes(data)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned varint and the index after it."""
    number = shift = 0
    while True:
        if at >= len(data):
            raise EOFError
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError("a varint is longer than 64 bits")


def _path(data: bytes, at: int) -> tuple[int, tuple[int, ...]]:
    """Return the index after the path of a message, and its indexes."""
    count, at = _varint(data, at)
    if count & 1 or count >> 1 > _MAX_PATH:
        raise ValueError("the data has no valid path of its message")
    indexes = []
    for _ in range(count >> 1):
        number, at = _varint(data, at)
        indexes.append(number >> 1 ^ -(number & 1))
    return at, tuple(indexes) or (0,)


def _timestamp(message: Any) -> datetime | Timestamp:
    seconds, nanoseconds = message.seconds, message.nanos
    if nanoseconds % 1000 == 0 and -62_135_596_800 <= seconds <= 253_402_300_799 and 0 <= nanoseconds < 1_000_000_000:
        return datetime.fromtimestamp(seconds, timezone.utc).replace(microsecond=nanoseconds // 1000)
    return Timestamp(seconds * 1_000_000_000 + nanoseconds)


def _json_string(message: Any) -> Any:
    return message.ToJsonString()


def _json_value(message: Any) -> Any:
    kind = message.WhichOneof("kind")
    if kind == "struct_value":
        return {key: _json_value(message.struct_value.fields[key]) for key in message.struct_value.fields}
    if kind == "list_value":
        return [_json_value(part) for part in message.list_value.values]
    if kind == "number_value":
        number = message.number_value
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    return None if kind in (None, "null_value") else getattr(message, kind)
