"""Make every message in every version by Kafka's own classes: `python -m tests.vectors.make_messages`.

Values are made from Kafka's definitions (in the kafka-clients jar), not from kcli's: once "full", with a different
value in every field, and once "bare", with nulls and defaults. Java's converters encode them to messages.txt. Kafka's
error codes, header versions and numbers of ACLs go to tables.txt. Run it by hand for a new version of Kafka; the files
are checked in.
"""

from __future__ import annotations

import base64
import json
import random
import re
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kcli.protocol.registry import ApiKey, api_name
from tests.protocol.kafka_definitions import children, default_of, load_definitions, stable_versions, versions
from tests.real_kafka import VERSION, fetch_jars

FOLDER = Path(__file__).parent
MESSAGES_HEADER = f"""\
# Message bodies as the classes of kafka-clients {VERSION} write them: org.apache.kafka.common.message.<name>Data, read
# from JSON by <name>DataJsonConverter and written through ByteBufferAccessor (see MessageVectors.java). One per line:
# name, version, bytes in hex, and the JSON that was read. Two per version: one with every field set, one with nulls and
# defaults. Made by `python -m tests.vectors.make_messages`.
"""
TABLES_HEADER = f"""\
# From enums of Apache Kafka {VERSION} (see KafkaTables.java):
# error: number, name, retriable, asks for new metadata; header: API key, name, version, request and response header;
# acl: enum, number, name; operations: resource type, and the operations that it can have.
# Made by `python -m tests.vectors.make_messages`.
"""
BITS = {"int8": 7, "int16": 15, "uint16": 16, "int32": 31, "int64": 63}


def main() -> None:
    """Write both files."""
    jars = fetch_jars(VERSION)
    definitions = load_definitions(jars / f"kafka-clients-{VERSION}.jar")
    write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    cases = "".join(f"{name} {version} {write(value)}\n" for name, version, value in make_cases(definitions))
    FOLDER.joinpath("messages.txt").write_text(MESSAGES_HEADER + _java("MessageVectors", jars, cases))
    FOLDER.joinpath("tables.txt").write_text(TABLES_HEADER + _java("KafkaTables", jars, ""))


def _java(program: str, jars: Path, stdin: str) -> str:
    """Return the output of one of the programs in this folder."""
    command = ["java", "-cp", f"{jars}/*", str(FOLDER / f"{program}.java")]
    done = subprocess.run(command, input=stdin.encode(), stdout=subprocess.PIPE, check=True, timeout=300)
    return done.stdout.decode()


def make_cases(definitions: dict[str, Any]) -> Iterator[tuple[str, int, Any]]:
    """Return name, version and JSON value of each case for the converters."""
    for key in ApiKey:
        for name in (api_name(key) + "Request", api_name(key) + "Response"):
            first, last = stable_versions(definitions, name)
            for version in range(first, last + 1):
                maker = ValueMaker(definitions[name], version)
                yield name, version, maker.full(definitions[name]["fields"])
                yield name, version, maker.bare(definitions[name]["fields"])


class ValueMaker:
    """Values for one message in one version, equal in every run."""

    def __init__(self, definition: dict[str, Any], version: int) -> None:
        self.version = version
        self.shared = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", ())}
        self.random = random.Random(f"{definition['name']} {version}")

    def full(self, fields: list[dict[str, Any]]) -> dict[str, Any]:
        """Return every field of the version, each with a different value."""
        return {_json_name(field): self._full_value(field, field["type"]) for field in self._carried(fields)}

    def _full_value(self, field: dict[str, Any], kind: str) -> Any:
        if kind.startswith("[]"):
            return [self._full_value(field, kind[2:]) for _ in range(self.random.choice((1, 1, 2)))]
        if kind in BITS:
            value = self.random.getrandbits(BITS[kind])
            return value if kind.startswith("u") else value - self.random.choice((0, 0, 2 ** BITS[kind]))
        if kind == "float64":
            return self.random.getrandbits(30) / 8 - 1000
        if kind == "bool":
            return not default_of(field)
        if kind == "string":
            return self.random.choice(("a", "name", "näme", "名", "b", "c", "d", "long" * 32)) + str(
                self.random.randrange(100)
            )
        if kind in ("bytes", "records"):
            return base64.b64encode(self.random.randbytes(self.random.choice((3, 4, 130)))).decode()
        if kind == "uuid":
            return _kafka_text(uuid.UUID(int=self.random.getrandbits(128)))
        return self.full(children({**field, "type": kind}, self.shared))

    def bare(self, fields: list[dict[str, Any]]) -> dict[str, Any]:
        """Return every untagged field, null or empty if allowed; tagged ones are omitted at their defaults."""
        carried = [
            field for field in self._carried(fields) if self.version not in versions(field.get("taggedVersions"))
        ]
        return {_json_name(field): self._bare_value(field) for field in carried}

    def _bare_value(self, field: dict[str, Any]) -> Any:
        kind = field["type"]
        if self.version in versions(field.get("nullableVersions")):
            return None
        inside = children(field, self.shared)
        if inside:
            return [self.bare(inside)] if kind.startswith("[]") else self.bare(inside)
        if kind == "uuid":
            return _kafka_text(uuid.UUID(int=0))
        if kind in ("string", "bytes", "records"):
            return ""
        return default_of(field)

    def _carried(self, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [field for field in fields if self.version in versions(field["versions"])]


def _json_name(field: dict[str, Any]) -> str:
    name: str = field["name"]
    return re.sub("^.", lambda first: first[0].lower(), name)


def _kafka_text(value: uuid.UUID) -> str:
    """Format a uuid as Kafka does: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


if __name__ == "__main__":
    main()
