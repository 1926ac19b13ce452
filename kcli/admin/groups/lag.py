"""Lag of a group by partition: committed offsets against end offsets, and its age. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from kcli.admin.groups.group import Group, GroupMember
from kcli.errors import KcliError
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.admin.logs.record_times import RecordTime

T = TypeVar("T")


class PartitionLag(NamedTuple):
    """Lag of a group in a partition that the group has committed, or that a member owns, or both.

    `committed` is None without a committed offset; in a share group it is the start offset. `lag` is the number of
    offsets from `committed` to `end`, at least 0, None if one of them is unknown, or if it `is_beyond_end`; in a share
    group the broker counts it, without the records acknowledged after `committed`. `time_lag_ms` is the age of the
    record at the committed offset, 0 without lag, None if unknown or not requested; `time_lag_note` is the reason why
    it is not exact, or unknown. `members` own the partition: at most one, except in a share group. `error`: the reason
    for a missing number.
    """

    group: str
    tp: TopicPartition
    committed: OffsetAndMetadata | None = None
    start: int | None = None
    end: int | None = None
    lag: int | None = None
    time_lag_ms: int | None = None
    time_lag_note: str | None = None
    members: tuple[GroupMember, ...] = ()
    error: KcliError | None = None

    @property
    def member(self) -> GroupMember | None:
        """The owner of the partition; in a share group the first one."""
        return self.members[0] if self.members else None

    @property
    def is_beyond_end(self) -> bool:
        """True if the committed offset is after the log end: the log was truncated, or the topic was created again."""
        return self.time_lag_note == BEYOND_END


class LagTotals(NamedTuple):
    """Sums over partitions. Partitions with unknown lag are in no sum.

    `unknown` counts them, `errors` those that failed, `beyond_end` those committed after the log end. `max_time_lag_ms`
    is None if no partition has a time lag.
    """

    partitions: int
    lag: int
    max_lag: int
    max_time_lag_ms: int | None
    unknown: int
    errors: int
    beyond_end: int = 0

    @property
    def known_lag(self) -> int | None:
        """The sum of the known lags; None if there are partitions and no lag is known."""
        return self.lag if self.unknown < self.partitions or not self.partitions else None


_row = partial(tuple.__new__, PartitionLag)  # as `PartitionLag._make`, which takes three times as long


def calculate_lag(
    group: Group,
    committed: Mapping[TopicPartition, OffsetAndMetadata | KcliError],
    starts: Mapping[TopicPartition, int | KcliError],
    ends: Mapping[TopicPartition, int | KcliError],
    lags: Mapping[TopicPartition, int | None] | None = None,
    *,
    high_watermarks: Mapping[TopicPartition, int | KcliError] | None = None,
    timed: bool = False,
) -> list[PartitionLag]:
    """Return a row for each partition that is committed or owned, sorted. `lags` are those of a share group's broker.

    End offsets must have been read after the committed offsets. With a committed offset beyond the end (a truncated
    log, a recreated topic) the lag is unknown; one below the start includes the deleted records, as in Apache's tool.
    If `ends` are last stable offsets, `high_watermarks` are the log ends of partitions with a commit after them: the
    lag of such a commit within the log is 0. `timed`: where there is no lag, the time lag is 0. All is done by columns:
    there may be a hundred thousand rows.
    """
    owners = _owners(group)
    tps = sorted(committed.keys() | owners.keys() if owners else committed)
    errors: list[KcliError | None] = [None] * len(tps)
    start = _without_errors(map(starts.get, tps), errors)
    end = _without_errors(map(ends.get, tps), errors)
    offsets = _without_errors(map(committed.get, tps), errors)
    notes: list[str | None] = [None] * len(tps)
    if lags is None:
        lag = [
            None if committed_at is None or behind is None else behind - committed_at.offset
            for committed_at, behind in zip(offsets, end, strict=True)
        ]
        for number in [number for number, value in enumerate(lag) if value is not None and value < 0]:
            committed_at, log_end = offsets[number], (high_watermarks or {}).get(tps[number])
            if committed_at is not None and isinstance(log_end, int) and committed_at.offset <= log_end:
                lag[number] = 0
            elif isinstance(log_end, KcliError):
                lag[number], errors[number] = None, log_end
            else:
                lag[number], notes[number] = None, BEYOND_END
    else:
        lag = list(map(lags.get, tps))
    times = [0 if value == 0 else None for value in lag] if timed else repeat(None)
    members = [owners.get(tp, ()) for tp in tps] if owners else repeat(())
    names = repeat(group.group)
    return list(map(_row, zip(names, tps, offsets, start, end, lag, times, notes, members, errors)))  # noqa: B905 - repeats


def _without_errors(column: Iterable[T | KcliError | None], errors: list[KcliError | None]) -> list[T | None]:
    """Return the column with None for errors, which are stored in `errors` by row; the last column's error is kept."""
    values = list(column)
    if any(issubclass(kind, KcliError) for kind in set(map(type, values))):
        for number, value in enumerate(values):
            if isinstance(value, KcliError):
                values[number], errors[number] = None, value
    return cast("list[T | None]", values)


