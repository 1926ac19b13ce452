"""Records from delimited pieces and from JSON lines."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.cli.produce import records
from kcli.cli.produce.feed import WriteTally
from kcli.cli.produce.records import Shape, jsonl_parser, records_of, records_of_json
from kcli.protocol.records.record import NewRecord, NewRecords

NOW = 1_700_000_000_000


def keys_and_values(shape: Shape, *pieces: bytes) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records_of(pieces, shape, NOW).rows()]


def test_a_piece_is_the_value_of_a_record() -> None:
    rows = records_of([b"a", b""], Shape(), NOW).rows()
    assert list(rows) == [NewRecord(None, b"a", NOW), NewRecord(None, b"", NOW)]


def test_all_records_get_the_key_and_the_headers() -> None:
    shape = Shape(key=b"k", headers=[("h", b"1")])
    assert list(records_of([b"a"], shape, NOW).rows()) == [NewRecord(b"k", b"a", NOW, [("h", b"1")])]


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


def one_record(text: bytes) -> NewRecord:
    (record,) = records_of_json([text], NOW).rows()
    return record


def test_a_json_line_of_consume() -> None:
    """The shape documented in kcli/cli/consume/render_structured.py."""
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
    assert one_record(text) == NewRecord(b"k", b"\xff", 5, [("h", None), ("h", b"\xff")])


def test_all_members_of_a_json_record_are_optional() -> None:
    assert one_record(b"{}") == NewRecord(None, None, NOW)
    assert one_record(line(timestamp=None, headers=None, value="")) == NewRecord(None, b"", NOW)


def as_text(data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {"value": None}
    return {"value": base64.b64encode(data).decode(), "value_encoding": "base64"}


@given(value=st.none() | st.binary(), name=st.text(), header=st.none() | st.binary())
def test_all_bytes_can_be_given_in_base64(value: bytes | None, name: str, header: bytes | None) -> None:
    if any("\ud800" <= sign <= "\udfff" for sign in name):
        return
    record = one_record(line(**as_text(value), headers=[{"name": name, **as_text(header)}]))
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
        (line(headers=[{"name": "\ud800"}]), "the name of a header contains half of a surrogate pair"),
    ],
)
def test_an_invalid_json_line_is_refused_with_its_fault(text: bytes, blame: str) -> None:
    with pytest.raises(ValueError, match=blame):
        one_record(text)


def test_invalid_lines_are_counted_and_the_first_is_named() -> None:
    tally = WriteTally()
    parse = jsonl_parser([("all", b"1")], 7, tally)
    valid = parse([b'{"value":"a"}', b"", b"bad"], NOW)
    assert list(valid.rows()) == [NewRecord(None, b"a", 7, [("all", b"1")])]
    assert len(parse([b"worse"], NOW)) == 0
    (failure,) = tally.failure_lines()
    assert failure == "2 records not stored: line 3 is not a record in JSON: Expecting value at column 1"


# Lines that are valid or not, and lines that are valid only together with their neighbours.
LINES = st.sampled_from(
    [
        line(),
        line(value="a", key="k"),
        line(value="\u00e9 \U0001f600", key=None, timestamp=0, headers=[]),
        line(value=None, timestamp=NOW + 1, headers=[{"name": "h", "value": "x"}]),
        line(value="/w==", value_encoding="base64"),
        line(value_raw="/w==", value_raw_encoding="base64", value_error="bad"),
        line(value=1),
        line(key={"a": [1]}, value="x"),
        line(vaule="x"),
        line(timestamp=True),
        line(timestamp=1 << 70),
        line(headers="h"),
        line(value="\ud800"),
        line(value="9007199254740993"),
        b'{"value":"a"}\r',
        b' {"value":"a"} ',
        b"\xef\xbb\xbf{}",
        b'{"value":"\xff"}',
        b'{"value":"\xed\xa0\x80"}',
        b'{"value":"\x01"}',
        b'{"value":NaN}',
        b'{"value":' + b"1" * 5000 + b"}",
        b"[" * 3000,
        "{}".encode("utf-16"),
        b"",
        b" \t",
        b"null",
        b"9007199254740993",
        b"{},{}",
        b"{},9007199254740993,{}",
        b"{},9007199254740993.0,{}",
        b'{"headers":[{}',
        b"{}]}",
        b"[]],[",
        b'{"value":"a',
        b'a"}',
        b"{",
        b"}",
    ]
)


def reference(lines: Sequence[bytes], tally: WriteTally) -> NewRecords:
    """The records of lines that are parsed alone."""
    parse = jsonl_parser((), None, tally)
    return NewRecords.joined([parse([text], NOW) for text in lines])


@settings(max_examples=200)
@given(lines=st.lists(LINES, max_size=12), at_once=st.integers(2, 6))
def test_lines_parsed_together_give_the_records_and_failures_of_each_alone(lines: list[bytes], at_once: int) -> None:
    together, alone = WriteTally(), WriteTally()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_LINES_AT_ONCE", at_once)
        got = jsonl_parser((), None, together)(lines, NOW)
    assert list(got.rows()) == list(reference(lines, alone).rows())
    assert (together.read, together.failure_lines()) == (alone.read, alone.failure_lines())


@given(
    segments=st.lists(st.text("ab:", max_size=6).map(str.encode), min_size=1),
    key_delimiter=st.sampled_from([b":", b"::"]),
    empty_is_null=st.booleans(),
)
def test_keys_and_values_equal_those_of_each_segment_alone(
    segments: list[bytes], key_delimiter: bytes, empty_is_null: bool
) -> None:
    expected: list[tuple[bytes | None, bytes | None]] = []
    for segment in segments:
        head, *rest = segment.split(key_delimiter, 1)
        key, value = (head, rest[0]) if rest else (None, head)
        expected.append((key or None, value or None) if empty_is_null else (key, value))
    shape = Shape(key_delimiter=key_delimiter, empty_is_null=empty_is_null)
    assert keys_and_values(shape, *segments) == expected
