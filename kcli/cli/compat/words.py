"""Command lines split as Apache's tools do it (JOpt Simple 5, without abbreviations). Pure.

An option takes one dash or two, its value behind `=` or as the next word, whatever that looks like; one whose value may
be left out takes the next word unless that begins with a dash. Words that belong to no option are ignored, and so are
all words after `--`. What an option's value must look like is asked when it is used, not before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from kcli.cli.compat.problems import Failed, Misused

_NUMBER = re.compile(r"[+-]?[0-9]+")
_LONGEST = 2**63


class Option(NamedTuple):
    """`value`: "none", "required" or "optional"; `metavar` and `help` are for people.

    `only_with`: the option is of use only beside one of these.
    """

    name: str
    help: str
    value: Literal["none", "required", "optional"] = "none"
    metavar: str = ""
    only_with: tuple[str, ...] = ()
    repeatable: bool = False


class Given:
    """The options of one command line, with their values."""

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}

    def __repr__(self) -> str:
        return f"<Given {self._values}>"

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def add(self, name: str, value: str | None) -> None:
        """An option as it comes; without a value it is only there."""
        values = self._values.setdefault(name, [])
        if value is not None:
            values.append(value)

    def any_of(self, names: Iterable[str]) -> list[str]:
        """Those of these options that are there."""
        return [name for name in names if name in self]

    def values(self, name: str) -> list[str]:
        """Every value of an option that may be repeated."""
        return self._values.get(name, [])

    def value(self, name: str) -> str | None:
        """The value of an option that may not; None if it is not there, or came without."""
        values = self.values(name)
        if len(values) > 1:
            raise Failed(f"Found multiple arguments for option {name}, but you asked for only one", 2)
        return values[0] if values else None

    def number(self, name: str) -> int | None:
        """The same as a number of 64 bits."""
        text = self.value(name)
        if text is None:
            return None
        if not _NUMBER.fullmatch(text) or not -_LONGEST <= int(text) < _LONGEST:
            raise Failed(f"Cannot parse argument '{text}' of option {name}", 2)
        return int(text)


def split(words: Sequence[str], options: Mapping[str, Option]) -> Given:
    """What was given. Misused for an option that is not known, lacks its value or stands where it is of no use."""
    given = Given()
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word == "--":
            break
        if not _is_option(word):
            continue
        name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        if name not in options:
            raise Misused(f"{name if word.startswith('--') else word[1]} is not a recognized option")
        given.add(name, value if equals else _next(options[name], rest))
    _check_company(given, options.values())
    return given


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _next(option: Option, rest: list[str]) -> str | None:
    """The value of an option that has none behind `=`."""
    if option.value == "required":
        if not rest:
            raise Misused(f"Option {option.name} requires an argument")
        return rest.pop()
    if option.value == "optional" and rest and not (_is_option(rest[-1]) or rest[-1] == "--"):
        return rest.pop()
    return None


def _check_company(given: Given, options: Iterable[Option]) -> None:
    alone = [it.name for it in options if it.name in given and it.only_with and not given.any_of(it.only_with)]
    if alone and "help" not in given:
        raise Misused(f"Option(s) [{', '.join(alone)}] are unavailable given other options on the command line")
