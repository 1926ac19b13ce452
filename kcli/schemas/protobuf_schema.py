"""Schemas of Protobuf as descriptors: .proto text, which protoc compiles, or a descriptor in base64 as registries have.

protoc is that of the package grpcio-tools. It runs as another process with a time limit, on files in a folder of its
own, because a schema comes from a server. Names of imports that lead out of that folder are refused.

Confluent's serialisers import some files without a reference to them; `_BUILT_IN` has the declarations of these.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

from kcli.schemas.contracts import missing_extra

_MAIN = "kcli_schema.proto"
_SOURCE = "kcli-source"
_PROTOC_TIMEOUT_S = 30
_IMPORT = re.compile(r'\bimport\s+(?:public\s+|weak\s+)?["\']([^"\']+)["\']')
_LOG_LINE = re.compile(r"WARNING: All log|[IWE]\d{4} ")
#: Ends of the names of files that protoc --descriptor_set_out writes.
DESCRIPTOR_FILES = (".desc", ".pb", ".binpb", ".protoset")
# Apicurio's Java serialisers register a map as its message on the wire, with this option, which protoc refuses.
_MAP_ENTRY = re.compile(r"\boption\s+map_entry\s*=\s*true\s*;")
_MARK = "kcli_map_entry"

_META = """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
_DECIMAL = """syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""


def _of_google(name: str, fields: str) -> str:
    return f'syntax = "proto3";\npackage google.type;\nmessage {name} {{ {fields} }}\n'


_BUILT_IN = {
    "confluent/meta.proto": _META,
    "confluent/type/decimal.proto": _DECIMAL,
    "google/type/date.proto": _of_google("Date", "int32 year = 1; int32 month = 2; int32 day = 3;"),
    "google/type/timeofday.proto": _of_google(
        "TimeOfDay", "int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4;"
    ),
    "google/type/money.proto": _of_google("Money", "string currency_code = 1; int64 units = 2; int32 nanos = 3;"),
    "google/type/latlng.proto": _of_google("LatLng", "double latitude = 1; double longitude = 2;"),
}


class Messages:
    """The messages of one file of Protobuf, with a pool of descriptors that has it and its imports."""

    def __init__(self, files: Iterable[Any]) -> None:
        """`files` are FileDescriptorProtos: imports first, the file itself last. Raise ValueError."""
        from google.protobuf.descriptor_pool import DescriptorPool

        self.pool = DescriptorPool()
        known: set[str] = set()
        file = None
        try:
            for file in files:
                if file.name not in known:
                    self._add_well_known(file.dependency, known)
                    self.pool.Add(file)
                    known.add(file.name)
            if file is None:
                raise ValueError("it has no file")
            self.pool.FindFileByName(file.name)
        except (KeyError, TypeError) as error:
            raise ValueError(f"it cannot be built: {' '.join(str(error).split())[:300]}") from None
        self.file = file  # its FileDescriptorProto
        if not file.message_type:
            raise ValueError("it has no message")

    def _add_well_known(self, names: Iterable[str], known: set[str]) -> None:
        for name in names:
            if name in known or not name.startswith("google/protobuf/"):
                continue
            known.add(name)
            self.pool.Add(_well_known(name))

    @property
    def base64(self) -> str:
        """The descriptor of the file in base64, as registries take it."""
        return b64encode(self.file.SerializeToString()).decode()

    @property
    def imports(self) -> list[str]:
        """The names of the imports that a reader knows only by a reference."""
        known = _BUILT_IN.keys()
        return [it for it in self.file.dependency if it not in known and not it.startswith("google/protobuf/")]

    def by_path(self, path: tuple[int, ...]) -> Any:
        """Return the descriptor of a message by its indexes, those of nested messages after their parent's."""
        within, name = self.file.message_type, self.file.package
        for index in path:
            if not 0 <= index < len(within):
                raise ValueError(f"the schema has no message with the indexes {list(path)}")
            name = f"{name}.{within[index].name}" if name else within[index].name
            within = within[index].nested_type
        return self.pool.FindMessageTypeByName(name)

    def by_name(self, name: str) -> Any:
        """Return the descriptor of a message by its full name, or its name without the package. Raise ValueError."""
        package = self.file.package
        for full in (name, f"{package}.{name}" if package else name):
            try:
                return self.pool.FindMessageTypeByName(full)
            except KeyError:
                continue
        names = ", ".join(it.name for it in self.file.message_type[:20])
        raise ValueError(f"there is no message {name!r}; it has {names}")

    def path_of(self, descriptor: Any) -> tuple[int, ...]:
        """Return the indexes of a message. Raise ValueError if it is not in the file itself."""
        names = [descriptor.name]
        outer = descriptor.containing_type
        while outer is not None:
            names.insert(0, outer.name)
            outer = outer.containing_type
        path: list[int] = []
        within = self.file.message_type
        for name in names:
            index = next((number for number, it in enumerate(within) if it.name == name), None)
            if index is None or descriptor.file.name != self.file.name:
                raise ValueError(f"message {descriptor.full_name} is not in the schema itself")
            path.append(index)
            within = within[index].nested_type
        return tuple(path)


def require_protobuf() -> None:
    """Raise ConfigError if the library is not installed."""
    if find_spec("google") is None or find_spec("google.protobuf") is None:
        raise missing_extra("protobuf", "protobuf")


