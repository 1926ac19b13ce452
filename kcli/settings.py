"""Typed settings: name, type, default, bounds, parser and error text in one definition. Ground: errors and text only.

The client's properties, the broker's and topics' settings, and the options of the Spark source are all `Setting`s. The
types and the grammar of their text are Kafka's (org.apache.kafka.common.config.ConfigDef, KIP-226, KIP-569, KIP-1161).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeAlias, TypeVar

from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.text import format_alternatives

# Kafka's names of the types. They annotate the attribute of a setting and select its parser.
Boolean: TypeAlias = bool
String: TypeAlias = str
Int: TypeAlias = int
Short: TypeAlias = int
Long: TypeAlias = int
Double: TypeAlias = float
List: TypeAlias = tuple[str, ...]
Password: TypeAlias = Secret

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

#: Default of max.decompressed.batch.bytes, in clients and brokers.
MAX_DECOMPRESSED_BYTES = 256 << 20

#: A value as a caller gives it: text as in a properties file, or a plain Python value.
Value: TypeAlias = str | int | bool | float | Secret | Iterable[str]

_BITS = {"Short": 16, "Int": 32, "Long": 64}
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_NUMBER_LIKE = re.compile(r"[+-]?[0-9][0-9._]*([A-Za-z]{0,4}|[eE][+-]?[0-9]+)\Z|\Z")
_SECRET = ("password", "passphrase", "jaas", "secret", "token", "credential", "keystore.key", ".pem")
S = TypeVar("S", bound="Settings")


class Setting:
    """One setting. `kind` is the name of one of the types above; a default of None means that it is not set."""

    __slots__ = (
        "at_least",
        "at_most",
        "choices",
        "custom_parse",
        "default",
        "doc",
        "excluded",
        "ignore_case",
        "kind",
        "name",
    )

    def __init__(
        self,
        default: Any,
        doc: str = "",
        *,
        name: str = "",
        kind: str = "",
        at_least: float | None = None,
        at_most: float | None = None,
        excluded: tuple[int, ...] = (),
        choices: tuple[str, ...] = (),
        ignore_case: bool = False,
        parse: Callable[[str, str], Any] | None = None,
    ) -> None:
        """`choices` bound a string or each element of a list; with `ignore_case` the value is spelled as in `choices`.

        `parse` replaces the parser of the type: it takes the name and the text, and raises ConfigError.
        """
        self.default = default
        self.doc = doc
        self.name = name
        self.kind = kind
        self.at_least = at_least
        self.at_most = at_most
        self.excluded = excluded
        self.choices = choices
        self.ignore_case = ignore_case
        self.custom_parse = parse

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.kind} default={self.default!r}>"

    def parse(self, value: Value) -> Any:
        """Return the typed value. Raise ConfigError, one sentence, if it is malformed or out of bounds."""
        text = format_value(value).strip()
        if self.kind == "Password":
            return Secret(text)
        if self.custom_parse is not None:
            return self.custom_parse(self.name, text)
        if self.kind == "Boolean":
            return self._parse_boolean(text)
        if self.kind in _BITS or self.kind == "Double":
            return self._parse_number(text)
        if self.kind == "List":
            # Duplicates are dropped, as in Kafka since 4.1 (KIP-1161).
            parts = dict.fromkeys(part.strip() for part in text.split(",")) if text else ()
            return tuple(self._choose(part, text) for part in parts)
        return self._choose(text, text)

    def _parse_boolean(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise invalid_value(self.name, text, "true or false")
        return text.lower() == "true"

    def _parse_number(self, text: str) -> float:
        number = _float(text) if self.kind == "Double" else _integer(text)
        low, high = self._bounds()
        if number is None or not low <= number <= high or number in self.excluded:
            raise invalid_number(self.name, text, self._numbers_allowed())
        return number

    def _bounds(self) -> tuple[float, float]:
        bits = _BITS.get(self.kind)
        low = float("-inf") if bits is None else -(2 ** (bits - 1))
        high = float("inf") if bits is None else 2 ** (bits - 1) - 1
        return low if self.at_least is None else self.at_least, high if self.at_most is None else self.at_most

    def _numbers_allowed(self) -> str:
        low, high = self._bounds()
        noun = "a number" if self.kind == "Double" else "a whole number"
        but = f", except {' and '.join(map(str, self.excluded))}" if self.excluded else ""
        return f"{noun} from {low} to {high}{but}"

    def _choose(self, text: str, whole: str) -> str:
        if not self.choices or text in self.choices:
            return text
        for choice in self.choices if self.ignore_case else ():
            if choice.lower() == text.lower():
                return choice
        raise invalid_value(self.name, whole, format_alternatives(self.choices))


def setting(default: Any, doc: str = "", **definition: Any) -> Any:
    """Declare a setting in the body of a `Settings` class; its annotation is its type. Arguments as of `Setting`."""
    return Setting(default, doc, **definition)


def invalid_value(name: str, text: str, allowed: str) -> ConfigError:
    """The error for the value of a setting, in the one form that all settings share.

    A value with an equals sign is not shown: if a line break is lacking in a file, the next property with its password
    is part of the value.
    """
    shown = "the value" if "=" in text else repr(text)
    return ConfigError(f"{name}: {shown} is not valid; use {allowed}")


def invalid_number(name: str, text: str, allowed: str) -> ConfigError:
    """The error for a text that is not an allowed number.

    A text that does not resemble a number is not shown: it may have been meant for another setting, such as a password.
    """
    return invalid_value(name, text if _NUMBER_LIKE.match(text) else "=", allowed)


def format_value(value: Any) -> str:
    """A value as Kafka writes it: true, a list with commas, the plain number. A secret is revealed."""
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return ",".join(value)
    return str(value)


def is_secret(name: str) -> bool:
    """True if the value of this setting must not be printed."""
    return any(word in name.lower() for word in _SECRET)


def _integer(text: str) -> int | None:
    """None also for more digits than any type holds: Python refuses to convert thousands of them."""
    return int(text) if len(text) < 30 and _INTEGER.match(text) else None


def _float(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


class Settings:
    """Immutable values of the settings that a subclass declares; attribute = Kafka's name, dots as underscores.

    `given` holds the texts that were given, by Kafka's name, and a `Secret` for each that may be one; `unknown` names
    those that no definition has.
    """

    SETTINGS: ClassVar[dict[str, Any]] = {}
    given: dict[str, Any]
    unknown: tuple[str, ...]

    def __init_subclass__(cls) -> None:
        cls.SETTINGS = dict(cls.SETTINGS)
        for attribute, definition in list(vars(cls).items()):
            if isinstance(definition, Setting):
                definition.name = attribute.replace("_", ".")
                definition.kind = cls.__annotations__[attribute].split(" ")[0]
                cls.SETTINGS[definition.name] = definition

    @classmethod
    def from_properties(cls: type[S], properties: Mapping[str, Value | None]) -> S:
        """Parse and check; a setting that is absent or None has its default. Raise ConfigError, one sentence."""
        given = {name: value for name, value in properties.items() if value is not None}
        settings = cls.__new__(cls)
        values = vars(settings)
        for name, definition in cls.SETTINGS.items():
            values[name.replace(".", "_")] = definition.parse(given[name]) if name in given else definition.default
        texts = {name: format_value(value) for name, value in given.items()}
        values["given"] = {name: Secret(text) if cls.is_secret(name) else text for name, text in texts.items()}
        values["unknown"] = tuple(name for name in given if name not in cls.SETTINGS and not cls.is_known(name))
        values.update(settings.adjusted())
        settings.check()
        return settings

    def with_properties(self: S, properties: Mapping[str, Value | None]) -> S:
        """Return a copy with some settings replaced; None restores the default."""
        return type(self).from_properties({**self.given, **properties})

    def value(self, name: str) -> Any:
        """The value of a setting by Kafka's name. Raise KeyError for an unknown name."""
        if name not in self.SETTINGS:
            raise KeyError(name)
        return getattr(self, name.replace(".", "_"))

    @classmethod
    def is_secret(cls, name: str) -> bool:
        """True if the value of this setting must not be printed; of an unknown name, too: it may be misspelled."""
        if name in cls.SETTINGS:
            return bool(cls.SETTINGS[name].kind == "Password")
        return is_secret(name) or not cls.is_known(name)

    @classmethod
    def is_known(cls, name: str) -> bool:
        """True if a name without a definition here is a real one, so that a caller may set it on purpose."""
        return False

    def adjusted(self) -> dict[str, Any]:
        """Values that follow from other values, by attribute."""
        return {}

    def check(self) -> None:
        """Raise ConfigError when values contradict each other."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; {name} can be set in a copy by with_properties()")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = (f" {name}={text}" for name, text in self.given.items())
        return f"<{type(self).__name__}{''.join(shown)}>"
