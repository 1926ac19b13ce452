"""Formats without a schema: text, JSON, hexadecimal, base64, MessagePack, and the numbers of kcat's pack strings."""

from __future__ import annotations

import binascii
import json
import struct
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

from kcli.errors import ConfigError
from kcli.schemas.contracts import MAX_DEPTH, DecodeError, EncodeError, missing_extra

_JSON_TYPES = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "a boolean",
    int: "a whole number",
    float: "a number with a decimal point",
    type(None): "null",
}


class PlainSerde:
    """A format that one function decodes and one encodes. It is a decoder and an encoder."""

    def __init__(self, name: str, read: Callable[[bytes], Any], write: Callable[[Any], bytes]) -> None:
        """`read` and `write` raise ValueError (UnicodeError, struct.error) with the problem."""
        self.name = name
        self._read = read
        self._write = write

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def decode(
        self, topic: str, payloads: Sequence[bytes | None], schema_headers: Sequence[bytes | None] | None = None
    ) -> list[Any]:
        """Return the value of each payload, as `Decoder.decode` says."""
        read = self._read
        try:
            return [None if payload is None else read(payload) for payload in payloads]
        except Exception:  # one of them does not decode; find out which
            return [None if payload is None else self._decode(payload) for payload in payloads]

    def _decode(self, payload: bytes) -> Any:
        try:
            return self._read(payload)
        except RecursionError:
            return DecodeError(f"{self.name}: the value is nested deeper than {MAX_DEPTH} levels")
        except (ValueError, struct.error) as error:
            return DecodeError(f"{self.name}: {_problem(error)}")

    def encode(self, topic: str, value: Any) -> bytes:
        """Return the payload of a value. Raise EncodeError."""
        try:
            return self._write(value)
        except RecursionError:
            raise EncodeError(f"{self.name}: the value is nested deeper than {MAX_DEPTH} levels") from None
        except (ValueError, struct.error, OverflowError) as error:
            raise EncodeError(f"{self.name}: {_problem(error)}") from None


def plain_serde(name: str) -> PlainSerde:
    """Return the decoder and encoder of a name that `kcli.schemas.serdes` has checked. Raise ConfigError."""
    if name == "json":
        return PlainSerde(name, read_json, _write_json)
    if name == "msgpack":
        return _msgpack()
    if name in _SIMPLE:
        return PlainSerde(name, *_SIMPLE[name])
    return _packed(name)


def _problem(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte 0x{error.object[error.start]:02x} at {error.start} is not valid UTF-8"
    if isinstance(error, UnicodeEncodeError):
        return f"character {error.object[error.start]!r} has no UTF-8 form"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg[:1].lower()}{error.msg[1:]} at character {error.pos}"
    if "integer string conversion" in str(error):  # the limit of Python, against quadratic time
        return "a number has more than 4300 digits"
    return str(error)


def kind_of(value: Any) -> str:
    """Return what a JSON-like value is, with an article, for messages."""
    return _JSON_TYPES.get(type(value), f"a {type(value).__name__}")


# Text


def _text_of(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"the value must be a text, not {kind_of(value)}")
    return value


def _write_base64(value: Any) -> bytes:
    try:
        return b64decode(_text_of(value), validate=True)
    except binascii.Error:
        raise ValueError("the value is not valid base64") from None


def _write_hex(value: Any) -> bytes:
    try:
        return binascii.unhexlify(_text_of(value))
    except (binascii.Error, UnicodeError):
        raise ValueError("the value is not an even number of hexadecimal digits") from None


def _read_base64(payload: bytes) -> str:
    return binascii.b2a_base64(payload, newline=False).decode()


_SIMPLE: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = {
    "string": (bytes.decode, lambda value: _text_of(value).encode()),
    "hex": (bytes.hex, _write_hex),
    "base64": (_read_base64, _write_base64),
}


# JSON


def read_json(payload: bytes) -> Any:
    """Return the value of a JSON text in UTF-8. Raise ValueError, RecursionError."""
    text = payload.decode()
    value = _DECODER.decode(text)
    if text.count("[") + text.count("{") > MAX_DEPTH:
        check_depth(value)
    return value


