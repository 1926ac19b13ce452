"""Kafka's message definitions, read from a checkout, a folder of its JSON files, or a kafka-clients jar."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

IN_CHECKOUT = "clients/src/main/resources/common/message"
IN_JAR = ("common/message/", "common/metadata/")


def load_definitions(source: Path) -> dict[str, Any]:
    """Return requests and responses by name ("FetchRequest")."""
    definitions = {definition["name"]: definition for definition in map(_parse, _texts(source))}
    if "FetchRequest" not in definitions:
        raise FileNotFoundError(f"{source} holds no Kafka message definitions")
    return definitions


def load_metadata_definitions(jars: Path, version: str) -> dict[str, Any]:
    """Return the records of __cluster_metadata by name, and the control records among the messages."""
    texts = [*_texts(jars / f"kafka-clients-{version}.jar"), *_texts(jars / f"kafka-metadata-{version}.jar")]
    return {
        definition["name"]: definition
        for definition in map(_parse, texts)
        if definition["type"] in ("metadata", "data")
    }


def _texts(source: Path) -> Iterator[str]:
    if source.is_file():
        with zipfile.ZipFile(source) as jar:
            for name in jar.namelist():
                if name.startswith(IN_JAR) and name.endswith(".json"):
                    yield jar.read(name).decode()
        return
    folder = source / IN_CHECKOUT
    for path in sorted((folder if folder.is_dir() else source).glob("*.json")):
        yield path.read_text()


def _parse(text: str) -> Any:
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


class Versions(NamedTuple):
    """An inclusive range; an empty one has first > last."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


def versions(text: str | None) -> Versions:
    """Parse Kafka's notation: "3", "3-5", "3+", "none"."""
    if text is None or text == "none":
        return Versions(0, -1)
    if text.endswith("+"):
        return Versions(int(text[:-1]), 0x7FFF)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


def stable_versions(definitions: dict[str, Any], name: str) -> Versions:
    """Return the versions a broker advertises: all valid ones except an unstable newest one."""
    first, last = versions(definitions[name]["validVersions"])
    request = definitions[re.sub("Response$", "Request", name)]
    return Versions(first, last - bool(request.get("latestVersionUnstable")))


def snake_case(name: str) -> str:
    """Convert ThrottleTimeMs to throttle_time_ms."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class FieldFacts(NamedTuple):
    """A field in one version. `path` is in snake case, from the message down; `type` is Kafka's notation."""

    path: str
    type: str
    nullable: bool
    tag: int | None


def fields_in(definition: dict[str, Any], version: int) -> list[FieldFacts]:
    """Return every field of the version in order, depth first."""
    shared = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", ())}
    return list(_walk(definition["fields"], "", version, shared))


def _walk(fields: list[dict[str, Any]], prefix: str, version: int, shared: dict[str, Any]) -> Iterator[FieldFacts]:
    for field in fields:
        if version not in versions(field["versions"]):
            continue
        path = prefix + snake_case(field["name"])
        tag = field.get("tag") if version in versions(field.get("taggedVersions")) else None
        yield FieldFacts(path, field["type"], version in versions(field.get("nullableVersions")), tag)
        yield from _walk(children(field, shared), path + ".", version, shared)


def children(field: dict[str, Any], shared: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of a field's struct."""
    found: list[dict[str, Any]] = field.get("fields") or shared.get(field["type"].removeprefix("[]"), [])
    return found


def default_of(field: dict[str, Any]) -> Any:
    """Return a field's default as a Python value; that of a struct is "struct"."""
    kind, default = field["type"], field.get("default")
    if default == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "string":
        return default or ""
    if kind == "bytes":
        return b""
    if kind == "records":
        return None if field.get("nullableVersions") else b""
    if kind == "bool":
        return default in (True, "true")
    if kind == "uuid":
        return "00000000-0000-0000-0000-000000000000"
    if kind.startswith(("int", "uint")):
        return int(str(default or "0"), 0)
    if kind == "float64":
        return float(default or 0)
    return "struct"
