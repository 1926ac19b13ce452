"""Plans that move committed offsets: what would become of each partition, and why. Pure: no I/O, no clock.

A plan is data: it can be shown, saved, and read again before it is applied. What cannot be done as asked is a row that
is refused, and one such row keeps the whole plan from being applied: there is no silent fallback to another offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from kcli.admin.offsets.targets import (
    FromOffsets,
    ShiftBy,
    Target,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
)
from kcli.errors import KcliError
from kcli.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kcli.text import format_time

__all__ = [
    "ABSENT",
    "WHOLE_TOPIC",
    "FirstRecord",
    "FromOffsets",
    "PartitionFacts",
    "Plan",
    "Row",
    "ShiftBy",
    "Target",
    "ToCurrent",
    "ToEarliest",
    "ToLatest",
    "ToOffset",
    "ToTime",
    "make_plan",
    "plan_reset",
]

Kind = Literal["reset", "apply", "undo", "copy", "delete"]
Action = Literal["move", "keep", "delete", "skip", "refuse"]
IfNoRecord = Literal["refuse", "end", "skip"]
IfOutOfRange = Literal["refuse", "clamp", "skip"]

WHOLE_TOPIC = -1  # in place of a partition's number, in the row of a topic whose partitions are not known
ABSENT = "Absent"  # the state of a group that is not there


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
    rows = []
    for fact in facts:
        aim = _aim(group, fact, target, if_no_record)
        if aim.offset is not None and isinstance(target, (ToOffset, ShiftBy, FromOffsets)):
            about = "" if isinstance(target, ToOffset) else f"{aim.why}, "
            aim = _in_range(aim, aim.offset, fact, about, if_out_of_range)
        rows.append(_row(group, fact, aim))
    return rows


class _Aim(NamedTuple):
    """Where one partition shall go; `offset` None: nowhere, and `action` says what that means."""

    offset: OffsetAndMetadata | None
    why: str
    action: Action = "move"


def _aim(group: str, fact: PartitionFacts, target: Target, if_no_record: IfNoRecord) -> _Aim:
    old = fact.committed
    if isinstance(target, ToCurrent) and old is not None:
        return _Aim(old, "as committed")
    if fact.error is not None or fact.start is None or fact.end is None:
        return _Aim(None, _word_of(fact.error), "refuse")
    if isinstance(target, ToEarliest):
        return _Aim(_moved(old, fact.start), "log start")
    if isinstance(target, ToLatest):
        return _Aim(_moved(old, fact.end), "log end")
    if isinstance(target, ToOffset):
        return _Aim(_moved(old, target.offset), "offset as given")
    if isinstance(target, ToCurrent):
        return _without_record(fact, fact.end, "no offset to stay at", if_no_record)
    if isinstance(target, ToTime):
        return _aim_at_time(fact, fact.end, target, if_no_record)
    if isinstance(target, ShiftBy):
        if old is None:
            return _left("no offset to shift", if_no_record)
        return _Aim(_moved(old, old.offset + target.by), f"shifted by {target.by:+}")
    return _aim_at_told(group, fact, target, if_no_record)


def _aim_at_time(fact: PartitionFacts, end: int, target: ToTime, if_no_record: IfNoRecord) -> _Aim:
    if fact.at_time is not None and fact.at_time.offset >= 0:
        return _Aim(_moved(fact.committed, fact.at_time.offset), f"first record at or after {format_time(target.ms)}")
    return _without_record(fact, end, f"no record at or after {format_time(target.ms)}", if_no_record)


def _aim_at_told(group: str, fact: PartitionFacts, target: FromOffsets, if_no_record: IfNoRecord) -> _Aim:
    told = target.find(group, fact.tp)
    if told is not None:
        return _Aim(told if target.exact else _moved(fact.committed, told.offset), f"as in {target.source}")
    if fact.committed is None:
        return _Aim(None, f"no offset in {target.source}", "keep")
    return _left(f"no offset in {target.source}", if_no_record)


def _without_record(fact: PartitionFacts, end: int, why: str, if_no_record: IfNoRecord) -> _Aim:
    if if_no_record == "end":
        return _Aim(_moved(fact.committed, end), f"{why}: log end")
    return _left(why, if_no_record)


def _left(why: str, otherwise: IfNoRecord | IfOutOfRange) -> _Aim:
    """No place to go to: refused, unless such partitions are to be left as they are."""
    return _Aim(None, f"{why}: left as it is", "skip") if otherwise == "skip" else _Aim(None, why, "refuse")


def _moved(old: OffsetAndMetadata | None, offset: int) -> OffsetAndMetadata:
    """The epoch of the record before another offset is not known; the committer's note stays."""
    if old is not None and old.offset == offset:
        return old
    return OffsetAndMetadata(offset, metadata=old.metadata if old is not None else "")


def _in_range(
    aim: _Aim, to: OffsetAndMetadata, fact: PartitionFacts, about: str, if_out_of_range: IfOutOfRange
) -> _Aim:
    """An offset below the start or behind the end is one where no reader can begin."""
    start, end = fact.start or 0, fact.end or 0
    if start <= to.offset <= end:
        return aim
    nearest, name = (start, "start") if to.offset < start else (end, "end")
    if if_out_of_range == "clamp":
        clamped = OffsetAndMetadata(nearest, metadata=to.metadata)
        return _Aim(clamped, f"{about}clamped from {to.offset} to the log {name} {nearest}")
    return _left(f"{about}{where_outside(to.offset, start, end)}", if_out_of_range)


def _row(group: str, fact: PartitionFacts, aim: _Aim) -> Row:
    old, new, action, why = fact.committed, aim.offset, aim.action, aim.why
    error = fact.error if action == "refuse" else None
    if new is None:
        return Row(group, fact.tp, old, None if action == "refuse" else old, action, _with_old(why, fact), error=error)
    if new == old:
        return Row(group, fact.tp, old, new, "keep", _with_old(why, fact))
    reread, skipped = distance(old, new, fact)
    return Row(group, fact.tp, old, new, action, _with_old(why, fact), reread, skipped)


def distance(old: OffsetAndMetadata | None, new: OffsetAndMetadata, fact: PartitionFacts) -> tuple[int, int]:
    """How many offsets of the log are read again, and how many never are."""
    if old is None or fact.start is None or fact.end is None:
        return 0, 0
    before, after = (min(max(it.offset, fact.start), fact.end) for it in (old, new))
    return max(0, before - after), max(0, after - before)


def _with_old(why: str, fact: PartitionFacts) -> str:
    """The reason, and what is worth knowing of the offset that is committed now."""
    if fact.committed is None:
        return why if fact.error is not None else f"{why}; nothing was committed"
    if fact.start is None or fact.end is None or fact.start <= fact.committed.offset <= fact.end:
        return why
    return f"{why}; the committed {where_outside(fact.committed.offset, fact.start, fact.end)}"


def where_outside(offset: int, start: int, end: int) -> str:
    """On which side of the log an offset lies, as a part of a sentence."""
    return f"{offset} is before the log start {start}" if offset < start else f"{offset} is behind the log end {end}"


def _word_of(error: KcliError | None) -> str:
    return error.message if error is not None else "where the log begins and ends is not known"
