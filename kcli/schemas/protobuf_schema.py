"""Schemas of Protobuf as descriptors: .proto text, which protoc compiles, or a descriptor in base64 as registries have.

protoc is that of the package grpcio-tools. It runs as another process with a time limit, on files in a folder of its
own, because a schema comes from a server. Names of imports that lead out of that folder are refused.

Confluent's serialisers import some files without a reference to them; `_BUILT_IN` has the declarations of these, by
https://github.com/googleapis/googleapis/tree/master/google/type and Confluent's meta.proto and decimal.proto.

A schema has no file name of its own, and its imports may have any, so its file gets a random name: no import can be it.
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
from secrets import token_hex
from typing import Any

from kcli.schemas.contracts import missing_extra

_SOURCE = "kcli-source"
_PROTOC_TIMEOUT_S = 30
_OWN_NAME = re.compile(r"schema-[0-9a-f]{16}\.proto")
_LOG_LINE = re.compile(r"WARNING: All log|[IWE]\d{4} ")
#: Ends of the names of files that protoc --descriptor_set_out writes.
DESCRIPTOR_FILES = (".desc", ".pb", ".binpb", ".protoset")
# Apicurio's Java serialisers register a map as its message on the wire, with this option, which protoc refuses.
_MAP_ENTRY = re.compile(r"\boption\s+map_entry\s*=\s*true\s*;")


def _proto3(package: str, *body: str) -> str:
    return f'syntax = "proto3";\npackage {package};\n' + "\n".join(body)


def _enum(name: str, *values: str) -> str:
    return f"enum {name} {{ {' '.join(f'{value} = {number};' for number, value in enumerate(values))} }}"


def _message(name: str, *fields: str, more: str = "") -> str:
    return f"message {name} {{ {' '.join(f'{field} = {number};' for number, field in enumerate(fields, 1))} {more} }}"


def _google(*body: str) -> str:
    return _proto3("google.type", *body)


_META = _proto3(
    "confluent",
    'import "google/protobuf/descriptor.proto";',
    _message("Meta", "string doc", "map<string, string> params", "repeated string tags", "repeated Rule rules"),
    _message("Rule", "string name", "string doc", "string expr", "string sql"),
    *(
        f"extend google.protobuf.{extended} {{ Meta {name}_meta = 1088; }}"
        for name, extended in {
            "file": "FileOptions",
            "message": "MessageOptions",
            "field": "FieldOptions",
            "enum": "EnumOptions",
            "enum_value": "EnumValueOptions",
        }.items()
    ),
)
_MONTHS = "JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER"
_DAYS = "MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY"
_PERIODS = "CALENDAR_PERIOD_UNSPECIFIED DAY WEEK FORTNIGHT MONTH QUARTER HALF YEAR"
_BUILT_IN = {
    "confluent/meta.proto": _META,
    "confluent/type/decimal.proto": _proto3(
        "confluent.type", _message("Decimal", "bytes value", "uint32 precision", "int32 scale")
    ),
    "confluent/types/decimal.proto": 'syntax = "proto3"; import public "confluent/type/decimal.proto";',
    "confluent/type/variant.proto": _proto3("confluent.type", _message("Variant", "bytes metadata", "bytes value")),
    "google/type/calendar_period.proto": _google(_enum("CalendarPeriod", *_PERIODS.split())),
    "google/type/color.proto": _google(
        'import "google/protobuf/wrappers.proto";',
        _message("Color", "float red", "float green", "float blue", "google.protobuf.FloatValue alpha"),
    ),
    "google/type/date.proto": _google(_message("Date", "int32 year", "int32 month", "int32 day")),
    "google/type/datetime.proto": _google(
        'import "google/protobuf/duration.proto";',
        _message(
            "DateTime",
            *(f"int32 {name}" for name in ("year", "month", "day", "hours", "minutes", "seconds", "nanos")),
            more="oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; }",
        ),
        _message("TimeZone", "string id", "string version"),
    ),
    "google/type/dayofweek.proto": _google(_enum("DayOfWeek", "DAY_OF_WEEK_UNSPECIFIED", *_DAYS.split())),
    "google/type/decimal.proto": _google(_message("Decimal", "string value")),
    "google/type/expr.proto": _google(
        _message("Expr", "string expression", "string title", "string description", "string location")
    ),
    "google/type/fraction.proto": _google(_message("Fraction", "int64 numerator", "int64 denominator")),
    "google/type/interval.proto": _google(
        'import "google/protobuf/timestamp.proto";',
        _message("Interval", "google.protobuf.Timestamp start_time", "google.protobuf.Timestamp end_time"),
    ),
    "google/type/latlng.proto": _google(_message("LatLng", "double latitude", "double longitude")),
    "google/type/localized_text.proto": _google(_message("LocalizedText", "string text", "string language_code")),
    "google/type/money.proto": _google(_message("Money", "string currency_code", "int64 units", "int32 nanos")),
    "google/type/month.proto": _google(_enum("Month", "MONTH_UNSPECIFIED", *_MONTHS.split())),
    "google/type/phone_number.proto": _google(
        _message(
            "PhoneNumber",
            more="oneof kind { string e164_number = 1; ShortCode short_code = 2; } string extension = 3; "
            + _message("ShortCode", "string region_code", "string number"),
        )
    ),
    "google/type/postal_address.proto": _google(
        _message(
            "PostalAddress",
            "int32 revision",
            *(f"string {name}" for name in ("region_code", "language_code", "postal_code", "sorting_code")),
            *(f"string {name}" for name in ("administrative_area", "locality", "sublocality")),
            "repeated string address_lines",
            "repeated string recipients",
            "string organization",
        )
    ),
    "google/type/quaternion.proto": _google(_message("Quaternion", "double x", "double y", "double z", "double w")),
    "google/type/timeofday.proto": _google(
        _message("TimeOfDay", "int32 hours", "int32 minutes", "int32 seconds", "int32 nanos")
    ),
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
        return [name for name in self.file.dependency if name not in known and not name.startswith("google/protobuf/")]

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
        names = ", ".join(message.name for message in self.file.message_type[:20])
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
            index = next((number for number, message in enumerate(within) if message.name == name), None)
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
    own_name = f"schema-{token_hex(8)}.proto"
    for name, other in imports.items():
        descriptor = _descriptor(other)
        if descriptor is None:
            texts[name] = other
        else:
            descriptor.name = name
            done.append(descriptor)
    main = _descriptor(text)
    if main is None:
        return Messages(_compiled({**texts, own_name: text}, own_name, done))
    main.name = own_name
    for name in {name for file in (*done, main) for name in file.dependency}:
        if name in _BUILT_IN and name not in imports:
            texts[name] = _BUILT_IN[name]
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
        ready = [file for file in waiting if not any(name in by_name and name not in done for name in file.dependency)]
        if not ready:
            raise ValueError("its imports form a cycle")
        order += ready
        waiting = [file for file in waiting if file not in ready]
    return order


def _compiled(texts: Mapping[str, str], main: str, compiled: list[Any]) -> list[Any]:
    """Return the descriptors of .proto texts, `main` last; `compiled` are those of imports that are not text."""
    mark = f"map_entry_{token_hex(8)}"
    with tempfile.TemporaryDirectory(prefix="kcli-") as folder:
        for name, text in texts.items():
            if os.path.isabs(name) or ".." in name.split("/") or "\\" in name or not name or not name.isprintable():
                raise ValueError(f"an import has a name that is not valid: {name!r}")
            _write(folder, name, _MAP_ENTRY.sub(f'reserved "{mark}";', text))
        descriptors = _run_protoc(folder, [main] if main else list(texts), {file.name: file for file in compiled})
    for descriptor in descriptors:
        _restore_map_entries(descriptor.message_type, mark)
    return descriptors


def _write(folder: str, name: str, text: str) -> None:
    path = os.path.join(folder, *name.split("/"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _restore_map_entries(messages: Iterable[Any], mark: str) -> None:
    """Make the marked messages entries of maps."""
    for message in messages:
        if mark in message.reserved_name:
            message.reserved_name.remove(mark)
            message.options.map_entry = True
        _restore_map_entries(message.nested_type, mark)


def _run_protoc(source: str, names: list[str], compiled: Mapping[str, Any]) -> list[Any]:
    """Return the descriptors of files in the folder `source`, which is an absolute path, imports first."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    if find_spec("grpc_tools") is None:
        raise missing_extra("a schema in .proto text", "grpcio-tools")
    well_known = os.path.join(os.path.dirname(str(find_spec("grpc_tools").origin)), "_proto")  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory(prefix="kcli-") as folder:
        out, given, built_in = (os.path.join(folder, name) for name in ("out", "given", "kcli-built-in"))
        for name, text in _BUILT_IN.items():
            if name not in compiled:
                _write(built_in, name, text)
        words = [sys.executable, "-m", "grpc_tools.protoc", f"--descriptor_set_out={out}", "--include_imports"]
        # protoc splits a path at ":" and "=", and takes a file called -x.proto for an option: give it neither.
        for link, path in ((_SOURCE, source), ("kcli-known", well_known)):
            os.symlink(path, os.path.join(folder, link))
            words.append(f"--proto_path={link}")
        words.append("--proto_path=kcli-built-in")
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
            said = _OWN_NAME.sub("schema", ran.stderr.decode(errors="replace").replace(f"{_SOURCE}/", "")).splitlines()
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
