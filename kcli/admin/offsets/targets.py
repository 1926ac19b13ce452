"""Where committed offsets can be moved to. Pure data.

Dataclasses, since named tuples without fields would all be equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kcli.structs import OffsetAndMetadata, TopicPartition


@dataclass(frozen=True)
class ToEarliest:
    """The start of the log."""


@dataclass(frozen=True)
class ToLatest:
    """The end of the log: behind its last record, transactions that are still open included."""


@dataclass(frozen=True)
class ToCurrent:
    """Where the group is already: what it has committed."""


@dataclass(frozen=True)
class ToOffset:
    """The same offset in every partition."""

    offset: int


@dataclass(frozen=True)
class ShiftBy:
    """So many offsets forward, or back if below 0, from what is committed."""

    by: int


@dataclass(frozen=True)
class ToTime:
    """The first record written at or after a moment, in ms since the epoch."""

    ms: int


@dataclass(frozen=True)
class FromOffsets:
    """Offsets from elsewhere: a file, another group. A key without a group is for every group.

    `source` names it in reasons ("positions.csv", "group billing"). With `exact` leader epochs and notes (metadata)
    come along; without, as from Apache's CSV, the note that the group has committed stays.
    """

    offsets: Mapping[tuple[str | None, TopicPartition], OffsetAndMetadata]
    source: str = "the file"
    exact: bool = True

    def find(self, group: str, tp: TopicPartition) -> OffsetAndMetadata | None:
        """What is to be committed for this group in this partition, if anything is told."""
        return self.offsets.get((group, tp)) or self.offsets.get((None, tp))

    def partitions(self, group: str) -> list[TopicPartition]:
        """Every partition that something is told about for this group, sorted."""
        return sorted({tp for name, tp in self.offsets if name is None or name == group})


Target: TypeAlias = ToEarliest | ToLatest | ToCurrent | ToOffset | ShiftBy | ToTime | FromOffsets
