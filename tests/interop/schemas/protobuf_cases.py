"""Protobuf messages of every kind: in Protobuf's JSON mapping, which foreign code reads, and as kcli prints them."""

from __future__ import annotations

import functools
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any, NamedTuple

COMMON = """\
syntax = "proto3";
package kcli.common;
message Money { string currency = 1; int64 units = 2; }
"""

SHOP = """\
syntax = "proto3";
package kcli.tests;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "common.proto";

message Scalars {
  double a_double = 1;
  float a_float = 2;
  int32 an_int32 = 3;
  int64 an_int64 = 4;
  uint32 a_uint32 = 5;
  uint64 a_uint64 = 6;
  sint32 a_sint32 = 7;
  sint64 a_sint64 = 8;
  fixed32 a_fixed32 = 9;
  fixed64 a_fixed64 = 10;
  sfixed32 an_sfixed32 = 11;
  sfixed64 an_sfixed64 = 12;
  bool a_bool = 13;
  string a_string = 14;
  bytes some_bytes = 15;
}
enum Colour { RED = 0; GREEN = 1; BLUE = -1; }
message Lists {
  repeated int32 packed = 1;
  repeated sint64 unpacked = 2 [packed = false];
  repeated string texts = 3;
  repeated Colour colours = 4;
  repeated Point points = 5;
}
message Point { int32 x = 1; int32 y = 2; }
message Maps {
  map<string, int32> by_text = 1;
  map<int64, string> by_number = 2;
  map<bool, Point> by_flag = 3;
  map<string, Colour> colours = 4;
}
message Choice {
  oneof kind {
    string text = 1;
    int64 number = 2;
    Point point = 3;
    bool flag = 4;
  }
  string after = 5;
}
message Presence {
  optional int32 count = 1;
  optional string text = 2;
  int32 plain = 3;
  Point point = 4;
}
message Tree { string name = 1; repeated Tree children = 2; }
message Outer {
  message First { string only = 1; }
  message Inner {
    message Deep { int64 number = 1; }
    Deep deep = 1;
    Colour colour = 2;
  }
  Inner inner = 1;
}
message WellKnown {
  google.protobuf.Timestamp at = 1;
  google.protobuf.Duration took = 2;
  google.protobuf.Int64Value maybe_number = 3;
  google.protobuf.StringValue maybe_text = 4;
  google.protobuf.BoolValue maybe_flag = 5;
  google.protobuf.BytesValue maybe_bytes = 6;
  google.protobuf.DoubleValue maybe_double = 7;
  google.protobuf.Struct document = 8;
  google.protobuf.Value value = 9;
  google.protobuf.ListValue list = 10;
  google.protobuf.Any any = 11;
  google.protobuf.FieldMask mask = 12;
  google.protobuf.Empty nothing = 13;
}
message Order { int64 id = 1; kcli.common.Money price = 2; repeated kcli.common.Money parts = 3; }
message camelNames { string userName = 1; string snake_name = 2; string UPPER = 3; }
"""

OLD = """\
syntax = "proto2";
package kcli.old;
message Old {
  required string name = 1;
  optional int32 count = 2 [default = 7];
  repeated int32 numbers = 3 [packed = true];
  enum Size { SMALL = 1; LARGE = 5; }
  optional Size size = 4 [default = LARGE];
  optional group Extra = 5 { optional string note = 1; }
}
"""


class ProtobufCase(NamedTuple):
    """One message. `mapped` is its JSON by Protobuf's mapping, `plain` the JSON of kcli."""

    file: str
    message: str
    mapped: dict[str, Any]
    plain: dict[str, Any]

    def pool(self) -> Any:
        """Return the pool of descriptors with its types."""
        return _pool(self.file)

    @property
    def message_class(self) -> Any:
        """Protobuf's Python class of the message."""
        from google.protobuf import message_factory

        return message_factory.GetMessageClass(self.pool().FindMessageTypeByName(self.message))

    def native(self) -> Any:
        """Return the message, as Protobuf's library reads its JSON."""
        from google.protobuf import json_format

        return json_format.ParseDict(self.mapped, self.message_class(), descriptor_pool=self.pool())


FILES = {"common.proto": COMMON, "shop.proto": SHOP, "old.proto": OLD}


@functools.cache
def descriptor_set(name: str, common: str = "common.proto") -> bytes:
    """Return the FileDescriptorSet of a file and its imports, made by protoc. `common`: the name of the import."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        for file, text in FILES.items():
            Path(folder, file.replace("common.proto", common)).write_text(text.replace("common.proto", common))
        out = Path(folder, "set")
        well_known = Path(protoc.__file__).parent / "_proto"
        words = ["protoc", f"-I{folder}", f"-I{well_known}", "--include_imports", f"--descriptor_set_out={out}", name]
        assert protoc.main(words) == 0
        return out.read_bytes()


def descriptor_text(name: str) -> str:
    """Return the FileDescriptorSet in base64, for Java.

    Java registers an import as text, and Python as base64, under the name of the import: each needs a name of its own.
    """
    return b64encode(descriptor_set(name, "common_of_java.proto")).decode()


@functools.cache
def _pool(name: str) -> Any:
    """Return the pool of descriptors with a file and its imports."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set(name)).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


