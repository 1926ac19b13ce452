"""Committed offsets and stored groups: kept in memory, changed only after __consumer_offsets has the change.

Whatever is acknowledged is in the log, and what is in the log is what a restart finds. An append that fails therefore
leaves the memory as it was, and the client its error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli.broker.group.expiry import CommittedOffset, GroupFacts, expired_offsets
from kcli.broker.group.group_log import GroupLog
from kcli.broker.group.group_records import group_record, load_into, offset_record
from kcli.broker.group.offset_cache import OffsetCache
from kcli.error_codes import ErrorCode
from kcli.protocol.offsets_topic import GroupMetadataValue
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.broker.cluster_state import ClusterState
    from kcli.broker.config import BrokerConfig
    from kcli.broker.replica_manager import ReplicaManager
    from kcli.clock import Clock

MINUTE_MS = 60_000
_TOMBSTONES_AT_ONCE = 1000  # a key has at most some 33 KB, in practice a hundred bytes


class NewOffset(NamedTuple):
    """What a group commits for one partition; metadata null is the empty note."""

    partition: TopicPartition
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class KnownGroups(Protocol):
    """What the store asks of the coordinator (second implementation: a dict in tests)."""

    def restore(self, group_id: str, value: GroupMetadataValue | None) -> None:
        """A stored group is back; None: one of which there are only offsets (a "simple" group), Empty."""

    def facts(self, group_id: str) -> GroupFacts | None:
        """What expiry must know; None for an unknown group."""

    def forget(self, group_id: str) -> None:
        """The group is Empty, has no offsets any more, and its tombstone is written."""

    def group_ids(self) -> Iterable[str]:
        """All groups there are."""


class OffsetStore:
    """Built before the coordinator; `load` makes them known to each other and must come before anything else."""

    def __init__(
        self, config: BrokerConfig, replica_manager: ReplicaManager, cluster: ClusterState, clock: Clock
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._log = GroupLog(config, replica_manager, cluster)
        self._cache = OffsetCache()
        self._groups: KnownGroups | None = None
        self._next_check_ms = clock.now_ms() + config.offsets_retention_check_interval_ms
        self.reports: list[str] = []

    def __repr__(self) -> str:
        return f"<OffsetStore {self._cache!r} {self._log!r}>"

    def partition_for(self, group_id: str) -> int:
        """The partition of __consumer_offsets that keeps this group."""
        return self._log.partition_for(group_id)

    def load(self, groups: KnownGroups) -> None:
        """Read all of __consumer_offsets and hand its groups to `groups`. What could not be read is in `reports`."""
        self._groups = groups
        load_into(self._cache, groups.restore, self._log.replay(self.reports.append), self.reports.append)

    def commit(
        self, group_id: str, offsets: Iterable[NewOffset], now_wall_ms: int, *, retention_ms: int = -1
    ) -> list[ErrorCode]:
        """Store offsets as one batch; an error for each in their order.

        A note longer than `offset.metadata.max.bytes` is refused for its partition alone. `retention_ms` other than -1
        is the committer's own retention (OffsetCommit v2 to v4). Whether the group may commit was checked before; one
        that was unknown until now becomes a simple group once the append has succeeded.
        """
        offsets = list(offsets)
        expire_ms = -1 if retention_ms == -1 else now_wall_ms + retention_ms
        errors = [self._check_note(new.metadata) for new in offsets]
        accepted = [
            (new.partition, self._committed(new, now_wall_ms, expire_ms))
            for new, error in zip(offsets, errors, strict=True)
            if error is ErrorCode.NONE
        ]
        if not accepted:
            return errors
        stored = self._log.append(group_id, [offset_record(group_id, *one) for one in accepted], now_wall_ms)
        if stored is ErrorCode.NONE:
            self._cache.put(group_id, accepted)
            self._know(group_id)
        return [stored if error is ErrorCode.NONE else error for error in errors]

    def fetch(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """The offsets that there are for these partitions, or for all. A topic has not its deleted namesake's."""
        offsets = self._cache.of_group(group_id)
        wanted = offsets if partitions is None else partitions
        return {p: offsets[p] for p in wanted if p in offsets and self._is_of_this_topic(p, offsets[p])}

    def is_unstable(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether an open transaction may still change what is committed (KIP-447)."""
        return self._cache.is_unstable(group_id, partition)

    def delete(self, group_id: str, partitions: Iterable[TopicPartition], now_wall_ms: int) -> ErrorCode:
        """Forget these offsets, where there are any. Whether the group allows it was checked before."""
        known = set(self._cache.partitions_to_forget(group_id))
        return self._forget(group_id, [p for p in dict.fromkeys(partitions) if p in known], now_wall_ms)

    def delete_group(self, group_id: str, now_wall_ms: int) -> ErrorCode:
        """Forget the group with all its offsets."""
        return self._forget(group_id, self._cache.partitions_to_forget(group_id), now_wall_ms, with_group=True)

    def store_group(self, group_id: str, value: GroupMetadataValue | None, now_wall_ms: int) -> ErrorCode:
        """Store the state of a group after a generation; None deletes it and leaves its offsets."""
        return self._log.append(group_id, [group_record(group_id, value)], now_wall_ms)

    def expire(self, now_wall_ms: int) -> list[str]:
        """Drop offsets that had their time, and Empty groups that are left without any; the groups that went."""
        groups = self._known_groups()
        gone = []
        for group_id in list(groups.group_ids()):
            facts = groups.facts(group_id)
            if facts is not None and self._expire_group(group_id, facts, now_wall_ms):
                groups.forget(group_id)
                gone.append(group_id)
        return gone

    def tick(self, now_ms: float, now_wall_ms: int) -> float:
        """Expire when it is time to; when that is next (on the clock of `now_ms`)."""
        if now_ms >= self._next_check_ms:
            self._next_check_ms = now_ms + self._config.offsets_retention_check_interval_ms
            self.expire(now_wall_ms)
        return self._next_check_ms

    def forget_topic(self, topic: str, now_wall_ms: int) -> None:
        """The topic is deleted: so are all offsets in it, of every group. Members that read it do not keep them."""
        for group_id in list(self._cache.groups()):
            partitions = [p for p in self._cache.partitions_to_forget(group_id) if p.topic == topic]
            error = self._forget(group_id, partitions, now_wall_ms)
            if error is not ErrorCode.NONE:
                self.reports.append(f"offsets of group {group_id} in deleted topic {topic} are kept: {error.name}")

    def _expire_group(self, group_id: str, facts: GroupFacts, now_wall_ms: int) -> bool:
        """Whether the group itself is gone."""
        offsets = self._cache.of_group(group_id)
        retention_ms = self._config.offsets_retention_minutes * MINUTE_MS
        expired = [
            partition
            for partition in expired_offsets(offsets, facts, now_wall_ms, retention_ms)
            if not self._cache.is_unstable(group_id, partition)
        ]
        is_over = (
            len(expired) == len(offsets) and facts.state == "Empty" and not self._cache.has_open_transaction(group_id)
        )
        return self._forget(group_id, expired, now_wall_ms, with_group=is_over) is ErrorCode.NONE and is_over

    def _forget(
        self, group_id: str, partitions: Sequence[TopicPartition], now_wall_ms: int, *, with_group: bool = False
    ) -> ErrorCode:
        """Tombstones first, then the memory; in pieces, so that none is too large for the log."""
        records = [offset_record(group_id, partition, None) for partition in partitions]
        if with_group:
            records.append(group_record(group_id, None))
        for start in range(0, len(records), _TOMBSTONES_AT_ONCE):
            piece = slice(start, start + _TOMBSTONES_AT_ONCE)
            error = self._log.append(group_id, records[piece], now_wall_ms)
            if error is not ErrorCode.NONE:
                return error
            self._cache.remove(group_id, partitions[piece])
        return ErrorCode.NONE

    def _committed(self, new: NewOffset, now_wall_ms: int, expire_ms: int) -> CommittedOffset:
        topic_id = self._topic_id(new.partition.topic)
        return CommittedOffset(new.offset, new.leader_epoch, new.metadata or "", now_wall_ms, expire_ms, topic_id)

    def _check_note(self, note: str | None) -> ErrorCode:
        """Its length in UTF-16 units, as Java counts, may not pass the limit."""
        limit = self._config.offset_metadata_max_bytes
        if not note or 2 * len(note) <= limit or len(note.encode("utf-16-le", "surrogatepass")) // 2 <= limit:
            return ErrorCode.NONE
        return ErrorCode.OFFSET_METADATA_TOO_LARGE

    def _is_of_this_topic(self, partition: TopicPartition, committed: CommittedOffset) -> bool:
        """Not so when the topic was deleted and made again, and the offset's tombstone did not get into the log."""
        topic_id = self._topic_id(partition.topic)
        return topic_id is None or committed.topic_id is None or topic_id == committed.topic_id

    def _topic_id(self, name: str) -> UUID | None:
        topic = self._cluster.topics.get(name)
        return topic.topic_id if topic else None

    def _know(self, group_id: str) -> None:
        groups = self._known_groups()
        if groups.facts(group_id) is None:
            groups.restore(group_id, None)

    def _known_groups(self) -> KnownGroups:
        if self._groups is None:
            raise ValueError("the offset store was not loaded")
        return self._groups
