"""The broker's kind of setting: `kcli.settings.Setting`, and how it is updated, described and inherited by topics.

The numbers of types are those of DescribeConfigs: KIP-226 and KIP-569.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from kcli.settings import Setting

TYPE_NUMBERS = {"Boolean": 1, "String": 2, "Int": 3, "Short": 4, "Long": 5, "Double": 6, "List": 7}


class Update(Enum):
    """Whether a setting can be changed while the broker runs, and for whom."""

    READ_ONLY = "read-only"
    CLUSTER_WIDE = "cluster-wide"


class Option(Setting):
    """One setting of the broker or of a topic."""

    __slots__ = ("heeded", "internal", "synonyms", "update")

    def __init__(
        self,
        default: Any,
        *,
        update: Update = Update.READ_ONLY,
        heeded: bool = True,
        internal: bool = False,
        synonyms: Mapping[str, int] | None = None,
        **definition: Any,
    ) -> None:
        """What is not `heeded` is accepted and changes nothing. What is `internal` is not told to clients unless it
        is set. `definition` is as of `Setting`.

        `synonyms` of a topic's setting are the broker's that give its default, first come first served, each with
        the factor that turns its unit into the topic's.
        """
        super().__init__(default, **definition)
        self.update = update
        self.heeded = heeded
        self.internal = internal
        self.synonyms = synonyms or {}


def option(default: Any, **how: Any) -> Any:
    """Declare a setting as a class attribute: `num_partitions: Int = option(1, at_least=1)`. See Option."""
    return Option(default, **how)
