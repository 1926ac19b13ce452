"""Plans that change committed offsets: targets, and a row with a reason for each partition. Pure: no I/O, no clock.

A plan is data: it can be shown, saved, and read again before it is applied. A partition that cannot be changed as
requested is a refused row, and one refused row prevents the whole plan: there is no silent fallback to another offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from kcli.admin.plan import Plan, Row
from kcli.errors import KcliError
from kcli.log_place import Place, resolve
from kcli.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kcli.text import format_time_lookup

Kind = Literal["reset", "apply", "undo", "copy", "delete"]
Action = Literal["move", "keep", "delete", "skip", "refuse"]
IfNoRecord = Literal["refuse", "end", "skip"]
IfOutOfRange = Literal["refuse", "clamp", "skip"]

WHOLE_TOPIC = -1  # the partition number in the row of a topic whose partitions are unknown
WHOLE_GROUP = TopicPartition("", WHOLE_TOPIC)  # in the row of a group whose partitions are unknown
ABSENT = "Absent"  # the state of a group that does not exist

Scope: TypeAlias = Mapping[str, "Sequence[int] | None"] | None
"""Partitions by topic (None: all of the topic). A scope of None means all partitions of each topic in which a group has
committed; for `FromOffsets`, the partitions that it has."""


@dataclass(frozen=True)
class ToCurrent:
    """Current committed offset of the group."""


@dataclass(frozen=True)
class ShiftBy:
    """Offset relative to the committed one; a negative number moves back."""

    by: int


@dataclass(frozen=True)
class FromOffsets:
    """Offsets of a file or another group. A key without a group is for every group.

    `source` is its name in reasons ("positions.csv", "group billing"). With `exact`, leader epochs and metadata are
    committed too; without it, as from Apache's CSV, the group's committed metadata stays.
    """

    offsets: Mapping[tuple[str | None, TopicPartition], OffsetAndMetadata]
    source: str = "the file"
    exact: bool = True

    def find(self, group: str, tp: TopicPartition) -> OffsetAndMetadata | None:
        """Return the offset for this group and partition; None if the target has no such offset."""
        return self.offsets.get((group, tp)) or self.offsets.get((None, tp))

    def partitions(self, group: str) -> list[TopicPartition]:
        """Return the partitions with an offset for this group, sorted."""
        return sorted({tp for name, tp in self.offsets if name is None or name == group})


Target: TypeAlias = Place | ToCurrent | ShiftBy | FromOffsets
"""New offsets: a place in every log, offsets relative to the committed ones, or given ones."""


class PartitionFacts(NamedTuple):
    """Facts for the plan of one group and partition.

    `start` and `end` are the start offset and end offset of the log, None if unknown. `at_time` is the first record at
    or after the time of the target (offset -1: there is none), None if not requested. `error` is the reason for an
    unknown value.
    """

    tp: TopicPartition
    committed: OffsetAndMetadata | None = None
    start: int | None = None
    end: int | None = None
    at_time: OffsetAndTimestamp | None = None
    error: KcliError | None = None


class FirstRecord(NamedTuple):
    """First record that a group would read. Its `offset` is above the new offset if there is no record at that one.

    `key` has at most the first 64 bytes of `key_size`; both are None for a record without a key. `timestamp_ms` is -1
    for a record without a timestamp.
    """

    offset: int
    timestamp_ms: int = -1
    key: bytes | None = None
    key_size: int | None = None


@dataclass(frozen=True)
class OffsetRow(Row[OffsetAndMetadata]):
    """Change of one partition; its key is the group and the partition.

    "move" and "delete" are written; `old` is the committed offset now, `new` the one after the plan; None: no offset.
    `reread` and `skipped` count offsets in the log (some may have no record: compaction, control records); 0 with
    unknown bounds. Without a committed offset all offsets before the new one are skipped. `bytes` is an estimate of
    their size on disk; `bytes` and `first` are None until `preview` fills them.
    """

    action: Action = "move"
    reread: int = 0
    skipped: int = 0
    bytes: int | None = None
    first: FirstRecord | None = None

    @property
    def group(self) -> str:
        group: str = self.key[0]
        return group

    @property
    def tp(self) -> TopicPartition:
        tp: TopicPartition = self.key[1]
        return tp

    @property
    def resource(self) -> str:
        return f"{self.tp} of group {self.group}"

    @property
    def is_refused(self) -> bool:
        """The action says so: a row of a plan file may have an error from an earlier application."""
        return self.action == "refuse"


@dataclass(frozen=True)
class OffsetPlan(Plan[OffsetRow]):
    """Rows sorted by group and partition; `states` are those of the groups."""

    @property
    def groups(self) -> list[str]:
        """Groups that have rows, sorted."""
        return sorted({row.group for row in self.rows})


def make_plan(
    kind: Kind, rows: Iterable[OffsetRow], made_ms: int, states: Mapping[str, str], cluster_id: str | None = None
) -> OffsetPlan:
    """Return a plan with its rows sorted."""
    return OffsetPlan(
        kind, tuple(sorted(rows, key=lambda row: row.key)), made_ms, dict(sorted(states.items())), cluster_id
    )


def plan_reset(
    group: str,
    facts: Iterable[PartitionFacts],
    target: Target,
    *,
    if_no_record: IfNoRecord = "refuse",
    if_out_of_range: IfOutOfRange = "refuse",
) -> list[OffsetRow]:
    """Return a row for each of these partitions.

    `if_no_record` is for a partition without a record at or after the time of a place, or without a committed offset
    for `ToCurrent` and `ShiftBy`: refuse, use the end of the log, or skip. `if_out_of_range` is for an offset outside
    the log: refuse, clamp to the nearer end, or skip. A new offset has no leader epoch, except one of `FromOffsets`.
    """
    rows = []
    for fact in facts:
        aim = _aim(group, fact, target, if_no_record)
        if aim.offset not in (None, fact.committed) and _may_be_outside(target):
            prefix = "" if aim.why == _AS_REQUESTED else f"{aim.why}, "
            aim = _in_range(aim, aim.offset, fact, prefix, if_out_of_range)
        rows.append(_row(group, fact, aim))
    return rows


def _may_be_outside(target: Target) -> bool:
    """Return whether a target may be an offset outside the log."""
    return target.kind in ("offset", "after-start") if isinstance(target, Place) else not isinstance(target, ToCurrent)


_IF_NO_RECORD = "--if-no-record"
_AS_REQUESTED = "offset as requested"


class _Aim(NamedTuple):
    """New offset of one partition; None: `action` is the outcome."""

    offset: OffsetAndMetadata | None
    why: str
    action: Action = "move"


def _aim(group: str, fact: PartitionFacts, target: Target, if_no_record: IfNoRecord) -> _Aim:
    old = fact.committed
    if isinstance(target, ToCurrent) and old is not None:
        return _Aim(old, "current offset")
    if isinstance(target, FromOffsets) and old is not None:
        aim = _aim_from_offsets(group, fact, target, if_no_record)
        if aim.offset == old:  # nothing to write, so the log does not matter
            return aim
    if fact.error is not None or fact.start is None or fact.end is None:
        return _Aim(None, _unknown_reason(fact.error), "refuse")
    if isinstance(target, Place):
        return _aim_at_place(fact, fact.start, fact.end, target, if_no_record)
    if isinstance(target, ToCurrent):
        return _without_record(fact, fact.end, "no committed offset", if_no_record)
    if isinstance(target, ShiftBy):
        if old is None:
            return _left("no committed offset to shift", _IF_NO_RECORD, if_no_record)
        return _Aim(_moved(old, old.offset + target.by), f"shifted by {target.by:+}")
    return _aim_from_offsets(group, fact, target, if_no_record)


def _aim_at_place(fact: PartitionFacts, start: int, end: int, place: Place, if_no_record: IfNoRecord) -> _Aim:
    at_time = -1 if fact.at_time is None else fact.at_time.offset
    why = {
        "start": "log start",
        "end": "log end",
        "offset": _AS_REQUESTED,
        "after-start": f"{place.n} after the log start",
        "before-end": f"{place.n} before the log end",
    }.get(place.kind) or format_time_lookup(place.n, at_time, start)
    if place.kind == "time" and at_time < 0:
        return _without_record(fact, end, why, if_no_record)
    return _Aim(_moved(fact.committed, resolve(place, start, end, at_time)), why)


def _aim_from_offsets(group: str, fact: PartitionFacts, target: FromOffsets, if_no_record: IfNoRecord) -> _Aim:
    offset = target.find(group, fact.tp)
    if offset is not None:
        return _Aim(offset if target.exact else _moved(fact.committed, offset.offset), f"as in {target.source}")
    if fact.committed is None:
        return _Aim(None, f"no offset in {target.source}", "keep")
    return _left(f"no offset in {target.source}", _IF_NO_RECORD, if_no_record)


def _without_record(fact: PartitionFacts, end: int, why: str, if_no_record: IfNoRecord) -> _Aim:
    if if_no_record == "end":
        return _Aim(_moved(fact.committed, end), f"{why}; log end")
    return _left(why, _IF_NO_RECORD, if_no_record)


def _left(why: str, option: str, otherwise: IfNoRecord | IfOutOfRange) -> _Aim:
    """Return a refusal that names the option for it, or a skip if the policy asks for it."""
    if otherwise == "skip":
        return _Aim(None, f"{why}; skipped", "skip")
    return _Aim(None, f"{why}; see {option}", "refuse")


def _moved(old: OffsetAndMetadata | None, offset: int) -> OffsetAndMetadata:
    """Return an offset without leader epoch, which is unknown, and with the metadata of the old one."""
    if old is not None and old.offset == offset:
        return old
    return OffsetAndMetadata(offset, metadata=old.metadata if old is not None else "")


def _in_range(
    aim: _Aim, to: OffsetAndMetadata, fact: PartitionFacts, prefix: str, if_out_of_range: IfOutOfRange
) -> _Aim:
    """Apply the policy to an offset outside the log, where no consumer can start."""
    start, end = fact.start or 0, fact.end or 0
    if start <= to.offset <= end:
        return aim
    nearest, name = (start, "start") if to.offset < start else (end, "end")
    if if_out_of_range == "clamp":
        clamped = OffsetAndMetadata(nearest, metadata=to.metadata)
        return _Aim(clamped, f"{prefix}clamped from {to.offset} to the log {name} {nearest}")
    return _left(f"{prefix}{where_outside(to.offset, start, end)}", "--if-out-of-range", if_out_of_range)


def _row(group: str, fact: PartitionFacts, aim: _Aim) -> OffsetRow:
    old, new, action, why = fact.committed, aim.offset, aim.action, aim.why
    error = fact.error if action == "refuse" else None
    key = (group, fact.tp)
    if new is None:
        return OffsetRow(key, old, None if action == "refuse" else old, action, _with_old(why, fact), error)
    if new == old:
        return OffsetRow(key, old, new, "keep", _with_old(why, fact))
    reread, skipped = distance(old, new, fact)
    return OffsetRow(key, old, new, action, _with_old(why, fact), None, reread, skipped)


def distance(old: OffsetAndMetadata | None, new: OffsetAndMetadata, fact: PartitionFacts) -> tuple[int, int]:
    """Return the numbers of offsets in the log that are read again, and that are skipped.

    Without a committed offset nothing has been read, so all offsets before the new one are skipped.
    """
    if fact.start is None or fact.end is None:
        return 0, 0
    before, after = (
        fact.start if committed is None else min(max(committed.offset, fact.start), fact.end)
        for committed in (old, new)
    )
    return max(0, before - after), max(0, after - before)


def _with_old(why: str, fact: PartitionFacts) -> str:
    """Return the reason, with a note if the current committed offset is missing or outside the log."""
    if fact.committed is None:
        known = fact.error is not None or why.startswith("no committed offset")
        return why if known else f"{why}; no committed offset before"
    if fact.start is None or fact.end is None or fact.start <= fact.committed.offset <= fact.end:
        return why
    return f"{why}; the committed {where_outside(fact.committed.offset, fact.start, fact.end)}"


def where_outside(offset: int, start: int, end: int) -> str:
    """Return the position of an offset outside the log, as a part of a sentence."""
    return f"{offset} is before the log start {start}" if offset < start else f"{offset} is after the log end {end}"


def _unknown_reason(error: KcliError | None) -> str:
    return error.message if error is not None else "start and end of the log are unknown"
