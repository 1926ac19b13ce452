"""Typed settings under Kafka's property names: how one property is declared, parsed and refused. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kcli.errors import ConfigError

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

Value = str | int | bool | float
S = TypeVar("S", bound="Settings")


class Property:
    """One property: Kafka's name, the type of its value, its default, its bounds, and a line for a person."""

    name: str
    kind: str

    def __init__(
        self,
        default: Any,
        doc: str,
        at_least: int | None,
        at_most: int,
        choices: tuple[str, ...],
        parse: Callable[[str, str], Any] | None,
    ) -> None:
        self.default = default
        self.doc = doc
        self.at_least = at_least
        self.at_most = at_most
        self.choices = choices
        self.custom_parse = parse

    def __repr__(self) -> str:
        return f"<Property {self.name} {self.kind} default={self.default}>"

    def parse(self, raw: Value) -> Any:
        """The typed value of `raw`; ConfigError when it is malformed or out of bounds."""
        text = str(raw).strip()
        if self.custom_parse is not None:
            return self.custom_parse(self.name, text)
        value = _PARSERS[self.kind](self.name, text)
        if self.choices:
            return self._choose(text)
        if self.kind == "int":
            self._check_bounds(value)
        return value

    def _choose(self, text: str) -> str:
        for choice in self.choices:
            if choice.lower() == text.lower():
                return choice
        raise ConfigError(f"{self.name}={text} is not one of {', '.join(self.choices)}")

    def _check_bounds(self, value: int) -> None:
        if self.at_least is not None and value < self.at_least:
            raise ConfigError(f"{self.name}={value} is below {self.at_least}")
        if value > self.at_most:
            raise ConfigError(f"{self.name}={value} is above {self.at_most}")


def prop(
    default: Any,
    doc: str,
    *,
    at_least: int | None = None,
    at_most: int = INT_MAX,
    choices: tuple[str, ...] = (),
    parse: Callable[[str, str], Any] | None = None,
) -> Any:
    """Declare a property in the body of a `Settings` class; its annotation is its type."""
    return Property(default, doc, at_least, at_most, choices, parse)


def _parse_bool(name: str, text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ConfigError(f"{name}={text} is neither true nor false")


def _parse_int(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{name}={text} is not a whole number") from None


_PARSERS: dict[str, Callable[[str, str], Any]] = {
    "bool": _parse_bool,
    "int": _parse_int,
    "str": lambda _, text: text,
    "str | None": lambda _, text: text or None,
    "list[str]": lambda _, text: [item.strip() for item in text.split(",") if item.strip()],
}


class Settings:
    """Immutable values of the properties that a subclass declares; attribute = property name, dots as underscores.

    `given` are the properties as they were handed in; `unknown` those among them that no client of Kafka knows.
    """

    PROPERTIES: dict[str, Property] = {}
    given: dict[str, Value]
    unknown: tuple[str, ...]

    def __init_subclass__(cls) -> None:
        cls.PROPERTIES = dict(cls.PROPERTIES)
        for attribute, declared in list(vars(cls).items()):
            if isinstance(declared, Property):
                declared.name = attribute.replace("_", ".")
                declared.kind = cls.__annotations__[attribute]
                cls.PROPERTIES[declared.name] = declared

    @classmethod
    def from_properties(cls: type[S], properties: Mapping[str, Value]) -> S:
        """Parse and check; what is not given has its default. ConfigError says what is wrong in one sentence."""
        settings = cls.__new__(cls)
        values = vars(settings)
        for name, declared in cls.PROPERTIES.items():
            given = properties.get(name)
            values[name.replace(".", "_")] = declared.default if given is None else declared.parse(given)
        values["given"] = dict(properties)
        values["unknown"] = tuple(name for name in properties if name not in cls.PROPERTIES and not cls.is_known(name))
        values.update(settings.adjusted())
        settings.check()
        return settings

    def changed(self: S, properties: Mapping[str, Value]) -> S:
        """The same settings with some properties given anew."""
        return type(self).from_properties({**self.given, **properties})

    @classmethod
    def is_known(cls, name: str) -> bool:
        """A property that somebody may set on purpose though this class has no use for it."""
        return False

    def adjusted(self) -> dict[str, Any]:
        """Defaults that follow other values: attribute -> value."""
        return {}

    def check(self) -> None:
        """Raise ConfigError when values contradict each other."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: use changed() to get another one")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = (f"{name}={'***' if 'password' in name or 'jaas' in name else v}" for name, v in self.given.items())
        return f"<{type(self).__name__} {' '.join(shown)}>"
