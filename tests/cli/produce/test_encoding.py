"""Records encoded with -s: text and JSON in delimited input, nested values in JSON lines, and failures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.cli.consume.decoding import make_decoding
from kcli.cli.consume.options import DecodeOptions
from kcli.cli.consume.printing import RenderOptions, make_renderer
from kcli.cli.produce.encoding import Encoding, make_encoding
from kcli.cli.produce.feed import ParsingEnded, WriteTally
from kcli.cli.produce.options import EncodeOptions
from kcli.cli.produce.records import Shape, jsonl_parser, raw_parser
from kcli.errors import ConfigError
from kcli.protocol.records.record import NewRecords
from kcli.schemas.schema import RegistryUnavailable
from kcli.structs import TopicPartition
from tests.cli.consume.data import columns, record

P0 = TopicPartition("orders", 0)
NOW = 1_700_000_000_000


def encoding(*serdes: str, **options: Any) -> Encoding:
    return make_encoding(EncodeOptions(list(serdes), **options), "orders", lambda: None)


KEYED = Shape(key_delimiter=b":")


def raw(lines: Sequence[bytes], *serdes: str, shape: Shape = KEYED) -> tuple[list[Any], list[str]]:
    """The keys and values of the records of delimited lines, and the failures."""
    tally = WriteTally()
    records = raw_parser(shape, None, tally, encoding(*serdes))(lines, NOW)
    return pairs(records), failures(tally)


def jsonl(*lines: dict[str, Any] | bytes, serdes: Sequence[str]) -> tuple[list[Any], list[str]]:
    tally = WriteTally()
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    records = jsonl_parser((), None, tally, encoding(*serdes) if serdes else None)(texts, NOW)
    return pairs(records), failures(tally)


def pairs(records: NewRecords) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records.rows()]


def failures(tally: WriteTally) -> list[str]:
    assert tally.read == tally.failed
    return tally.failure_lines()


class Failing:
    """An encoder whose registry fails at one value."""

    name = "avro"

    def encode(self, topic: str, value: Any) -> bytes:
        if value == 150:
            raise RegistryUnavailable("registry: not reachable")
        return b"%d" % value


@pytest.mark.parametrize(("kind", "place"), [("jsonl", "line 151"), ("raw", "record 151")])
def test_an_error_of_the_registry_keeps_the_records_before_and_names_the_line(kind: str, place: str) -> None:
    tally, encoders = WriteTally(), Encoding("orders", {"value": Failing()})  # type: ignore[dict-item]
    if kind == "jsonl":
        parse = jsonl_parser([("all", b"1")], None, tally, encoders)
        lines = [b'{"value": %d}' % number for number in range(300)]
    else:
        parse = raw_parser(Shape(headers=[("all", b"1")]), None, tally, encoders)
        lines = [b"%d" % number for number in range(300)]
    with pytest.raises(ParsingEnded) as caught:
        parse(lines, NOW)
    rows = list(caught.value.records.rows())
    assert [row.value for row in rows] == [b"%d" % number for number in range(150)]
    assert {tuple(row.headers) for row in rows} == {(("all", b"1"),)}
    assert (str(caught.value.error), type(caught.value.error)) == (
        f"{place} of the input: registry: not reachable",
        RegistryUnavailable,
    )


def test_text_becomes_numbers_and_bytes() -> None:
    assert raw([b"-1:00ff"], "key=q", "value=hex") == ([(b"\xff" * 8, b"\x00\xff")], [])
    assert raw([b"AP8=:7"], "key=base64", "value=<i") == ([(b"\x00\xff", b"\x07\0\0\0")], [])


def test_json_of_delimited_input_is_checked_and_sent_as_it_is() -> None:
    records, errors = raw([b'k:{"a": [1.10, 2]}', b"k:{", b"k:\xff", b'k:"\xc3\xbc"'], "value=json")
    assert records == [(b"k", b'{"a": [1.10, 2]}'), (b"k", b'"\xc3\xbc"')]
    assert len(errors) == 1
    assert errors[0].startswith("2 records not stored: record 2 of the input: value: not JSON: ")


def test_several_letters_of_a_pack_string_take_a_list() -> None:
    assert raw([b'[1,"x"]'], "value=hs", shape=Shape())[0] == [(None, b"\0\1x")]


def test_one_name_is_for_keys_and_values_and_null_stays_null() -> None:
    shape = Shape(key_delimiter=b":", empty_is_null=True)
    assert raw([b"1:2", b"1:", b":"], "b", shape=shape) == ([(b"\1", b"\2"), (b"\1", None), (None, None)], [])


def test_json_lines_have_nested_values() -> None:
    lines = ({"key": 5, "value": {"a": 1}}, {"key": 6, "value": None}, {"key": 7})
    records, errors = jsonl(*lines, serdes=["key=b", "value=json"])
    assert records == [(b"\5", b'{"a":1}'), (b"\6", None), (b"\7", None)]
    assert errors == []


def test_a_value_that_did_not_decode_keeps_its_bytes() -> None:
    line = {"key": "k", "value": None, "value_raw": "/w==", "value_raw_encoding": "base64", "value_error": "json: bad"}
    for serdes in (["value=json"], []):
        assert jsonl(line, serdes=serdes) == ([(b"k", b"\xff")], [])


def test_a_nested_value_without_an_encoder_names_the_option() -> None:
    _, errors = jsonl({"value": {"a": 1}}, serdes=[])
    assert errors == [
        '1 record not stored: line 1 is not a record in JSON: "value" is neither a string nor null; '
        "use -s value=json to encode it"
    ]


def test_a_value_that_cannot_be_encoded_is_a_failure_and_the_others_are_sent() -> None:
    records, errors = jsonl({"value": 1}, {"value": 300}, {"value": "x"}, {"value": 2}, serdes=["value=b"])
    assert records == [(None, b"\1"), (None, b"\2")]
    assert errors == ["2 records not stored: line 2: value: b: 300 is out of the range of b"]


@pytest.mark.parametrize(
    ("serdes", "options", "message"),
    [
        (["value=json"], {"schema_id": ["3"]}, "--schema-id for the value requires a format with a schema"),
        ([], {"subject": ["key=S"]}, "--subject for the key requires a format with a schema, such as -s key=avro"),
        (["value=avro"], {"schema_id": ["x"]}, "--schema-id: 'x' is not valid; use the number of a schema"),
        (["avro"], {"register": True}, "--register requires --schema-file, the schema to register"),
        (["auto"], {}, "key encoder: auto only decodes"),
    ],
)
def test_options_that_are_not_valid(serdes: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        encoding(*serdes, **options)
    assert str(error.value).startswith(message)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(), parts, max_size=3),
    max_leaves=8,
)
PAYLOADS = st.none() | st.binary(max_size=12) | VALUES.map(lambda value: json.dumps(value).encode())


@settings(max_examples=60)
@given(
    payloads=st.lists(PAYLOADS, min_size=1, max_size=5),
    names=st.tuples(*[st.sampled_from(["string", "json", "hex", "base64", "b", "<q", "hs"])] * 2),
)
def test_a_copy_by_json_lines_has_the_same_keys_and_values(
    payloads: list[bytes | None], names: tuple[str, str]
) -> None:
    serdes = [f"key={names[0]}", f"value={names[1]}"]
    decoding = make_decoding(
        DecodeOptions(serdes), lambda: None, lambda sentence: None, shows_errors=True, limit_s=60.0
    )
    batch = columns(*(record(payload, payload) for payload in payloads))
    printed = make_renderer(RenderOptions("jsonl", decoders=decoding.sides)).render(P0, decoding.apply(P0, batch))
    lines = bytes(printed).removesuffix(b"\n").split(b"\n")
    assert len(lines) == len(payloads)
    tally = WriteTally()
    copies = jsonl_parser((), None, tally, encoding(*serdes))(lines, NOW)
    assert tally.failure_lines() == []
    for payload, copy in zip(payloads, copies.rows(), strict=True):
        for name, copied in zip(names, (copy.key, copy.value), strict=True):
            assert canonical(name, copied) == canonical(name, payload)


def canonical(name: str, payload: bytes | None) -> Any:
    """The payload; of valid JSON its value."""
    if name == "json" and payload is not None:
        with suppress(ValueError):
            return repr(json.loads(payload))
    return payload
