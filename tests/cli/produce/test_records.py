"""Records from delimited pieces and from JSON lines."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.cli.produce.feed import WriteTally
from kcli.cli.produce.records import Shape, jsonl_parser, record_of_json, records_of
from kcli.protocol.records.record import NewRecord

NOW = 1_700_000_000_000


def keys_and_values(shape: Shape, *pieces: bytes) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records_of(pieces, shape, NOW)]


def test_a_piece_is_the_value_of_a_record() -> None:
    assert records_of([b"a", b""], Shape(), NOW) == [NewRecord(None, b"a", NOW), NewRecord(None, b"", NOW)]


def test_all_records_get_the_key_and_the_headers() -> None:
    shape = Shape(key=b"k", headers=[("h", b"1")])
    assert records_of([b"a"], shape, NOW) == [NewRecord(b"k", b"a", NOW, [("h", b"1")])]


def test_the_key_ends_at_the_first_delimiter() -> None:
    shape = Shape(key_delimiter=b"::")
    assert keys_and_values(shape, b"k::v::w", b"::v", b"k::", b"plain") == [
        (b"k", b"v::w"),
        (b"", b"v"),
        (b"k", b""),
        (None, b"plain"),
    ]


def test_empty_as_null_makes_tombstones() -> None:
    shape = Shape(key_delimiter=b":", empty_is_null=True)
    assert keys_and_values(shape, b"k:", b":v", b"") == [(b"k", None), (None, b"v"), (None, None)]


def line(**members: Any) -> bytes:
    return json.dumps(members).encode()


def test_a_json_line_of_consume() -> None:
    """The shape documented in kcli/cli/consume/render_json.py."""
    text = line(
        topic="orders",
        partition=0,
        offset=12,
        timestamp=5,
        timestamp_type="create",
        key="k",
        value="/w==",
        value_encoding="base64",
        headers=[{"name": "h", "value": None}, {"name": "h", "value": "/w==", "value_encoding": "base64"}],
    )
    assert record_of_json(text, NOW) == NewRecord(b"k", b"\xff", 5, [("h", None), ("h", b"\xff")])


def test_all_members_of_a_json_record_are_optional() -> None:
    assert record_of_json(b"{}", NOW) == NewRecord(None, None, NOW, [])
    assert record_of_json(line(timestamp=None, headers=None, value=""), NOW) == NewRecord(None, b"", NOW, [])


def as_text(data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {"value": None}
    return {"value": base64.b64encode(data).decode(), "value_encoding": "base64"}


@given(value=st.none() | st.binary(), name=st.text(), header=st.none() | st.binary())
def test_all_bytes_can_be_given_in_base64(value: bytes | None, name: str, header: bytes | None) -> None:
    if any("\ud800" <= sign <= "\udfff" for sign in name):
        return
    record = record_of_json(line(**as_text(value), headers=[{"name": name, **as_text(header)}]), NOW)
    assert record == NewRecord(None, value, NOW, [(name, header)])


@pytest.mark.parametrize(
    ("text", "blame"),
    [
        (b"hello", "Expecting value"),
        (b"[1]", "not an object"),
        (b"\xff", "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (line(vaule="x"), '"vaule" is not a member'),
        (line(value=5), '"value" is neither a string nor null'),
        (line(key="!", key_encoding="base64"), '"key" is not base64'),
        (line(key="!", key_encoding="rot13"), '"key_encoding" is neither'),
        (line(value="\ud800"), "surrogate"),
        (line(timestamp="now"), '"timestamp" is not'),
        (line(timestamp=True), '"timestamp" is not'),
        (line(timestamp=1 << 63), '"timestamp" is not'),
        (line(headers={"a": "b"}), '"headers" is not a list'),
        (line(headers=["a"]), "a header is not an object"),
        (line(headers=[{"name": "a", "vlaue": "b"}]), '"vlaue" is not a member of a header'),
    ],
)
def test_an_invalid_json_line_is_refused_with_its_fault(text: bytes, blame: str) -> None:
    with pytest.raises(ValueError, match=blame):
        record_of_json(text, NOW)


def test_invalid_lines_are_counted_and_the_first_is_named() -> None:
    tally = WriteTally()
    parse = jsonl_parser([("all", b"1")], 7, tally)
    assert parse([b'{"value":"a"}', b"", b"bad"], NOW) == [NewRecord(None, b"a", 7, [("all", b"1")])]
    assert parse([b"worse"], NOW) == []
    (failure,) = tally.failure_lines()
    assert failure == "2 records not stored: line 3 is not a record in JSON: Expecting value at column 1"
