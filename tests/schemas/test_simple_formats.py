"""Formats without a schema: what they read and write, and the data that they refuse."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import ConfigError
from kcli.schemas.json_values import json_text
from kcli.schemas.serdes import NAMES, DecodeError, EncodeError, make_decoder, make_encoder
from tests.needs import needs_package


def read(name: str, payload: bytes | None) -> Any:
    (value,) = make_decoder(name, "value").decode("t", [payload])
    return value


def problem(name: str, payload: bytes) -> str:
    value = read(name, payload)
    assert isinstance(value, DecodeError)
    return str(value)


@pytest.mark.parametrize(
    ("name", "payload", "value"),
    [
        ("string", "ä".encode(), "ä"),
        ("string", b"", ""),
        ("json", b' {"a": [1, 2.5, null, true]} ', {"a": [1, 2.5, None, True]}),
        ("hex", b"\x00\xff", "00ff"),
        ("base64", b"ab", "YWI="),
        ("b", b"\xff", -1),
        ("B", b"\xff", 255),
        ("h", b"\x01\x00", 256),
        ("<h", b"\x01\x00", 1),
        ("i", b"\xff\xff\xff\xff", -1),
        ("I", b"\xff\xff\xff\xff", 2**32 - 1),
        ("q$", b"\0\0\0\0\0\0\0\x05", 5),
        ("Q", b"\xff" * 8, 2**64 - 1),
        ("d", b"\x3f\xf8" + bytes(6), 1.5),
        ("<f", b"\0\0\xc0\x3f", 1.5),
        ("c", b"x", "x"),
        ("h<hs", b"\0\1\1\0\xc3\xa4", [1, 1, "ä"]),
    ],
)
def test_formats_read_and_write_their_values(name: str, payload: bytes, value: Any):
    assert read(name, payload) == value
    assert read(name, None) is None
    written = make_encoder(name, "key").encode("t", value)
    assert written == payload or json.loads(written) == value


@pytest.mark.parametrize(
    ("name", "payload", "text"),
    [
        ("string", b"a\xff", "string: byte 0xff at 1 is not valid UTF-8"),
        ("json", b"", "json: expecting value at character 0"),
        ("json", b'{"a": NaN}', "json: NaN is not valid JSON"),
        ("json", b"1 2", "json: extra data at character 2"),
        ("json", b"[" * 200 + b"]" * 200, "json: the value is nested deeper than 128 levels"),
        ("json", b"[" * 100_000, "json: the value is nested deeper than 128 levels"),
        ("i", b"\0\0\1", "i: 3 bytes, not 4"),
        ("i", b"\0\0\0\0\1", "i: 5 bytes, not 4"),
        ("hi", b"\0\1\0", "hi: i needs 4 bytes at 2, the data has 3"),
        ("hb", b"\0\1\0\0", "hb: 1 bytes follow the value"),
    ],
)
def test_other_data_is_an_error_in_the_place_of_the_value(name: str, payload: bytes, text: str):
    assert problem(name, payload) == text


def test_number_with_too_many_digits():
    assert problem("json", b"9" * 5000).startswith("json: a number has more than 4300 digits")


def test_error_of_one_payload_leaves_the_others():
    values = make_decoder("i", "value").decode("t", [b"\0\0\0\1", b"", None, b"\0\0\0\2"])
    assert [values[0], values[2], values[3]] == [1, None, 2]
    assert isinstance(values[1], DecodeError)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("string", 5, "string: the value must be a text, not a whole number"),
        ("hex", "abc", "hex: the value is not an even number of hexadecimal digits"),
        ("base64", "a", "base64: the value is not valid base64"),
        ("i", 2**31, "i: 2147483648 is out of the range of i"),
        ("i", "five", "i: 'five' is not a whole number"),
        ("b", True, "b: the value must be a whole number, not a boolean"),
        ("q", 1.5, "q: the value must be a whole number, not a number with a decimal point"),
        ("hs", [1], "hs: the value must be a list of 2"),
        ("json", float("nan"), "json: Out of range float values are not JSON compliant"),
    ],
)
def test_values_that_a_format_cannot_write(name: str, value: Any, text: str):
    with pytest.raises(EncodeError) as failed:
        make_encoder(name, "value").encode("t", value)
    assert str(failed.value).startswith(text)


def test_numbers_as_text_are_written_as_numbers():
    assert make_encoder("h", "key").encode("t", "-2") == b"\xff\xfe"


@pytest.mark.parametrize("name", ["avrro", "", "<", "x$"])
def test_unknown_name(name: str):
    with pytest.raises(ConfigError, match=r"is not a known format|has no letter"):
        make_decoder(name, "key")


def test_options_that_a_format_does_not_have():
    with pytest.raises(ConfigError, match="json has no schema file"):
        make_decoder("json", "value", schema_file="a.avsc")
    with pytest.raises(ConfigError, match="only protobuf has messages"):
        make_decoder("avro", "value", message="Order")
    with pytest.raises(ConfigError, match="auto only decodes"):
        make_encoder("auto", "value")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_msgpack_keeps_json_values(value: Any):
    needs_package("msgpack")
    payload = make_encoder("msgpack", "value").encode("t", value)
    assert json.loads(json_text(read("msgpack", payload))) == value


def test_msgpack_of_other_types():
    needs_package("msgpack")
    value = read("msgpack", b"\x83\x01\xc4\x01\xff\xa1t\xd6\xff\0\0\0\1\xa1e\xd4\x05x")
    assert json_text(value) == '{"1":"/w==","t":"1970-01-01T00:00:01Z","e":{"type":5,"data":"eA=="}}'


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"", "incomplete input"),
        (b"\xc1", "not valid MessagePack"),
        (b"\1\2", "1 bytes follow the value"),
        (b"\xdd\xff\xff\xff\xff", "exceeds"),
        (b"\x91" * 200 + b"\1", "nested deeper"),
        (b"\x91" * 5000 + b"\1", "nested deeper"),
        (b"\x81\x90\1", "a map has a key that is a list or a map"),
    ],
)
def test_hostile_msgpack(payload: bytes, text: str):
    needs_package("msgpack")
    assert text in problem("msgpack", payload)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("avro", "protobuf", "json-schema", "msgpack")])
@given(payload=st.binary(max_size=40))
def test_any_bytes_give_a_value_with_json_or_an_error(name: str, payload: bytes):
    value = read(name, payload)
    if not isinstance(value, DecodeError):
        json.loads(json_text(value))
