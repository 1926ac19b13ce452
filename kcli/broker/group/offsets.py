"""Committed offsets: kept in memory, changed only after __consumer_offsets has the change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli.broker.group.expiry import CommittedOffset, GroupFacts
from kcli.error_codes import ErrorCode
from kcli.protocol.offsets_topic import GroupMetadataValue
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.cluster import Cluster
    from kcli.broker.config import BrokerConfig
    from kcli.broker.replica_manager import ReplicaManager
    from kcli.clock import Clock


class NewOffset(NamedTuple):
    """What a group commits for one partition; metadata null is the empty note."""

    partition: TopicPartition
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class KnownGroups(Protocol):
    """What the store asks of the coordinator (second implementation: a dict in tests)."""

    def restore(self, group_id: str, value: GroupMetadataValue | None) -> None:
        """At load: a stored group; None for one that has only offsets (a "simple" group)."""

    def facts(self, group_id: str) -> GroupFacts | None:
        """What expiry and OffsetDelete must know; None for an unknown group."""

    def forget(self, group_id: str) -> None:
        """The group is empty, has no offsets left, and its tombstone is written."""

    def group_ids(self) -> Iterable[str]:
        """All groups there are."""


class OffsetStore:
    def __init__(
        self, config: BrokerConfig, replica_manager: ReplicaManager, cluster: Cluster, clock: Clock
    ) -> None: ...

    def partition_for(self, group_id: str) -> int: ...
    def load(self, groups: KnownGroups) -> None: ...
    def commit(
        self, group_id: str, offsets: Iterable[NewOffset], now_wall_ms: int, *, retention_ms: int = -1
    ) -> dict[TopicPartition, ErrorCode]: ...
    def fetch(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, CommittedOffset]: ...
    def delete(
        self, group_id: str, partitions: Iterable[TopicPartition], now_wall_ms: int
    ) -> dict[TopicPartition, ErrorCode]: ...
    def delete_group(self, group_id: str, now_wall_ms: int) -> ErrorCode: ...
    def store_group(self, group_id: str, value: GroupMetadataValue | None, now_wall_ms: int) -> ErrorCode: ...
    def expire(self, now_wall_ms: int) -> list[str]: ...
    def tick(self, now_ms: float, now_wall_ms: int) -> float: ...
    def forget_topic(self, topic: str, now_wall_ms: int) -> None: ...
