"""The facts about a group that the rules of `explain` judge: two looks at it, and what lies around. Pure data."""

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
    from kcli.client.metadata import TopicInfo

_FINDINGS = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
REBALANCING = {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady"}


class Retention(NamedTuple):
    """How a topic's records are deleted: after `ms`, or when a partition is above `bytes`; None: never for that."""

    ms: int | None
    bytes: int | None


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition since `start_offset`, and holds the last stable offset back.

    `last_write_ms` and `started_ms` are wall-clock times. Name, state, start and time-out are the coordinator's; None
    where no coordinator knows of it, or none told. `hanging`: every coordinator was heard, and none knows of it.
    """

    tp: TopicPartition
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_write_ms: int = -1
    transactional_id: str | None = None
    state: str | None = None
    started_ms: int | None = None
    timeout_ms: int | None = None
    hanging: bool = False


class Surroundings(NamedTuple):
    """What lies around the group at the second look; what could not be had is absent.

    `topics`: the metadata of every topic that is committed, owned or subscribed to; an error for one that is not there.
    `stable_ends`: last stable offsets at the first and the second look, of partitions with a lag. `log_bytes`: sizes of
    partitions with a limit on them. `wall_ms`: the time of day.
    """

    wall_ms: int
    topics: Mapping[str, TopicInfo | KcliError] = {}
    retention: Mapping[str, Retention] = {}
    stable_ends: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]] = ({}, {})
    transactions: tuple[OpenTransaction, ...] = ()
    log_bytes: Mapping[TopicPartition, int] = {}


class Movement(NamedTuple):
    """A partition at both looks, its committed offset and the ends of its log known at each."""

    first: PartitionLag
    second: PartitionLag

    @property
    def tp(self) -> TopicPartition:
        return self.second.tp

    @property
    def consumed(self) -> int:
        """How far the committed offset went between the looks; negative when it was put back."""
        return _offset(self.second) - _offset(self.first)

    @property
    def produced(self) -> int:
        """How far the end went between the looks."""
        return (self.second.end or 0) - (self.first.end or 0)

    @property
    def lag(self) -> int:
        return self.second.lag or 0


class Observations:
    """Two looks at one group, and what lies around it."""

    def __init__(self, first: GroupSurvey, second: GroupSurvey, around: Surroundings) -> None:
        self.first = first
        self.second = second
        self.around = around

    def __repr__(self) -> str:
        return f"<Observations {self.group.group} {self.group.state} over {self.elapsed_ms:.0f} ms>"

    @property
    def before(self) -> Group:
        """The group at the first look."""
        return self.first.group

    @property
    def group(self) -> Group:
        """The group at the second look."""
        return self.second.group

    @property
    def partitions(self) -> list[PartitionLag]:
        """The partitions at the second look."""
        return self.second.partitions

    @property
    def elapsed_ms(self) -> float:
        """The time between the looks at the ends of the logs, at least a millisecond."""
        return max(1.0, self.second.ends_ms - self.first.ends_ms)

    @property
    def committing_ms(self) -> float:
        """The time between the looks at what is committed, at least a millisecond."""
        return max(1.0, self.second.committed_ms - self.first.committed_ms)

    @property
    def commits(self) -> bool:
        """Is it a group that commits offsets? Share groups acknowledge records one by one."""
        return self.group.type in (CLASSIC, CONSUMER, STREAMS)

    @property
    def at_rest(self) -> bool:
        """Stable at both looks, with the same members and epoch: what members own is what they were to have."""
        ids = [{member.id for member in group.members} for group in (self.before, self.group)]
        same = ids[0] == ids[1] and self.before.epoch == self.group.epoch
        return same and self.before.state == self.group.state == "Stable"

    @cached_property
    def rows(self) -> dict[TopicPartition, PartitionLag]:
        """The partitions at the second look, by name."""
        return {row.tp: row for row in self.partitions}

    @cached_property
    def movements(self) -> dict[TopicPartition, Movement]:
        """Partitions whose committed offset and end are known at both looks."""
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
        """Topics that the group knows, but that could not be described."""
        for name, topic in sorted(self.around.topics.items(), key=itemgetter(0)):
            if isinstance(topic, KcliError):
                yield name, topic

    def topic(self, name: str) -> TopicInfo | None:
        """The topic as the cluster describes it; None if it did not."""
        found = self.around.topics.get(name)
        return None if isinstance(found, KcliError) else found


def _is_known(row: PartitionLag) -> bool:
    return row.committed is not None and row.end is not None and row.lag is not None


def _offset(row: PartitionLag) -> int:
    assert row.committed is not None
    return row.committed.offset
