"""The fields of an X.509 certificate: subject, issuer, names and dates, read from DER. Pure.

Python decodes only certificates that it has verified; errors, `kcli profile check` and the principals of a broker need
others, too. Source: RFC 5280, section 4; RFC 2253 for names as text, as Java's `X500Principal.getName` writes them.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import NamedTuple

_EXTENSIONS, _VERSION = 0xA3, 0xA0
_UTC_TIME, _BMP_STRING, _LATIN_STRING = 0x17, 0x1E, 0x14
_DNS_NAME, _IP_ADDRESS = 0x82, 0x87
_SUBJECT_ALTERNATIVE_NAME = "2.5.29.17"
_COMMON_NAME = "2.5.4.3"
# The attributes that RFC 2253 writes by name; others are written by their number and in hexadecimal.
_ATTRIBUTES = {
    _COMMON_NAME: "CN",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.6": "C",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_OUTER_BLANKS = re.compile(r"^[ \r]+|[ \r]+$")


class Certificate(NamedTuple):
    """The fields of a certificate that kcli uses. `subject` and `issuer` as in RFC 2253: `CN=client,O=Example`.

    `names` are the hosts that it is for: its alternative names, or else its common name.
    """

    subject: str
    issuer: str
    names: tuple[str, ...]
    not_before: datetime
    not_after: datetime


def parse_certificate(der: bytes) -> Certificate:
    """Return the fields of a certificate in DER. Raise ValueError if it is not one."""
    try:
        return _parse(der)
    except (IndexError, StopIteration, ValueError):
        raise ValueError("the bytes are not an X.509 certificate") from None


def _parse(der: bytes) -> Certificate:
    body = next(_elements(next(_elements(der))[1]))[1]
    fields = [field for field in _elements(body) if field[0] != _VERSION]
    _, _, issuer, validity, subject = fields[:5]  # after the serial number and the algorithm of the signature
    not_before, not_after = (_time(*element) for element in _elements(validity[1]))
    extensions = next((value for tag, value in fields if tag == _EXTENSIONS), b"")
    names = tuple(_alternative_names(extensions))
    if not names:
        sets = [_attributes(relative_name) for _, relative_name in _elements(subject[1])]
        names = tuple(_text(*value) for pairs in sets for oid, value in pairs if oid == _COMMON_NAME)
    return Certificate(_name(subject[1]), _name(issuer[1]), names, not_before, not_after)


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (tag, content) of each element in a row."""
    position = 0
    while position < len(data):
        tag, length = data[position], data[position + 1]
        position += 2
        if length >= 0x80:
            size = length - 0x80
            length = int.from_bytes(data[position : position + size], "big")
            position += size
        if position + length > len(data):
            raise IndexError("an element is longer than its container")
        yield tag, data[position : position + length]
        position += length


def _time(tag: int, content: bytes) -> datetime:
    text = content.decode("ascii")
    if tag == _UTC_TIME:  # two digits of the year: 50 to 99 are of the last century
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=timezone.utc)


def _alternative_names(extensions: bytes) -> Iterator[str]:
    for _, extension in _elements(next(_elements(extensions))[1] if extensions else b""):
        parts = list(_elements(extension))
        if _oid(parts[0][1]) != _SUBJECT_ALTERNATIVE_NAME:
            continue
        for tag, content in _elements(next(_elements(parts[-1][1]))[1]):
            if tag == _DNS_NAME:
                yield content.decode("ascii")
            elif tag == _IP_ADDRESS and len(content) in (4, 16):
                yield socket.inet_ntop(socket.AF_INET if len(content) == 4 else socket.AF_INET6, content)


def _attributes(relative_name: bytes) -> Iterator[tuple[str, tuple[int, bytes]]]:
    for _, attribute in _elements(relative_name):
        (_, oid), value = _elements(attribute)
        yield _oid(oid), value


def _name(name: bytes) -> str:
    """Return a name as text, the last attribute first. Attributes of one set are joined by +."""
    parts = []
    for _, relative_name in _elements(name):
        pairs = []
        for oid, (tag, content) in _attributes(relative_name):
            label = _ATTRIBUTES.get(oid)
            raw = bytes([tag]) + _length(content) + content
            pairs.append(f"{label}={_escaped(_text(tag, content))}" if label else f"{oid}=#{raw.hex()}")
        parts.append("+".join(pairs))
    return ",".join(reversed(parts))


def _length(content: bytes) -> bytes:
    count = len(content)
    if count < 0x80:
        return bytes([count])
    size = (count.bit_length() + 7) // 8
    return bytes([0x80 + size]) + count.to_bytes(size, "big")


def _text(tag: int, content: bytes) -> str:
    return content.decode("utf-16-be" if tag == _BMP_STRING else "latin-1" if tag == _LATIN_STRING else "utf-8")


def _escaped(text: str) -> str:
    """Escape as Java does: some characters everywhere, blanks at both ends."""
    shown = "".join(f"\\{c}" if c in ',=+<>#;"\\' else c for c in text).replace("\0", "\\00")
    return _OUTER_BLANKS.sub(lambda blanks: "".join("\\" + blank for blank in blanks[0]), shown)


def _oid(content: bytes) -> str:
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