SCALARS = {
    "a_double": 0.1,
    "a_float": -0.5,
    "an_int32": -(2**31),
    "an_int64": -(2**63),
    "a_uint32": 2**32 - 1,
    "a_uint64": 2**64 - 1,
    "a_sint32": -5,
    "a_sint64": 2**62,
    "a_fixed32": 7,
    "a_fixed64": 2**63,
    "an_sfixed32": -7,
    "an_sfixed64": -(2**40),
    "a_bool": True,
    "a_string": 'Grüße, 世界 "🙂"\n',
    "some_bytes": "AP9B",
}
_LONGS = ("an_int64", "a_uint64", "a_sint64", "a_fixed64", "an_sfixed64")


def _shop(message: str, mapped: dict[str, Any], plain: dict[str, Any] | None = None) -> ProtobufCase:
    return ProtobufCase("shop.proto", f"kcli.tests.{message}", mapped, mapped if plain is None else plain)


CASES: dict[str, ProtobufCase] = {
    "scalars": _shop("Scalars", {k: str(v) if k in _LONGS else v for k, v in SCALARS.items()}, SCALARS),
    "not a number": _shop("Scalars", {"a_double": "NaN", "a_float": "-Infinity"}),
    "lists": _shop(
        "Lists",
        {"packed": [1, -1, 300], "unpacked": ["-1", "5"], "texts": ["a", ""], "colours": ["GREEN", "BLUE"]},
        {"packed": [1, -1, 300], "unpacked": [-1, 5], "texts": ["a", ""], "colours": ["GREEN", "BLUE"]},
    ),
    "a list of messages": _shop("Lists", {"points": [{"x": 1}, {"y": -2}]}),
    "maps": _shop("Maps", {"by_text": {"ä": 1, "": 2}, "by_number": {"-5": "five"}, "colours": {"c": "GREEN"}}),
    "a map of messages by flag": _shop("Maps", {"by_flag": {"true": {"x": 1}, "false": {"y": 2}}}),
    "oneof, a text": _shop("Choice", {"text": "t", "after": "a"}),
    "oneof, a number": _shop("Choice", {"number": "5"}, {"number": 5}),
    "oneof, a message": _shop("Choice", {"point": {"x": 1, "y": 2}}),
    "oneof, a default": _shop("Choice", {"flag": False}),
    "oneof, none": _shop("Choice", {"after": "a"}),
    "presence": _shop("Presence", {"count": 0, "text": "", "point": {}}),
    "recursion": _shop("Tree", {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}, {"name": "d"}]}),
    "a nested message": _shop(
        "Outer.Inner", {"deep": {"number": "9"}, "colour": "GREEN"}, {"deep": {"number": 9}, "colour": "GREEN"}
    ),
    "a message nested twice": _shop("Outer.Inner.Deep", {"number": "9"}, {"number": 9}),
    "an outer message": _shop("Outer", {"inner": {"deep": {"number": "9"}}}, {"inner": {"deep": {"number": 9}}}),
    "an imported message": _shop(
        "Order",
        {"id": "5", "price": {"currency": "EUR", "units": "7"}, "parts": [{"units": "1"}]},
        {"id": 5, "price": {"currency": "EUR", "units": 7}, "parts": [{"units": 1}]},
    ),
    "names": _shop("camelNames", {"userName": "a", "snake_name": "b", "UPPER": "c"}),
    "a timestamp and a duration": _shop("WellKnown", {"at": "2024-02-29T12:00:01.234567891Z", "took": "-3.500s"}),
    "wrappers": _shop(
        "WellKnown",
        {"maybe_number": "0", "maybe_text": "", "maybe_flag": False, "maybe_bytes": "AQI=", "maybe_double": 0.5},
        {"maybe_number": 0, "maybe_text": "", "maybe_flag": False, "maybe_bytes": "AQI=", "maybe_double": 0.5},
    ),
    "a document": _shop(
        "WellKnown", {"document": {"a": [1.5, None, True], "b": {}}, "value": "text", "list": [{"x": None}, False]}
    ),
    "any, mask and empty": _shop(
        "WellKnown",
        {"any": {"@type": "type.googleapis.com/kcli.tests.Point", "x": 1}, "mask": "a,b.c", "nothing": {}},
    ),
    "proto2": ProtobufCase(
        "old.proto",
        "kcli.old.Old",
        {"name": "n", "numbers": [1, 2], "size": "SMALL", "extra": {"note": "x"}},
        {"name": "n", "numbers": [1, 2], "size": "SMALL", "extra": {"note": "x"}},
    ),
}