def check_depth(value: Any) -> None:
    """Raise RecursionError if lists and objects of a value are nested deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            part
            for whole in level
            for part in (whole.values() if isinstance(whole, dict) else whole if isinstance(whole, list) else ())
            if isinstance(part, (dict, list))
        ]
        if not level:
            return
    raise RecursionError


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _write_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


# MessagePack


def _msgpack() -> PlainSerde:
    try:
        import msgpack
    except ImportError:
        raise missing_extra("msgpack", "msgpack") from None

    def read(payload: bytes) -> Any:
        try:
            value = msgpack.unpackb(payload, raw=False, strict_map_key=False, timestamp=3, ext_hook=_extension)
        except msgpack.ExtraData as error:
            raise ValueError(f"{len(error.extra)} bytes follow the value") from None
        except msgpack.StackError:
            raise RecursionError from None
        except (TypeError, OverflowError):
            raise ValueError("a map has a key that is a list or a map, or a time is out of range") from None
        except ValueError as error:
            raise ValueError(str(error) or "the data is not valid MessagePack") from None
        if len(payload) > MAX_DEPTH:
            check_depth(value)
        return value

    def write(value: Any) -> bytes:
        return cast(bytes, msgpack.packb(value, use_bin_type=True))

    return PlainSerde("msgpack", read, write)


def _extension(code: int, data: bytes) -> dict[str, Any]:
    return {"type": code, "data": data}


# Numbers of kcat


def _packed(name: str) -> PlainSerde:
    """Return the format of a pack string. Bytes after the last letter are an error, as with kcat's `$`."""
    order, formats = ">", []
    for letter in name.replace("$", "").replace(" ", ""):
        if letter in "<>":
            order = letter
        else:
            formats.append(order + letter)
    if not formats:
        raise ConfigError(f"pack string {name!r} has no letter; use b B h H i I q Q f d c s")
    if len(formats) == 1 and formats[0][1] not in "sc":
        return PlainSerde(name, *_single(struct.Struct(formats[0])))

    def read(payload: bytes) -> Any:
        values: list[Any] = []
        at = 0
        for form in formats:
            if form[1] == "s":
                values.append(payload[at:].decode())
                at = len(payload)
                continue
            size = struct.calcsize(form)
            if at + size > len(payload):
                raise ValueError(f"{form[1]} needs {size} bytes at {at}, the data has {len(payload)}")
            (value,) = struct.unpack_from(form, payload, at)
            values.append(value.decode("latin-1") if form[1] == "c" else value)
            at += size
        if at < len(payload):
            raise ValueError(f"{len(payload) - at} bytes follow the value")
        return values[0] if len(values) == 1 else values

    def write(value: Any) -> bytes:
        values = [value] if len(formats) == 1 else value
        if not isinstance(values, list) or len(values) != len(formats):
            raise ValueError(f"the value must be a list of {len(formats)}")
        return b"".join(_pack(form, part) for form, part in zip(formats, values, strict=True))

    return PlainSerde(name, read, write)


def _single(form: struct.Struct) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    unpack = form.unpack

    def read(payload: bytes) -> Any:
        try:
            return unpack(payload)[0]
        except struct.error:
            raise ValueError(f"{len(payload)} bytes, not {form.size}") from None

    return read, lambda value: _pack(form.format, value)


def _pack(form: str, value: Any) -> bytes:
    letter = form[1]
    if letter == "s":
        return _text_of(value).encode()
    if letter == "c":
        if not isinstance(value, str) or len(value) != 1 or ord(value) > 255:
            raise ValueError("c needs one character of Latin-1")
        return value.encode("latin-1")
    number = _number_of(value, whole=letter not in "fd")
    try:
        return struct.pack(form, number)
    except (struct.error, OverflowError):
        raise ValueError(f"{number} is out of the range of {letter}") from None


def _number_of(value: Any, *, whole: bool) -> float:
    """Return a number, also of a text that is one: lines of plain text are texts."""
    if isinstance(value, str) and len(value) < 400:
        try:
            return int(value) if whole else float(value)
        except ValueError:
            raise ValueError(f"{value!r} is not a {'whole ' if whole else ''}number") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or (whole and isinstance(value, float)):
        raise ValueError(f"the value must be a {'whole ' if whole else ''}number, not {kind_of(value)}")
    return value
