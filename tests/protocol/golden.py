"""Golden data written by Kafka in tests/vectors: message bodies, each with its JSON, and tables of numbers."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from kcli.protocol.codec import is_flexible
from kcli.protocol.wire import FieldType, Message, fields_of
from tests.protocol.audit import our_messages

FOLDER = Path(__file__).parent.parent / "vectors"
FILE = FOLDER / "messages.txt"
RECORDS = FOLDER / "group_records.txt"


class Golden(NamedTuple):
    """A body written by Kafka, with its values as JSON."""

    cls: type[Message]
    version: int
    body: bytes
    json: Any

    def __str__(self) -> str:
        return f"{self.cls.__name__} v{self.version}"


class RecordLine(NamedTuple):
    """A key, a value or a blob written by Kafka, with its JSON."""

    name: str
    version: int
    data: bytes
    json: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


def record_lines(*names: str) -> list[RecordLine]:
    """Return the keys, values and blobs of these names."""
    found = []
    for line in RECORDS.read_text().splitlines():
        if not line.startswith("#"):
            name, version, data, text = line.split(" ", 3)
            if name in names:
                found.append(RecordLine(name, int(version), bytes.fromhex(data), json.loads(text)))
    assert found, f"no line of {names}"
    return found


@functools.cache
def goldens() -> list[Golden]:
    """Return all goldens in the order of the file."""
    return list(_read())


def goldens_of(cls: type[Message]) -> list[Golden]:
    """Return the goldens of one message."""
    return [golden for golden in goldens() if golden.cls is cls]


def _read() -> Iterator[Golden]:
    by_name = {cls.__name__: cls for cls in our_messages()}
    for line in FILE.read_text().splitlines():
        if not line.startswith("#"):
            name, version, body, text = line.split(" ", 3)
            yield Golden(by_name[name], int(version), bytes.fromhex(body), json.loads(text))


def as_json(message: Message, version: int) -> dict[str, Any]:
    """Convert to JSON as Kafka's converters do: fields of the version only, and tagged fields only if set."""
    return struct_as_json(message, version, is_flexible(type(message), version))


def struct_as_json(value: Any, version: int, flexible: bool) -> dict[str, Any]:
    """Convert a struct, or the key or value of a record, as `as_json` does."""
    values = {}
    for field in fields_of(type(value)):
        mine = getattr(value, field.name)
        if field.is_in(version) and not (field.tag is not None and mine == field.default):
            values[_camel_case(field.name)] = _value(field.type, mine, version, flexible)
    return values


def _value(type: FieldType, value: Any, version: int, flexible: bool) -> Any:
    if value is None:
        return None
    if type.element is not None:
        return [_value(type.element, item, version, flexible) for item in value]
    if type.struct is not None:
        return struct_as_json(value, version, flexible)
    if isinstance(value, UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    if isinstance(value, (bytes, memoryview)):
        return base64.b64encode(value).decode()
    return value


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def table(kind: str) -> list[list[str]]:
    """Return the rows of one kind, such as "error" or "acl", of tests/vectors/tables.txt, without the kind."""
    rows = (line.split() for line in FILE.with_name("tables.txt").read_text().splitlines())
    return [row[1:] for row in rows if row[0] == kind]
