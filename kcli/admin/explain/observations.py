"""Two observations of a group, and its surroundings: the input of the rules of `explain`. Pure data."""

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

_FINDINGS = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
REBALANCING = {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady"}


class Retention(NamedTuple):
    """Retention of a topic: records are deleted after `ms`, or if a partition exceeds `bytes`; None: no such limit."""

    ms: int | None
    bytes: int | None


class Surroundings(NamedTuple):
    """Surroundings of the group at the second observation; a value that could not be read is absent.

    `topics` has the metadata of each topic that is committed, owned or subscribed to, or its error. `stable_ends` are
    the last stable offsets at the first and the second observation. `log_bytes` are the sizes of lagging partitions
    with retention.bytes. `wall_ms` is the wall-clock time.
    """

    wall_ms: int
    topics: Mapping[str, TopicInfo | KcliError] = {}
    retention: Mapping[str, Retention] = {}
    stable_ends: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]] = ({}, {})
    transactions: tuple[OpenTransaction, ...] = ()
    log_bytes: Mapping[TopicPartition, int] = {}


class Movement(NamedTuple):
    """A partition at both observations, with known committed offset and end offset."""

    first: PartitionLag
    second: PartitionLag

    @property
    def tp(self) -> TopicPartition:
        return self.second.tp

    @property
    def consumed(self) -> int:
        """Change of the committed offset between the observations; negative if it was moved back."""
        return _offset(self.second) - _offset(self.first)

    @property
    def produced(self) -> int:
        """Change of the end offset between the observations."""
        return (self.second.end or 0) - (self.first.end or 0)

    @property
    def lag(self) -> int:
        return self.second.lag or 0


class Observations:
    """Two observations of one group, and its surroundings."""

    def __init__(self, first: GroupSurvey, second: GroupSurvey, surroundings: Surroundings) -> None:
        self.first = first
        self.second = second
        self.surroundings = surroundings

    def __repr__(self) -> str:
        return f"<Observations {self.group.group} {self.group.state} over {self.elapsed_ms:.0f} ms>"

    @property
    def before(self) -> Group:
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
        """Time between the two readings of end offsets, at least 1 ms."""
        return max(1.0, self.second.ends_ms - self.first.ends_ms)

    @property
    def committed_elapsed_ms(self) -> float:
        """Time between the two readings of committed offsets, at least 1 ms."""
        return max(1.0, self.second.committed_ms - self.first.committed_ms)

    @property
    def commits(self) -> bool:
        """True for a group that commits offsets; share groups acknowledge single records."""
        return self.group.type in (CLASSIC, CONSUMER, STREAMS)

    @property
    def at_rest(self) -> bool:
        """Stable at both observations, with the same members and epoch: the assignment is complete."""
        ids = [{member.id for member in group.members} for group in (self.before, self.group)]
        same = ids[0] == ids[1] and self.before.epoch == self.group.epoch
        return same and self.before.state == self.group.state == "Stable"

    @cached_property
    def rows(self) -> dict[TopicPartition, PartitionLag]:
        """The partitions at the second observation, by name."""
        return {row.tp: row for row in self.partitions}

    @cached_property
    def movements(self) -> dict[TopicPartition, Movement]:
        """Partitions whose committed offset and end offset are known at both observations."""
        earlier = {row.tp: row for row in self.first.partitions if _is_known(row)}
        return {
            row.tp: Movement(earlier[row.tp], row) for row in self.partitions if _is_known(row) and row.tp in earlier
        }

    def request_errors(self) -> Iterator[KcliError]:
        """Return the errors of the requests themselves, without missing topics and leaders, which are findings."""
        for error in (self.second.error, *(row.error for row in self.partitions)):
            if error is not None and not (isinstance(error, BrokerError) and error.code in _FINDINGS):
                yield error

    def missing_topics(self) -> Iterator[tuple[str, KcliError]]:
        """Yield topics of the group that could not be described, with their errors."""
        for name, topic in sorted(self.surroundings.topics.items(), key=itemgetter(0)):
            if isinstance(topic, KcliError):
                yield name, topic

    def topic(self, name: str) -> TopicInfo | None:
        """Return the metadata of a topic; None if it could not be described."""
        topic = self.surroundings.topics.get(name)
        return None if isinstance(topic, KcliError) else topic


def _is_known(row: PartitionLag) -> bool:
    return row.committed is not None and row.end is not None and row.lag is not None


def _offset(row: PartitionLag) -> int:
    assert row.committed is not None
    return row.committed.offset
