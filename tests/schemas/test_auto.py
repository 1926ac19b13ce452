"""The decoder auto: each payload by what it begins with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcli.schemas.json_values import json_texts
from kcli.schemas.serdes import DecodeError, make_decoder
from tests.schemas.known_registry import KnownRegistry

UNFRAMED: list[tuple[bytes | None, Any]] = [
    (None, None),
    (b"", ""),
    (b"12", "12"),
    (b'{"a": 1}', {"a": 1}),
    (b"[1]", [1]),
    (b"{not json", "{not json"),
    ("ä".encode(), "ä"),
    (b"\xff", b"\xff"),
    (b"\0\0\0\0\0\0\0\5", b"\0\0\0\0\0\0\0\5"),
    (b"\0\0\0\5", b"\0\0\0\5"),
    (b"[" * 1000, "[" * 1000),
]


@pytest.mark.parametrize("registry", [None, KnownRegistry({})])
def test_payloads_without_a_frame(registry: KnownRegistry | None):
    payloads = [payload for payload, _ in UNFRAMED]
    values = make_decoder("auto", "value", registry=registry).decode("t", payloads)
    assert values == [value for _, value in UNFRAMED]
    assert [json.loads(text) for text in json_texts(values)][4] == [1]


def test_payloads_with_a_frame_are_read_by_the_kind_of_their_schema():
    answers = {
        "/schemas/ids/1": {"schema": '"int"'},
        "/schemas/ids/2": {"schema": "{}", "schemaType": "JSON"},
        "/schemas/ids/3": {"schema": "x", "schemaType": "XML"},
    }
    decoder = make_decoder("auto", "value", registry=KnownRegistry(answers))
    payloads = [b"\0\0\0\0\1\4", b"text", b'\0\0\0\0\2{"a": 1}', b"\0\0\0\0\3x", b"\0\0\0\0\4x", b"\2"]
    values = decoder.decode("t", payloads, [None] * 5 + [b"\0\0\0\0\1"])
    assert values[:3] == [2, "text", {"a": 1}]
    assert values[5] == 1
    assert all(isinstance(value, DecodeError) for value in values[3:5])
    assert str(values[3]) == "auto with schema 3: its schema is one of XML, not of AVRO or PROTOBUF or JSON"
    assert str(values[4]) == "auto: the registry has no schema with id 4"
