"""Varints compared with the protocol guide and Java's ByteUtils, and bounded spans."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import ProtocolError
from kcli.protocol.primitives import (
    end_of,
    read_unsigned_varint,
    read_varint,
    read_varlong,
    text,
    text_bytes,
    unsigned_varint,
    varlong,
)

UNSIGNED = {
    0: "00",
    127: "7f",
    128: "8001",
    8191: "ff3f",
    8192: "8040",
    2**31 - 1: "ffffffff07",
    2**32 - 1: "ffffffff0f",
}
SIGNED = {0: "00", -1: "01", 1: "02", 63: "7e", -64: "7f", 64: "8001", 2**31 - 1: "feffffff0f", -(2**31): "ffffffff0f"}
LONG = {**SIGNED, 2**31: "8080808010", 2**63 - 1: "feffffffffffffffff01", -(2**63): "ffffffffffffffffff01"}


@pytest.mark.parametrize(
    ("read", "write", "known"),
    [
        (read_unsigned_varint, unsigned_varint, UNSIGNED),
        (read_varint, varlong, SIGNED),
        (read_varlong, varlong, LONG),
    ],
    ids=["unsigned", "int", "long"],
)
def test_known_varints_both_ways(read, write, known) -> None:
    for value, written in known.items():
        data = bytes.fromhex(written)
        assert write(value) == data
        assert read(b"\xff" + data + b"\xff", 1) == (value, 1 + len(data))
        for length in range(len(data)):
            with pytest.raises(ProtocolError, match="the bytes end inside a varint"):
                read(data[:length], 0)


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (read_unsigned_varint, "ffffffff10"),  # 33 bits
        (read_unsigned_varint, "ffffffffff"),  # never ends
        (read_varint, "ffffffff1f"),
        (read_varint, "808080808000"),  # padded beyond five bytes
        (read_varlong, "ffffffffffffffffff02"),  # 65 bits
        (read_varlong, "ffffffffffffffffffff01"),
    ],
)
def test_varints_that_are_too_long_are_errors(read, data: str) -> None:
    with pytest.raises(ProtocolError, match="does not fit in") as caught:
        read(b"\0\0" + bytes.fromhex(data), 2)
    assert caught.value.evidence["position"] == 2


@pytest.mark.parametrize(("write", "value"), [(unsigned_varint, -1), (unsigned_varint, 2**32), (varlong, -(2**63) - 1)])
def test_numbers_that_do_not_fit_in_a_varint_are_errors(write, value: int) -> None:
    with pytest.raises(ProtocolError, match="does not fit in"):
        write(value)


@given(st.integers(0, 2**32 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
def test_any_varint_is_decoded_as_encoded(unsigned: int, signed: int, long: int) -> None:
    assert read_unsigned_varint(unsigned_varint(unsigned), 0)[0] == unsigned
    assert read_varint(varlong(signed), 0)[0] == signed
    assert read_varlong(varlong(long), 0)[0] == long


def test_a_span_must_end_inside_the_buffer() -> None:
    assert end_of("a key", b"12345", 2, 3) == 5
    with pytest.raises(ProtocolError, match="the length of a key is 4 bytes, but only 3 are left") as caught:
        end_of("a key", b"12345", 2, 4)
    assert caught.value.evidence["position"] == 2
    with pytest.raises(ProtocolError):
        end_of("a key", b"12345", 2, -1)


def test_text_is_valid_utf8_of_bounded_length() -> None:
    assert text(memoryview(b"xx\xc3\xbcx"), 2, 4) == "ü"
    assert text_bytes("ü" * 100) == b"\xc3\xbc" * 100
    with pytest.raises(ProtocolError, match="not valid UTF-8"):
        text(b"\xff\xfe", 0, 2)
    with pytest.raises(ProtocolError, match="longer than the 32767"):
        text_bytes("x" * 32768)
    with pytest.raises(ProtocolError, match="cannot be encoded as UTF-8"):
        text_bytes("\udcff")  # what Python makes of a command-line argument that is not UTF-8