def messages_of(text: str, imports: Mapping[str, str]) -> Messages:
    """Return the messages of a schema; `imports` has the texts of its references by name, leaves first.

    Raise ValueError if it is not valid, ConfigError if protoc is needed and not installed.
    """
    done: list[Any] = []
    texts: dict[str, str] = {}
    for name, other in imports.items():
        descriptor = _descriptor(other)
        if descriptor is None:
            texts[name] = other
        else:
            descriptor.name = name
            done.append(descriptor)
    main = _descriptor(text)
    if main is None:
        return Messages(_compiled({**texts, _MAIN: text}, _MAIN, done))
    if texts:
        done = [*_compiled(texts, "", done), *done]
    return Messages([*_in_order(done), main])


def messages_of_file(path: str) -> Messages:
    """Return the messages of a .proto file, whose imports are relative to its folder, or of a file of descriptors.

    Raise ValueError, OSError.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    if path.endswith(DESCRIPTOR_FILES):
        with open(path, "rb") as file:
            try:
                return Messages(FileDescriptorSet.FromString(file.read()).file)
            except DecodeError:
                raise ValueError("it is not a set of descriptors, as protoc --descriptor_set_out writes it") from None
    with open(path, encoding="utf-8"):
        pass
    folder, name = os.path.split(os.path.abspath(path))
    return Messages(_run_protoc(folder, [name], {}))


def _descriptor(text: str) -> Any:
    """Return the FileDescriptorProto that a text has in base64; None if it is .proto text."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return FileDescriptorProto.FromString(b64decode(text.strip(), validate=True))
    except (Base64Error, DecodeError, ValueError):
        return None


def _in_order(files: list[Any]) -> list[Any]:
    """Return descriptors with each after its imports."""
    by_name = {file.name: file for file in files}
    order: list[Any] = []
    waiting = list(by_name.values())
    while waiting:
        done = {file.name for file in order}
        ready = [file for file in waiting if not any(it in by_name and it not in done for it in file.dependency)]
        if not ready:
            raise ValueError("its imports form a cycle")
        order += ready
        waiting = [file for file in waiting if file not in ready]
    return order


def _compiled(texts: Mapping[str, str], main: str, compiled: list[Any]) -> list[Any]:
    """Return the descriptors of .proto texts, `main` last; `compiled` are those of imports that are not text."""
    files = dict(texts)
    for name in [found for text in texts.values() for found in _IMPORT.findall(text)]:
        if name in _BUILT_IN and name not in files:
            files[name] = _BUILT_IN[name]
    with tempfile.TemporaryDirectory(prefix="kcli-") as folder:
        for name, text in files.items():
            if os.path.isabs(name) or ".." in name.split("/") or "\\" in name or not name or not name.isprintable():
                raise ValueError(f"an import has a name that is not valid: {name!r}")
            path = os.path.join(folder, *name.split("/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(_MAP_ENTRY.sub(f'reserved "{_MARK}";', text))
        descriptors = _run_protoc(folder, [main] if main else list(texts), {file.name: file for file in compiled})
    for descriptor in descriptors:
        _restore_map_entries(descriptor.message_type)
    return descriptors


def _restore_map_entries(messages: Iterable[Any]) -> None:
    """Make the marked messages entries of maps."""
    for message in messages:
        if _MARK in message.reserved_name:
            message.reserved_name.remove(_MARK)
            message.options.map_entry = True
        _restore_map_entries(message.nested_type)


def _run_protoc(source: str, names: list[str], compiled: Mapping[str, Any]) -> list[Any]:
    """Return the descriptors of files in the folder `source`, which is an absolute path, imports first."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    if find_spec("grpc_tools") is None:
        raise missing_extra("a schema in .proto text", "grpcio-tools")
    well_known = os.path.join(os.path.dirname(str(find_spec("grpc_tools").origin)), "_proto")  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory(prefix="kcli-") as folder:
        out, given = os.path.join(folder, "out"), os.path.join(folder, "given")
        words = [sys.executable, "-m", "grpc_tools.protoc", f"--descriptor_set_out={out}", "--include_imports"]
        # protoc splits a path at ":" and "=", and takes a file called -x.proto for an option: give it neither.
        for link, path in ((_SOURCE, source), ("kcli-known", well_known)):
            os.symlink(path, os.path.join(folder, link))
            words.append(f"--proto_path={link}")
        if compiled:
            known: dict[str, Any] = {}
            for file in compiled.values():
                for name in file.dependency:
                    if name.startswith("google/protobuf/"):
                        known[name] = _well_known(name)
            with open(given, "wb") as stream:
                stream.write(FileDescriptorSet(file=[*known.values(), *compiled.values()]).SerializeToString())
            words.append(f"--descriptor_set_in={given}")
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        try:
            ran = subprocess.run(
                [*words, *(f"{_SOURCE}/{name}" for name in names)],
                capture_output=True,
                timeout=_PROTOC_TIMEOUT_S,
                env=environ,
                stdin=subprocess.DEVNULL,
                cwd=folder,
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"protoc has not compiled it in {_PROTOC_TIMEOUT_S} seconds") from None
        if ran.returncode != 0:
            said = ran.stderr.decode(errors="replace").replace(f"{_SOURCE}/", "").replace(_MAIN, "schema").splitlines()
            lines = [line for line in said if not _LOG_LINE.match(line)]
            raise ValueError("; ".join(lines[:3])[:400] or "protoc failed")
        with open(out, "rb") as file:
            return list(FileDescriptorSet.FromString(file.read()).file)


def _well_known(name: str) -> Any:
    """Return the FileDescriptorProto of google/protobuf/NAME.proto, which the library has. Raise ValueError."""
    from importlib import import_module

    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    stem = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if not re.fullmatch("[a-z_]+", stem):
        raise ValueError(f"its import {name!r} is unknown")
    try:
        module = import_module(f"google.protobuf.{stem}_pb2")
    except ImportError:
        raise ValueError(f"its import {name!r} is unknown") from None
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