def _owners(group: Group) -> dict[TopicPartition, tuple[GroupMember, ...]]:
    owners: dict[TopicPartition, tuple[GroupMember, ...]] = {}
    for member in group.members:
        for tp in member.owned:
            owners[tp] = (*owners.get(tp, ()), member)
    return owners


def total_lag(partitions: Iterable[PartitionLag]) -> LagTotals:
    """Return the sums over all of these partitions."""
    rows = list(partitions)
    lags = [lag for lag in map(attrgetter("lag"), rows) if lag is not None]
    ages = [age for age in map(attrgetter("time_lag_ms"), rows) if age is not None]
    errors = len(rows) - list(map(attrgetter("error"), rows)).count(None)
    unknown = len(rows) - len(lags)
    beyond_end = list(map(attrgetter("time_lag_note"), rows)).count(BEYOND_END) if unknown else 0
    return LagTotals(len(rows), sum(lags), max(lags, default=0), max(ages, default=None), unknown, errors, beyond_end)


def total_lag_by_topic(partitions: Iterable[PartitionLag]) -> dict[str, LagTotals]:
    """Return the sums by topic, sorted by name."""
    return {topic: total_lag(rows) for topic, rows in rows_by_topic(partitions).items()}


def rows_by_topic(partitions: Iterable[PartitionLag]) -> dict[str, list[PartitionLag]]:
    """Return the rows of each topic, sorted by name and number."""
    topics: dict[str, list[PartitionLag]] = {}
    for row in sorted(partitions, key=attrgetter("tp")):
        topics.setdefault(row.tp.topic, []).append(row)
    return topics


# The parts of `PartitionLag.time_lag_note`, which are joined by "; ".
CREATE_TIME = "create time"  # the producer set the time
HOLE = "hole"  # there is no record at the committed offset; the time is that of the next record
DELETED = "deleted"  # the committed offset is below the log start; the time is that of the first record
PARTLY_DONE = "partly done"  # a share group has acknowledged some records after its start offset, perhaps this one
NOTHING_THERE = "nothing there"  # there is lag but no record: compacted, or control records only
NO_TIMESTAMP = "no timestamp"  # a record format without timestamps
BEYOND_END = "beyond end"  # the committed offset is after the log end, so lag and time lag are unknown
FUTURE = "from the future"  # the time is ahead of the local clock; the time lag is 0


def time_offset(row: PartitionLag) -> int | None:
    """Return the offset of the record whose age is the time lag; None if there is no lag or it is unknown."""
    if not row.lag or row.committed is None:
        return None
    return max(row.committed.offset, row.start or 0)


def with_time_lag(row: PartitionLag, record: RecordTime | KcliError | None, wall_ms: float) -> PartitionLag:
    """Return the row with its time lag at `wall_ms`; `record` is the record at `time_offset`.

    Without lag the time lag is 0. If the time of the record is unknown, the row keeps its first error.
    """
    if row.lag == 0:
        return row._replace(time_lag_ms=0)
    offset = time_offset(row)
    if offset is None or record is None:
        return row
    if isinstance(record, KcliError):
        return row._replace(error=row.error or record)
    if record.offset < 0 or record.timestamp_ms < 0:
        return row._replace(time_lag_note=NOTHING_THERE if record.offset < 0 else NO_TIMESTAMP)
    age_ms = int(wall_ms) - record.timestamp_ms
    notes = []
    if row.committed is not None and offset > row.committed.offset:
        notes.append(DELETED)
    if record.offset > offset:
        notes.append(HOLE)
    if row.lag is not None and row.committed is not None and row.lag < (row.end or 0) - row.committed.offset:
        notes.append(PARTLY_DONE)
    if not record.append_time:
        notes.append(CREATE_TIME)
    if age_ms < 0:
        notes.append(FUTURE)
    return row._replace(time_lag_ms=max(0, age_ms), time_lag_note="; ".join(notes) or None)
