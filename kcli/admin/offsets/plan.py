"""Plans that move committed offsets: what would become of each partition, and why. Pure: no I/O, no clock.

A plan is data: it can be shown, saved, and read again before it is applied. What cannot be done as asked is a row that
is refused, and one such row keeps the whole plan from being applied: there is no silent fallback to another offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from kcli.errors import KcliError
from kcli.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

Kind = Literal["reset", "apply", "undo", "copy", "delete"]
Action = Literal["move", "keep", "delete", "skip", "refuse"]
IfNoRecord = Literal["refuse", "end", "skip"]
IfOutOfRange = Literal["refuse", "clamp", "skip"]

WHOLE_TOPIC = -1  # in place of a partition's number, in the row of a topic whose partitions are not known
ABSENT = "Absent"  # the state of a group that is not there


# Where to. Dataclasses, since named tuples without fields would all be equal.


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


class PartitionFacts(NamedTuple):
    """What a plan is made from, for one group and partition.

    `start` and `end` are the log's first offset and the one behind its last record, None where not known. `at_time` is
    the first record at or after the time of `ToTime` (its offset is -1 if there is none), None where not asked for.
    `error` is why something is not known.
    """

    tp: TopicPartition
    committed: OffsetAndMetadata | None = None
    start: int | None = None
    end: int | None = None
    at_time: OffsetAndTimestamp | None = None
    error: KcliError | None = None


class FirstRecord(NamedTuple):
    """The first record that a group would read. Its `offset` is behind the new one where that falls into a hole.

    `key` is at most the first 64 bytes of `key_size`, both None for a record without a key. `timestamp_ms` is -1 for a
    record without a time.
    """

    offset: int
    timestamp_ms: int = -1
    key: bytes | None = None
    key_size: int | None = None


class Row(NamedTuple):
    """What becomes of one partition: `old` is what is committed now, `new` what will be; None: nothing.

    `action`: "move" and "delete" are written; "keep" is already as wanted; "skip" is left as it is because an option
    says so; "refuse" cannot be done, and keeps the whole plan from being applied. `why` is a part of a sentence.
    `reread` and `skipped` count offsets that are in the log, a few of which may be no records (compaction, markers), 0
    where nothing is committed or the log's bounds are not known. `bytes` is an estimate of what these records take on
    disk; `bytes` and `first` are None until `preview` fills them. `error`: why a row is refused, if a broker said so.
    """

    group: str
    tp: TopicPartition
    old: OffsetAndMetadata | None
    new: OffsetAndMetadata | None
    action: Action
    why: str = ""
    reread: int = 0
    skipped: int = 0
    bytes: int | None = None
    first: FirstRecord | None = None
    error: KcliError | None = None


class Plan(NamedTuple):
    """Rows by group and partition, sorted; made at `made_ms` (since the epoch), when the groups were in `states`.

    `cluster_id` is where it was made, None if not known: a plan is for no other cluster.
    """

    kind: Kind
    rows: tuple[Row, ...]
    made_ms: int
    states: Mapping[str, str] = {}
    cluster_id: str | None = None

    @property
    def groups(self) -> list[str]:
        """The groups that have rows, sorted."""
        return sorted({row.group for row in self.rows})

    @property
    def refused(self) -> list[Row]:
        """The rows that keep the plan from being applied."""
        return [row for row in self.rows if row.action == "refuse"]

    @property
    def changes(self) -> list[Row]:
        """The rows that will be written."""
        return [row for row in self.rows if row.action in ("move", "delete")]


def make_plan(
    kind: Kind, rows: Iterable[Row], made_ms: int, states: Mapping[str, str], cluster_id: str | None = None
) -> Plan:
    """The rows as a plan, in order."""
    return Plan(kind, tuple(sorted(rows, key=_place)), made_ms, dict(sorted(states.items())), cluster_id)


def _place(row: Row) -> Any:
    return row.group, row.tp


def plan_reset(
    group: str,
    facts: Iterable[PartitionFacts],
    target: Target,
    *,
    if_no_record: IfNoRecord = "refuse",
    if_out_of_range: IfOutOfRange = "refuse",
) -> list[Row]:
    """A row for each of these partitions.

    `if_no_record`: where there is no record at or after the time of `ToTime`, or nothing committed for `ToCurrent`, to
    take the end of the log, or to leave the partition. `if_out_of_range`: to take the nearer end of the log for an
    offset that lies outside, or to leave the partition. A new offset has no leader epoch, unless it comes with one.
    """
    raise NotImplementedError
