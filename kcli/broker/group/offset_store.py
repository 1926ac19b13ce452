"""OffsetStore: committed offsets and stored groups, in memory and in __consumer_offsets.

The memory changes only after the append has succeeded: every acknowledged commit is in the log, and a restart reads the
log. A failed append therefore leaves the memory unchanged and returns its error to the client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli.broker.coordinator_log import CoordinatorLog
from kcli.broker.group.expiry import CommittedOffset, GroupFacts, expired_offsets
from kcli.broker.group.group_records import KeyAndValue, Replay, group_record, load_replay, offset_record
from kcli.broker.group.offset_cache import OffsetCache
from kcli.error_codes import ErrorCode
from kcli.protocol.offsets_topic import GroupMetadataValue
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.compression import CODEC_IDS
from kcli.protocol.records.record import NewRecords
from kcli.settings import LONG_MAX
from kcli.structs import OFFSETS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.broker.cluster.view import ClusterView
    from kcli.broker.config import BrokerConfig
    from kcli.broker.group.consumer_group import ConsumerGroup
    from kcli.broker.log.producer_checks import Verification
    from kcli.broker.replica_manager import ReplicaManager
    from kcli.clock import Clock

MINUTE_MS = 60_000
_NO_PRODUCER = (-1, -1)
_CODECS = {number: name for name, number in CODEC_IDS.items()}
_TOMBSTONES_PER_BATCH = 1000  # a key has at most about 33 KB, usually a hundred bytes


class NewOffset(NamedTuple):
    """An offset to commit for one partition; metadata None is stored as ""."""

    partition: TopicPartition
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class GroupRegistry(Protocol):
    """The groups known to the coordinator (second implementation: a dict in tests)."""

    def restore(self, group_id: str, value: GroupMetadataValue | ConsumerGroup | None) -> None:
        """Add a stored group; None: an Empty group that only has offsets (a "simple" group)."""

    def tombstones(self, group_id: str) -> list[KeyAndValue]:
        """Return the tombstones of all records of a group, without those of its offsets."""

    def facts(self, group_id: str) -> GroupFacts | None:
        """Return the facts that expiry depends on; None for an unknown group."""

    def forget(self, group_id: str) -> None:
        """Drop a group that is Empty, has no offsets left, and whose tombstone is written."""

    def unload(self, group_id: str) -> None:
        """Drop a group that another broker coordinates from now on."""

    def group_ids(self) -> Iterable[str]:
        """Return the names of all groups."""


class GroupLog(CoordinatorLog):
    """Appends to __consumer_offsets and reads of it. An append is atomic."""

    def __init__(self, config: BrokerConfig, replica_manager: ReplicaManager, cluster: ClusterView) -> None:
        count = config.offsets_topic_num_partitions
        super().__init__(OFFSETS_TOPIC, replica_manager, cluster, default_count=count, content="groups and offsets")
        self._config = config

    def append(
        self,
        group_id: str,
        records: Sequence[KeyAndValue],
        now_wall_ms: int,
        *,
        producer: tuple[int, int] = _NO_PRODUCER,
        verification: Verification | None = None,
    ) -> ErrorCode:
        """Write the records as one batch to the group's partition; NONE once they are in the log.

        `producer`: the id and epoch of the producer in whose transaction they are; `verification`: that transaction's.
        """
        codec = _CODECS[self._config.offsets_topic_compression_codec]
        columns = NewRecords([value for _, value in records], now_wall_ms, [key for key, _ in records])
        id, epoch = producer
        # Kafka's coordinator sets base sequence 0 in all its batches, with and without a producer id.
        batch = build_batch(
            columns, compression=codec, producer_id=id, producer_epoch=epoch, base_sequence=0, transactional=id >= 0
        )
        return self.append_batch(group_id, batch, now_wall_ms, verification)


class OffsetStore:
    """Committed offsets of all groups. Created before the coordinator; call `register` with that first."""

    def __init__(
        self, config: BrokerConfig, replica_manager: ReplicaManager, cluster: ClusterView, clock: Clock
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._log = GroupLog(config, replica_manager, cluster)
        self._cache = OffsetCache()
        self._groups: GroupRegistry | None = None
        self._next_check_ms = clock.now_ms() + config.offsets_retention_check_interval_ms
        self.reports: list[str] = []

    def __repr__(self) -> str:
        return f"<OffsetStore {self._cache!r} {self._log!r}>"

    def register(self, groups: GroupRegistry) -> None:
        """Restore groups into these from now on."""
        self._groups = groups

    def load_partition(self, number: int) -> Iterator[None]:
        """Read one partition of __consumer_offsets and restore its groups at the end; yield after each section.

        Unreadable records go to `reports`.
        """
        replay = Replay()
        yield from self._log.replay_partition(number, replay.add_batch, self.reports.append)
        load_replay(replay, self._cache, self._registry().restore, self.reports.append)

    def unload(self, belongs: Callable[[str], bool]) -> None:
        """Drop the groups and offsets of the group ids for which `belongs` is true. The log keeps them."""
        groups = self._registry()
        for group_id in [group_id for group_id in groups.group_ids() if belongs(group_id)]:
            groups.unload(group_id)
        for group_id in [group_id for group_id in self._cache.groups() if belongs(group_id)]:
            self._cache.remove(group_id, self._cache.partitions_of(group_id))

    def commit(
        self, group_id: str, offsets: Iterable[NewOffset], now_wall_ms: int, *, retention_ms: int = -1
    ) -> list[ErrorCode]:
        """Store offsets as one batch; return an error code for each, in their order.

        The caller has checked that the group may commit. Metadata longer than `offset.metadata.max.bytes` is refused
        for its partition alone. A `retention_ms` other than -1 is the client's own retention (OffsetCommit v2 to v4).
        An unknown group becomes a simple group once the append has succeeded.
        """
        expire_ms = -1 if retention_ms == -1 else min(now_wall_ms + retention_ms, LONG_MAX)
        return self._store(group_id, list(offsets), now_wall_ms, expire_ms=expire_ms)

    def commit_pending(
        self,
        group_id: str,
        producer_id: int,
        producer_epoch: int,
        offsets: Iterable[NewOffset],
        now_wall_ms: int,
        verification: Verification | None = None,
    ) -> list[ErrorCode]:
        """Store offsets of a transaction as one batch; they are committed when the transaction is (KIP-98).

        See `commit`. `verification` says that the group's partition takes part in the transaction; INVALID_TXN_STATE
        without it, unless the log has the transaction already. As in Apache Kafka, these offsets have no topic id.
        """
        producer = producer_id, producer_epoch
        return self._store(group_id, list(offsets), now_wall_ms, producer=producer, verification=verification)

    def end_transaction(self, partition_number: int, producer_id: int, *, is_commit: bool) -> None:
        """Commit or drop a producer's pending offsets, after its marker was appended to this partition."""
        self._cache.end_transaction((partition_number, producer_id), is_commit=is_commit)

    def partition_for(self, group_id: str) -> TopicPartition:
        """Return the partition of __consumer_offsets that has the records of a group."""
        return TopicPartition(OFFSETS_TOPIC, self._log.partition_for(group_id))

    def fetch(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of these partitions, or all. Offsets of a deleted topic's id are left out."""
        offsets = self._cache.of_group(group_id)
        wanted = offsets if partitions is None else partitions
        return {p: offsets[p] for p in wanted if p in offsets and self._has_current_topic_id(p, offsets[p])}

    def is_unstable(self, group_id: str, partition: TopicPartition) -> bool:
        """Return whether an open transaction may still change the committed offset (KIP-447)."""
        return self._cache.is_unstable(group_id, partition)

    def delete(self, group_id: str, partitions: Iterable[TopicPartition], now_wall_ms: int) -> ErrorCode:
        """Delete these offsets, where they exist. The caller has checked that the group's state allows it."""
        known = set(self._cache.partitions_of(group_id))
        return self._delete(group_id, [p for p in dict.fromkeys(partitions) if p in known], now_wall_ms)

    def delete_group(self, group_id: str, now_wall_ms: int) -> ErrorCode:
        """Delete the group's record and all its offsets."""
        return self._delete(group_id, self._cache.partitions_of(group_id), now_wall_ms, with_group=True)

    def store_group(self, group_id: str, value: GroupMetadataValue | None, now_wall_ms: int) -> ErrorCode:
        """Store a group's state; None deletes the group's record and keeps its offsets."""
        return self._log.append(group_id, [group_record(group_id, value)], now_wall_ms)

    def store_records(self, group_id: str, records: Sequence[KeyAndValue], now_wall_ms: int) -> ErrorCode:
        """Store records of a consumer group (KIP-848) as one batch."""
        return self._log.append(group_id, records, now_wall_ms)

    def expire(self, now_wall_ms: int) -> list[str]:
        """Delete expired offsets, and Empty groups without any offset left; return the deleted groups."""
        groups = self._registry()
        deleted = []
        for group_id in list(groups.group_ids()):
            facts = groups.facts(group_id)
            if facts is not None and self._expire_group(group_id, facts, now_wall_ms):
                groups.forget(group_id)
                deleted.append(group_id)
        return deleted

    def tick(self, now_ms: float, now_wall_ms: int) -> float:
        """Expire offsets if a check is due; return the time of the next check (on the clock of `now_ms`)."""
        if now_ms >= self._next_check_ms:
            self._next_check_ms = now_ms + self._config.offsets_retention_check_interval_ms
            self.expire(now_wall_ms)
        return self._next_check_ms

    def forget_topic(self, topic: str, now_wall_ms: int) -> None:
        """Delete all groups' offsets in a deleted topic, even if members still subscribe to it."""
        for group_id in list(self._cache.groups()):
            partitions = [p for p in self._cache.partitions_of(group_id) if p.topic == topic]
            error = self._delete(group_id, partitions, now_wall_ms)
            if error is not ErrorCode.NONE:
                self.reports.append(
                    f"offsets of group {group_id} in deleted topic {topic} could not be deleted: {error.name}"
                )

    def _expire_group(self, group_id: str, facts: GroupFacts, now_wall_ms: int) -> bool:
        """Delete a group's expired offsets; True if the group itself was deleted too."""
        offsets = self._cache.of_group(group_id)
        retention_ms = self._config.offsets_retention_minutes * MINUTE_MS
        expired = [
            partition
            for partition in expired_offsets(offsets, facts, now_wall_ms, retention_ms)
            if not self._cache.is_unstable(group_id, partition)
        ]
        delete_group = (
            len(expired) == len(offsets) and facts.state == "Empty" and not self._cache.has_open_transaction(group_id)
        )
        return self._delete(group_id, expired, now_wall_ms, with_group=delete_group) is ErrorCode.NONE and delete_group

    def _delete(
        self, group_id: str, partitions: Sequence[TopicPartition], now_wall_ms: int, *, with_group: bool = False
    ) -> ErrorCode:
        """Write tombstones, then update the memory; in several batches, so that none is too large for the log."""
        records = [offset_record(group_id, partition, None) for partition in partitions]
        if with_group:
            records += self._registry().tombstones(group_id)
        for start in range(0, len(records), _TOMBSTONES_PER_BATCH):
            section = slice(start, start + _TOMBSTONES_PER_BATCH)
            error = self._log.append(group_id, records[section], now_wall_ms)
            if error is not ErrorCode.NONE:
                return error
            self._cache.remove(group_id, partitions[section])
        return ErrorCode.NONE

    def _store(
        self,
        group_id: str,
        offsets: Sequence[NewOffset],
        now_wall_ms: int,
        *,
        expire_ms: int = -1,
        producer: tuple[int, int] = _NO_PRODUCER,
        verification: Verification | None = None,
    ) -> list[ErrorCode]:
        """Append the offsets whose metadata is short enough; a group that is not known then is a simple group."""
        is_pending = producer is not _NO_PRODUCER
        errors = [self._check_metadata(new.metadata) for new in offsets]
        accepted = []
        for new, error in zip(offsets, errors, strict=True):
            if error is ErrorCode.NONE:
                topic_id = None if is_pending else self._topic_id(new.partition.topic)
                metadata = new.metadata or ""
                committed = CommittedOffset(new.offset, new.leader_epoch, metadata, now_wall_ms, expire_ms, topic_id)
                accepted.append((new.partition, committed))
        if not accepted:
            return errors
        records = [offset_record(group_id, *row) for row in accepted]
        stored = self._log.append(group_id, records, now_wall_ms, producer=producer, verification=verification)
        if stored is ErrorCode.NONE:
            if is_pending:
                self._cache.put_pending((self._log.partition_for(group_id), producer[0]), group_id, accepted)
            else:
                self._cache.put(group_id, accepted)
            self._restore_if_unknown(group_id)
        return [stored if error is ErrorCode.NONE else error for error in errors]

    def _check_metadata(self, metadata: str | None) -> ErrorCode:
        """Check the length of commit metadata, in UTF-16 units as Java counts."""
        limit = self._config.offset_metadata_max_bytes
        if not metadata or 2 * len(metadata) <= limit:
            return ErrorCode.NONE
        if len(metadata.encode("utf-16-le", "surrogatepass")) // 2 <= limit:
            return ErrorCode.NONE
        return ErrorCode.OFFSET_METADATA_TOO_LARGE

    def _has_current_topic_id(self, partition: TopicPartition, committed: CommittedOffset) -> bool:
        """False when the topic was deleted and recreated, and the append of the offset's tombstone failed."""
        topic_id = self._topic_id(partition.topic)
        return topic_id is None or committed.topic_id is None or topic_id == committed.topic_id

    def _topic_id(self, name: str) -> UUID | None:
        topic = self._cluster.topics.get(name)
        return topic.topic_id if topic else None

    def _restore_if_unknown(self, group_id: str) -> None:
        groups = self._registry()
        if groups.facts(group_id) is None:
            groups.restore(group_id, None)

    def _registry(self) -> GroupRegistry:
        if self._groups is None:
            raise ValueError("register() must be called before this method")
        return self._groups
