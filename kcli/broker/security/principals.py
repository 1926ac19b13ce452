"""Principals from the names of client certificates, by `ssl.principal.mapping.rules` (KIP-371). Pure.

A name is in the form of RFC 2253 with the escapes of Java's X500Principal, as `kcli.network.certificate` returns it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kcli.errors import ConfigError
from kcli.text import compile_regex

SETTING = "ssl.principal.mapping.rules"

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
            compiled = compile_regex(_NAMED_GROUP.sub("(?P<", pattern), re.ASCII)
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
