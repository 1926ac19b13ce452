"""Settings of the broker and of topics: `kcli.settings.Setting` with update mode, visibility and synonyms.

Type numbers are those of DescribeConfigs (KIP-226, KIP-569).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from operator import attrgetter
from typing import Any

from kcli.settings import Setting

_TYPE_NUMBERS = {"Boolean": 1, "String": 2, "Int": 3, "Short": 4, "Long": 5, "Double": 6, "List": 7, "Password": 9}
_CLASS = 8


_SHARED = [name for name in Setting.__slots__ if name != "custom_parse"]


class Update(Enum):
    """Scope of changes to a setting while the broker runs."""

    READ_ONLY = "read-only"
    CLUSTER_WIDE = "cluster-wide"


class Option(Setting):
    """One setting of the broker or of a topic."""

    __slots__ = ("ignored", "internal", "of_nodes", "synonyms", "update")

    def __init__(
        self,
        default: Any,
        *,
        update: Update = Update.READ_ONLY,
        ignored: bool = False,
        of_nodes: bool = False,
        internal: bool = False,
        synonyms: Mapping[str, int] | None = None,
        **definition: Any,
    ) -> None:
        """`definition` is passed to `Setting`.

        An `ignored` setting is accepted and has no effect; `without_effect` reports it. A setting `of_nodes` has an
        effect only in a node of a cluster. An `internal` setting is hidden
        from clients unless it is set. `synonyms` of a topic setting are the broker settings that give its default, in
        order of precedence, each with the factor from its unit to the topic's.
        """
        super().__init__(default, **definition)
        self.update = update
        self.ignored = ignored
        self.of_nodes = of_nodes
        self.internal = internal
        self.synonyms = synonyms or {}

    @classmethod
    def of(cls, definition: Setting) -> Option:
        """Return the definition of a setting as one of the broker."""
        return cls(**{name: getattr(definition, name) for name in _SHARED}, parse=definition.custom_parse)

    @property
    def type_number(self) -> int:
        """The type in DescribeConfigs."""
        # Kafka declares this one class name as a string.
        is_class = self.name.endswith(".class") and self.name != "replica.selector.class"
        return _CLASS if is_class else _TYPE_NUMBERS[self.kind]


def without_effect(
    names: Iterable[str], options: Mapping[str, Option], ignores: Callable[[Option], bool] = attrgetter("ignored")
) -> str | None:
    """Return a sentence about those of these settings that have no effect, None if all have one."""
    ignored = [name for name in names if name in options and ignores(options[name])]
    if not ignored:
        return None
    return f"{', '.join(ignored)} {'has' if len(ignored) == 1 else 'have'} no effect in this broker"


def option(default: Any, **definition: Any) -> Any:
    """Declare a setting as a class attribute: `num_partitions: Int = option(1, at_least=1)`. See Option."""
    return Option(default, **definition)
