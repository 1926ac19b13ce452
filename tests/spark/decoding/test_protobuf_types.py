"""Columns of Protobuf messages, and records of older schemas by field numbers: no JVM, no registry."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

from kcli.schemas.schema import Schema

pytest.importorskip("pyarrow")
pytest.importorskip("google.protobuf")
pytest.importorskip("grpc_tools")
pytest.importorskip("pyspark")

from kcli.schemas.protobuf_schema import messages_of
from kcli.spark.decoding import decode_plan
from kcli.spark.decoding.column_types import sql_type
from kcli.spark.decoding.protobuf_types import message_of, protobuf_column_type
from tests.spark.decoding.test_column import FakeRegistry, planned, rows

FIRST = 'syntax = "proto3"; package p; message Order { int32 id = 1; string title = 2; } message Other { int32 x = 1; }'
SECOND = """syntax = "proto3"; package p;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
enum Kind { NONE = 0; BIG = 1; }
message Order {
  message Line { string sku = 1; uint32 count = 2; Order within = 3; }
  int64 id = 1;
  string name = 2;
  repeated Line lines = 3;
  map<int32, double> rates = 4;
  optional uint64 big = 5;
  Kind kind = 6;
  google.protobuf.Timestamp at = 7;
  google.protobuf.Int32Value maybe = 8;
  google.protobuf.Struct more = 9;
  oneof either { bytes raw = 10; bool flag = 11; }
}
message Other { int32 x = 1; }
"""
SQL = (
    "struct<id:bigint,name:string,lines:array<struct<sku:string,count:bigint,within:string>>,rates:map<int,double>,"
    "big:decimal(20,0),kind:string,at:timestamp,maybe:int,more:string,raw:binary,flag:boolean>"
)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> FakeRegistry:
    fake = FakeRegistry()
    fake.schemas = [Schema("PROTOBUF", text, id=number) for number, text in enumerate((FIRST, SECOND), 1)]
    monkeypatch.setattr(decode_plan, "registry_of", lambda _: fake)
    monkeypatch.setattr(decode_plan, "_kept", {})
    return fake


def payload(text: str, number: int, message: str = "Order", path: bytes = b"\0", **fields: Any) -> bytes:
    from google.protobuf.json_format import ParseDict
    from google.protobuf.message_factory import GetMessageClass

    empty = GetMessageClass(messages_of(text, {}).by_name(message))()
    return b"\0" + number.to_bytes(4, "big") + path + ParseDict(fields, empty).SerializeToString()


def test_columns_of_types() -> None:
    assert sql_type(protobuf_column_type(message_of(messages_of(SECOND, {}), None))) == SQL
    assert sql_type(protobuf_column_type(message_of(messages_of(SECOND, {}), "Other"))) == "struct<x:int>"


@pytest.mark.usefixtures("registry")
def test_older_records_have_the_names_and_types_of_the_newest_schema() -> None:
    big = 2**64 - 1
    more = {"lines": [{"sku": "a", "count": 2**32 - 1, "within": {"id": 9}}], "rates": {"5": 0.5}, "big": str(big)}
    times = {"at": "2026-01-02T03:04:05.678901234Z", "maybe": 3, "more": {"a": [1]}, "flag": True, "kind": 7}
    found = rows(
        planned(value_decode="protobuf"),
        payload(FIRST, 1, id=1, title="old"),
        payload(SECOND, 2, id=2**40, name="new", **more, **times),
        payload(FIRST, 1, "Other", b"\2\2", x=5),
        b"\0\0\0\0\2\0\xff",
    )
    old, new = (row["value"] for row in found[:2])
    assert (old["id"], old["name"], old["lines"], old["big"], old["kind"]) == (1, "old", [], None, "NONE")
    assert (new["id"], new["big"], new["rates"], new["kind"]) == (2**40, Decimal(big), [(5, 0.5)], "7")
    assert new["lines"][0]["count"] == 2**32 - 1
    assert '"id":9' in new["lines"][0]["within"]
    assert new["at"] == datetime(2026, 1, 2, 3, 4, 5, 678901, timezone.utc)
    assert (new["maybe"], new["more"], new["raw"], new["flag"]) == (3, '{"a":[1]}', None, True)
    errors = [row["value_error"] for row in found]
    assert errors[:2] == [None, None]
    assert errors[2] == "protobuf with schema 1: the data is a message p.Other, not p.Order"
    assert errors[3] == "protobuf with schema 2: the data is not a message p.Order"
