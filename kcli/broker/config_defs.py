"""What a setting is: its type, default and bounds, and how its text is read and told. No settings are named here.

Types, their reading and their numbers in DescribeConfigs: https://kafka.apache.org/documentation/#brokerconfigs,
KIP-226 and KIP-569.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeAlias

from kcli.errors import ConfigError

# The types of settings, by Kafka's names. They annotate a setting's attribute and say how its text is read.
Boolean: TypeAlias = bool
String: TypeAlias = str
Int: TypeAlias = int
Short: TypeAlias = int
Long: TypeAlias = int
Double: TypeAlias = float
List: TypeAlias = tuple[str, ...]

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
_RANGES = {"Int": 31, "Short": 15, "Long": 63}
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
TYPE_NUMBERS = {"Boolean": 1, "String": 2, "Int": 3, "Short": 4, "Long": 5, "Double": 6, "List": 7}


class Update(Enum):
    """Whether a setting can be changed while the broker runs, and for whom."""

    READ_ONLY = "read-only"
    CLUSTER_WIDE = "cluster-wide"


class Option:
    """One setting. `kind` is a name of the types above; a default of None means that it is not set."""

    __slots__ = (
        "but_not",
        "default",
        "heeded",
        "internal",
        "kind",
        "least",
        "most",
        "name",
        "one_of",
        "synonyms",
        "update",
    )

    def __init__(
        self,
        default: Any,
        *,
        name: str = "",
        kind: str = "",
        least: float | None = None,
        most: float | None = None,
        but_not: tuple[int, ...] = (),
        one_of: tuple[str, ...] = (),
        update: Update = Update.READ_ONLY,
        heeded: bool = True,
        internal: bool = False,
        synonyms: Mapping[str, int] | None = None,
    ) -> None:
        """`one_of` bounds a string or the parts of a list. What is not `heeded` is accepted and changes nothing.
        What is `internal` is not told to clients unless it is set.

        `synonyms` of a topic's setting are the broker's that give its default, first come first served, each with
        the factor that turns its unit into the topic's.
        """
        self.default = default
        self.name = name
        self.kind = kind
        self.least = least
        self.most = most
        self.but_not = but_not
        self.one_of = one_of
        self.update = update
        self.heeded = heeded
        self.internal = internal
        self.synonyms = synonyms or {}

    def __repr__(self) -> str:
        return f"<Option {self.name} {self.kind} default={self.default!r}>"

    def parse(self, text: str) -> Any:
        """The value that a text stands for. ConfigError, one sentence, if it stands for none or is out of bounds."""
        value = _READERS[self.kind](self, text.strip())
        self._check_bounds(value)
        return value

    def _check_bounds(self, value: Any) -> None:
        if self.least is not None and value < self.least:
            raise ConfigError(f"{self.name} must be at least {show(self.least)}, not {show(value)}")
        if self.most is not None and value > self.most:
            raise ConfigError(f"{self.name} must be at most {show(self.most)}, not {show(value)}")
        if value in self.but_not:
            raise ConfigError(f"{self.name} cannot be {show(value)}")
        if self.one_of:
            for part in value if isinstance(value, tuple) else (value,):
                if part not in self.one_of:
                    raise ConfigError(f"{self.name} must be one of {', '.join(self.one_of)}, not {part!r}")

    def refuse(self, text: str, what: str) -> ConfigError:
        """The error for a text that is not `what`."""
        return ConfigError(f"{self.name} must be {what}, not {text!r}")


def _read_boolean(option: Option, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise option.refuse(text, "true or false")
    return text.lower() == "true"


def _read_string(option: Option, text: str) -> str:
    return text


def _read_integer(option: Option, text: str) -> int:
    if not _INTEGER.match(text):
        raise option.refuse(text, "a whole number")
    value = int(text) if len(text) < 30 else 10**30
    bits = _RANGES[option.kind]
    if not -(2**bits) <= value < 2**bits:
        raise option.refuse(text, f"a whole number of {bits + 1} bits")
    return value


def _read_double(option: Option, text: str) -> float:
    try:
        if "_" in text:
            raise ValueError
        return float(text)
    except ValueError:
        raise option.refuse(text, "a number") from None


def _read_list(option: Option, text: str) -> tuple[str, ...]:
    """Without what comes again, as Apache Kafka reads lists since 4.1 (KIP-1161)."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(","))) if text else ()


_READERS: dict[str, Any] = {
    "Boolean": _read_boolean,
    "String": _read_string,
    "Int": _read_integer,
    "Short": _read_integer,
    "Long": _read_integer,
    "Double": _read_double,
    "List": _read_list,
}


def show(value: Any) -> str:
    """A value as Kafka writes it: true, a comma list, the plain number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return ",".join(value)
    return str(value)


def option(default: Any, **how: Any) -> Any:
    """Declare a setting as a class attribute: `num_partitions: Int = option(1, least=1)`. See Option."""
    return Option(default, **how)


def declared(cls: type) -> dict[str, Option]:
    """The settings that a class declares, by Kafka's name: the attribute's with dots."""
    found: dict[str, Option] = {}
    for attribute, kind in cls.__annotations__.items():
        given = cls.__dict__.get(attribute)
        if isinstance(given, Option):
            given.name = attribute.replace("_", ".")
            given.kind = kind.split(" ")[0]
            found[given.name] = given
    return found


def nearest(name: str, names: Mapping[str, Any]) -> str:
    """ "; did you mean x?" for a name that was mistyped, or nothing."""
    import difflib

    found = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {found[0]}?" if found else ""
