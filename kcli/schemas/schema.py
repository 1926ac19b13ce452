"""Schemas of a registry, and the JSON of its answers, which is checked: an answer may come from any server. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kcli.errors import DisconnectedError, KcliError, Refused

# Types of Avro that JSON Schema lacks.
_AVRO_ONLY = ("int", "long", "float", "double", "bytes", "record", "enum", "fixed", "map")


class RegistryError(KcliError):
    """The registry cannot be reached, refuses the request, or does not answer as a registry does.

    `status` is that of HTTP, None without an answer.
    """

    status: int | None = None

    @classmethod
    def of(cls, message: str, status: int | None, *, retriable: bool = False) -> RegistryError:
        """Return the error of this status; one that a repetition may not have is a RegistryUnavailable."""
        kind = RegistryRefused if status in (401, 403) else RegistryUnavailable if retriable else cls
        error = kind(message)
        error.status = status
        error.retriable = retriable
        return error


class RegistryRefused(RegistryError, Refused):
    """The registry refuses the credentials, or asks for some."""


class RegistryUnavailable(RegistryError, DisconnectedError):
    """No node of the registry answers, or the last one failed. The same request may succeed later."""


@dataclass(frozen=True)
class Reference:
    """A schema that another one uses under a name: a full name of Avro, an import of Protobuf, a URI of JSON."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Schema:
    """A schema: `kind` is AVRO, PROTOBUF or JSON. Its id, GUID, subject and version as far as the answer has them."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    id: int | None = None
    guid: str | None = None
    subject: str | None = None
    version: int | None = None


def junk() -> RegistryError:
    return RegistryError("the answer is not that of a schema registry; check schema.registry.url")


def text_of(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise junk() from None


def parse_json(body: bytes | str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise junk() from None


def texts_of(answer: Any) -> list[str]:
    if not isinstance(answer, list) or not all(isinstance(name, str) for name in answer):
        raise junk()
    return answer


def objects_of(answer: Any) -> list[dict[str, Any]]:
    if not isinstance(answer, list) or not all(isinstance(row, dict) for row in answer):
        raise junk()
    return answer


def whole_of(value: Any, default: int) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return default


def body_of(schema: Schema) -> dict[str, Any]:
    """Return the schema as requests have it; AVRO is the default, and old registries know no other."""
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != "AVRO":
        body["schemaType"] = schema.kind
    if schema.references:
        body["references"] = [vars(reference) for reference in schema.references]
    return body


def schema_of(answer: Any, *, id: int | None = None, guid: str | None = None, fallback: Schema | None = None) -> Schema:
    """Return the schema in an answer. `fallback` is that of a lookup, whose answer may have the id alone."""
    if not isinstance(answer, dict):
        raise junk()
    text, kind = answer.get("schema"), answer.get("schemaType") or "AVRO"
    if text is None and fallback is not None:
        text, kind = fallback.text, fallback.kind
    if not isinstance(text, str) or not isinstance(kind, str):
        raise junk()
    references = []
    for given in objects_of(answer.get("references") or []):
        reference = Reference(given.get("name") or "", given.get("subject") or "", given.get("version") or 0)
        if not all(isinstance(part, str) for part in (reference.name, reference.subject)):
            raise junk()
        if not isinstance(reference.version, int):
            raise junk()
        references.append(reference)
    numbers = {name: answer.get(name) for name in ("id", "version")}
    if not all(value is None or isinstance(value, int) for value in numbers.values()):
        raise junk()
    found_guid, subject = answer.get("guid"), answer.get("subject")
    return Schema(
        kind.upper(),
        text,
        tuple(references),
        id if id is not None else numbers["id"],
        guid or (found_guid if isinstance(found_guid, str) else None),
        subject if isinstance(subject, str) else None,
        numbers["version"],
    )


def kind_of(text: str) -> str:
    """Return the kind of a schema whose answer does not say it."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return "PROTOBUF"
    if not isinstance(schema, dict):
        return "AVRO"
    is_json = "$schema" in schema or "properties" in schema
    is_avro = any(name in schema for name in ("fields", "items", "values", "symbols")) and not is_json
    return "AVRO" if is_avro or schema.get("type") in _AVRO_ONLY else "JSON"
