"""Principals of client certificates: their names as Java writes them, and `ssl.principal.mapping.rules` (KIP-371).

Pure. A name is in the form of RFC 2253 with the escapes of Java's X500Principal: rules are written for that form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kcli.errors import ConfigError

SETTING = "ssl.principal.mapping.rules"

# The attributes to which RFC 2253 gives a keyword; the others are written with their number.
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_SEQUENCE, _SET, _VERSION_TAG = 0x30, 0x31, 0xA0
# ASN.1 string types and their encodings; Java writes every other type as hexadecimal digits.
_ENCODINGS = {12: "utf-8", 19: "latin-1", 20: "latin-1", 22: "latin-1", 27: "latin-1", 28: "utf-32-be", 30: "utf-16-be"}
_ESCAPED = re.compile(r'([,=+<>#;"\\])')
_OUTER_BLANKS = re.compile(r"^[ \r]+|[ \r]+$")

_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_REFERENCE = re.compile(r"\\(.)|\$(\d)|\$\{(\w+)\}", re.DOTALL)
_NAMED_GROUP = re.compile(r"\(\?<(?=[A-Za-z])")


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None  # None: the whole name
    template: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        result = match.expand(self.template)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result


class PrincipalMapping:
    """The rules of one listener. ConfigError if they are malformed."""

    def __init__(self, rules: str) -> None:
        self._rules = list(_parse_rules(rules))

    def __repr__(self) -> str:
        return f"<PrincipalMapping {len(self._rules)} rules>"

    def name(self, distinguished_name: str) -> str | None:
        """Return the user of the first rule that matches; None without one, which refuses the connection."""
        return next((user for rule in self._rules if (user := rule.apply(distinguished_name)) is not None), None)


def _parse_rules(text: str) -> Iterator[_Rule]:
    at = 0
    while at < len(text):
        match = _RULE.match(text, at)
        if match is None:
            raise ConfigError(f"{SETTING}: {text[at:]!r} is not valid; use DEFAULT or RULE:PATTERN/REPLACEMENT/[LU]")
        at = match.end()
        default, pattern, replacement, case = match.groups()
        if default:
            yield _Rule(None, "", "")
            continue
        try:
            compiled = re.compile(_NAMED_GROUP.sub("(?P<", pattern), re.ASCII)
            template = _REFERENCE.sub(_python_reference, replacement)
            compiled.sub(template, "")
            _check_template(compiled, template)
        except (re.error, IndexError):
            raise ConfigError(f"{SETTING}: {match[0].strip()!r} has no valid pattern or replacement") from None
        yield _Rule(compiled, template, case)


def _python_reference(reference: re.Match[str]) -> str:
    literal, number, name = reference.groups()
    if literal is not None:
        return literal if literal != "\\" else r"\\"
    return rf"\g<{number or name}>"


def _check_template(pattern: re.Pattern[str], template: str) -> None:
    """Raise re.error for a reference to a group that the pattern does not have."""
    for group in re.findall(r"\\g<(\w+)>", template):
        if group not in pattern.groupindex and not (group.isdigit() and int(group) <= pattern.groups):
            raise re.error(f"no group {group}")


def distinguished_name(certificate: bytes) -> str:
    """Return the subject of a certificate in DER, such as `CN=alice,OU=Sales,O=Example\\, Inc.`. ValueError if damaged.

    The last element comes first.
    """
    try:
        [whole] = _elements(certificate)
        fields = _elements(next(_elements(whole.content)).content)
        first = next(fields)
        to_subject = 4 if first.tag == _VERSION_TAG else 3  # serial, signature, issuer, validity before it
        for _ in range(to_subject):
            next(fields)
        subject = next(fields)
        names = [_relative_name(one.content) for one in _elements(subject.content)]
    except (StopIteration, IndexError, ValueError):
        raise ValueError("the certificate is damaged") from None
    return ",".join(reversed(names))


class _Element(NamedTuple):
    tag: int
    content: bytes
    encoded: bytes


def _elements(data: bytes) -> Iterator[_Element]:
    """Yield the ASN.1 elements in DER, one after the other."""
    at = 0
    while at < len(data):
        tag, size, start = data[at], data[at + 1], at + 2
        if size & 0x80:
            start += size & 0x7F
            size = int.from_bytes(data[at + 2 : start], "big")
        end = start + size
        if end > len(data):
            raise IndexError("an element is longer than its parent")
        yield _Element(tag, data[start:end], data[at:end])
        at = end


def _relative_name(content: bytes) -> str:
    pairs = []
    for attribute in _elements(content):
        kind, value = _elements(attribute.content)
        number = _object_number(kind.content)
        pairs.append(f"{_KEYWORDS.get(number, number)}={_value(number, value)}")
    return "+".join(pairs)


def _value(number: str, value: _Element) -> str:
    encoding = _ENCODINGS.get(value.tag)
    if number not in _KEYWORDS or encoding is None:
        return "#" + value.encoded.hex()
    text = _ESCAPED.sub(r"\\\1", value.content.decode(encoding)).replace("\0", "\\00")
    return _OUTER_BLANKS.sub(lambda blanks: "".join("\\" + blank for blank in blanks[0]), text)


def _object_number(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
