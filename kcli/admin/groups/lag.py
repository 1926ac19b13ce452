"""How far a group is behind, by partition: committed offsets against the ends of the logs. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kcli.admin.groups.model import Group, GroupMember
from kcli.errors import KcliError
from kcli.structs import OffsetAndMetadata, TopicPartition


class PartitionLag(NamedTuple):
    """A partition that a group has committed, or that a member owns, or both.

    `committed` None: nothing is committed (in a share group: the first record not done with). `lag` is how many offsets
    lie between `committed` and `end`, never below 0, None if one of both is not known; a share group's is what its
    broker counts. `time_lag_ms` is the age of the record at the committed offset, 0 without lag, None if not known or
    not asked for; `time_lag_note` says why it is not sound, or not known. `members` own the partition: one at most,
    but in a share group. `error` is why a number is missing.
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
        """Who owns the partition; in a share group the first of them."""
        return self.members[0] if self.members else None


class LagTotals(NamedTuple):
    """Sums over partitions. Those without a known lag are in no sum: `unknown` counts them, `errors` the failed ones.

    `max_time_lag_ms` is None when no partition told its own.
    """

    partitions: int
    lag: int
    max_lag: int
    max_time_lag_ms: int | None
    unknown: int
    errors: int


def calculate_lag(
    group: Group,
    committed: Mapping[TopicPartition, OffsetAndMetadata | KcliError],
    starts: Mapping[TopicPartition, int | KcliError],
    ends: Mapping[TopicPartition, int | KcliError],
    lags: Mapping[TopicPartition, int | None] | None = None,
) -> list[PartitionLag]:
    """A row for each partition that is committed or owned, sorted. `lags` are a share group's, as its broker counts."""
    raise NotImplementedError


def total_lag(partitions: Iterable[PartitionLag]) -> LagTotals:
    """Sums over all of these."""
    raise NotImplementedError


def total_lag_by_topic(partitions: Iterable[PartitionLag]) -> dict[str, LagTotals]:
    """Sums by topic, sorted by name."""
    raise NotImplementedError
