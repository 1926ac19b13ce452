"""Pieces of input as records: delimited, and as JSON."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.cli.produce.delimited import Shape, records_of
from kcli.cli.produce.jsonl import record_of
from kcli.cli.produce.parsers import jsonl_parser
from kcli.cli.produce.tally import WriteTally
from kcli.errors import BrokerError, TimeoutExpired
from kcli.producer.batches import Outcome
from kcli.protocol.records.record import NewRecord
from kcli.structs import TopicPartition

NOW = 1_700_000_000_000


def keys_and_values(shape: Shape, *pieces: bytes) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records_of(pieces, shape, NOW)]


def test_a_piece_is_a_value() -> None:
    assert records_of([b"a", b""], Shape(), NOW) == [NewRecord(None, b"a", NOW), NewRecord(None, b"", NOW)]


def test_key_and_headers_for_all() -> None:
    shape = Shape(key=b"k", headers=[("h", b"1")])
    assert records_of([b"a"], shape, NOW) == [NewRecord(b"k", b"a", NOW, [("h", b"1")])]


def test_the_first_key_delimiter_counts_and_a_piece_without_one_has_no_key() -> None:
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


def test_json_as_consume_writes_it() -> None:
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
    assert record_of(text, NOW) == NewRecord(b"k", b"\xff", 5, [("h", None), ("h", b"\xff")])


def test_all_members_may_be_left_out() -> None:
    assert record_of(b"{}", NOW) == NewRecord(None, None, NOW, [])
    assert record_of(line(timestamp=None, headers=None, value=""), NOW) == NewRecord(None, b"", NOW, [])


def as_text(data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {"value": None}
    return {"value": base64.b64encode(data).decode(), "value_encoding": "base64"}


@given(value=st.none() | st.binary(), name=st.text(), header=st.none() | st.binary())
def test_any_bytes_pass(value: bytes | None, name: str, header: bytes | None) -> None:
    if any("\ud800" <= sign <= "\udfff" for sign in name):
        return
    record = record_of(line(**as_text(value), headers=[{"name": name, **as_text(header)}]), NOW)
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
def test_what_is_wrong_with_a_line_is_said(text: bytes, blame: str) -> None:
    with pytest.raises(ValueError, match=blame):
        record_of(text, NOW)


def test_bad_lines_are_counted_with_the_first_one_s_number_and_blank_ones_skipped() -> None:
    tally = WriteTally()
    parse = jsonl_parser([("all", b"1")], 7, tally)
    assert parse([b'{"value":"a"}', b"", b"bad"], NOW) == [NewRecord(None, b"a", 7, [("all", b"1")])]
    assert parse([b"worse"], NOW) == []
    assert tally.failure_lines() == ["2 records not stored: line 3 is not a record in JSON: Expecting value"]


def test_the_tally_has_one_line_for_each_kind_of_failure() -> None:
    tally, tp = WriteTally(), TopicPartition("t", 0)
    tally.read = 10
    tally.take(Outcome(tp, 4, 0))
    tally.take(Outcome(tp, 2, error=BrokerError(87, "no key", partition=0)))
    tally.take(Outcome(tp, 1, error=BrokerError(87, "another reason")))
    tally.take(Outcome(tp, 1, error=TimeoutExpired("too late")))
    assert (tally.stored, tally.failed) == (4, 4)
    assert tally.failure_lines() == [
        "3 records not stored: INVALID_RECORD: no key",
        "1 record not stored: too late",
        "2 records not acknowledged",
    ]
    assert tally.summary(2.0).startswith("4 records stored, 0.0 MB read in 2.00 s (2 records/s, ")
