"""Facts about a group that the rules of `explain` examine: two surveys and the state of its topics. Pure data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.group import CLASSIC, CONSUMER, STREAMS
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.admin.groups.group import Group
    from kcli.admin.groups.lag import PartitionLag
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.admin.logs.open_transactions import OpenTransaction
    from kcli.client.metadata import TopicInfo

_ERRORS_WITH_FINDINGS = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
REBALANCING = {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady"}


class Retention(NamedTuple):
    """Limits of a topic: age of records in ms, and size of a partition in bytes; None: no limit."""

    ms: int | None
    bytes: int | None


class ClusterFacts(NamedTuple):
    """State of the group's topics at the second observation. A fact that could not be requested is absent.

    `wall_ms` is the time of day. `topics` has every topic that is committed, owned or subscribed to, or the error of
    its metadata. `stable_ends` are the last stable offsets at the first and at the second observation. `transactions`
    are open in partitions of the group. `log_bytes` are the sizes of lagging partitions that have a size limit.
    """

    wall_ms: int
    topics: Mapping[str, TopicInfo | KcliError] = {}
    retention: Mapping[str, Retention] = {}
    stable_ends: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]] = ({}, {})
    transactions: tuple[OpenTransaction, ...] = ()
    log_bytes: Mapping[TopicPartition, int] = {}


class PartitionProgress(NamedTuple):
    """A partition whose committed offset and end offset are known at both observations."""

    first: PartitionLag
    second: PartitionLag

    @property
    def tp(self) -> TopicPartition:
        return self.second.tp

    @property
    def consumed(self) -> int:
        """Advance of the committed offset between the observations; negative if it was moved back."""
        return _offset(self.second) - _offset(self.first)

    @property
    def produced(self) -> int:
        """Advance of the end offset between the observations."""
        return (self.second.end or 0) - (self.first.end or 0)

    @property
    def lag(self) -> int:
        return self.second.lag or 0


class Observations:
    """Two surveys of one group, and the state of its topics."""

    def __init__(self, first: GroupSurvey, second: GroupSurvey, cluster: ClusterFacts) -> None:
        self.first = first
        self.second = second
        self.cluster = cluster

    def __repr__(self) -> str:
        return f"<Observations {self.group.group} {self.group.state} over {self.elapsed_ms:.0f} ms>"

    @property
    def group_before(self) -> Group:
        """The group at the first observation."""
        return self.first.group

    @property
    def group(self) -> Group:
        """The group at the second observation."""
        return self.second.group

    @property
    def partitions(self) -> list[PartitionLag]:
        """The partitions at the second observation."""
        return self.second.partitions

    @property
    def elapsed_ms(self) -> float:
        """Time between the two requests for end offsets, at least 1 ms."""
        return max(1.0, self.second.ends_ms - self.first.ends_ms)

    @property
    def committing_ms(self) -> float:
        """Time between the two requests for committed offsets, at least 1 ms."""
        return max(1.0, self.second.committed_ms - self.first.committed_ms)

    @property
    def commits_offsets(self) -> bool:
        """True for groups that commit offsets. Share groups acknowledge single records instead."""
        return self.group.type in (CLASSIC, CONSUMER, STREAMS)

    @property
    def is_stable(self) -> bool:
        """True if the group was Stable at both observations, with the same members and epoch."""
        ids = [{member.id for member in group.members} for group in (self.group_before, self.group)]
        unchanged = ids[0] == ids[1] and self.group_before.epoch == self.group.epoch
        return unchanged and self.group_before.state == self.group.state == "Stable"

    @cached_property
    def rows(self) -> dict[TopicPartition, PartitionLag]:
        """The partitions at the second observation, by partition."""
        return {row.tp: row for row in self.partitions}

    @cached_property
    def progress(self) -> dict[TopicPartition, PartitionProgress]:
        """Partitions whose committed offset and end offset are known at both observations."""
        earlier = {row.tp: row for row in self.first.partitions if _is_known(row)}
        return {
            row.tp: PartitionProgress(earlier[row.tp], row)
            for row in self.partitions
            if _is_known(row) and row.tp in earlier
        }

    def request_errors(self) -> Iterator[KcliError]:
        """Return the errors of the requests themselves, without missing topics and leaders, which are findings."""
        for error in (self.second.error, *(row.error for row in self.partitions)):
            if error is not None and not (isinstance(error, BrokerError) and error.code in _ERRORS_WITH_FINDINGS):
                yield error

    def topic_errors(self) -> Iterator[tuple[str, KcliError]]:
        """Return the topics of the group whose metadata is an error."""
        for name, topic in sorted(self.cluster.topics.items(), key=itemgetter(0)):
            if isinstance(topic, KcliError):
                yield name, topic

    def topic(self, name: str) -> TopicInfo | None:
        """Return the metadata of a topic; None if it is unknown or an error."""
        topic = self.cluster.topics.get(name)
        return None if isinstance(topic, KcliError) else topic


def _is_known(row: PartitionLag) -> bool:
    return row.committed is not None and row.end is not None and row.lag is not None


def _offset(row: PartitionLag) -> int:
    assert row.committed is not None
    return row.committed.offset
