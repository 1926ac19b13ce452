"""An offset store over logs in memory; tests can fail its appends, restart it, and read its records."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

from kcli.broker.cluster.cluster_values import PartitionState
from kcli.broker.config import BrokerConfig
from kcli.broker.group.expiry import GroupFacts
from kcli.broker.group.group_records import KeyAndValue, group_record
from kcli.broker.group.offset_store import GroupLog, NewOffset, OffsetStore
from kcli.broker.log.log_config import LogConfig
from kcli.clock import ManualClock
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from kcli.protocol.records.scan import read_pairs
from kcli.structs import OFFSETS_TOPIC, TopicPartition

NOW_MS = 1_795_000_000_000
DAY_MS = 86_400_000


class MemoryLog:
    """A log of batches with assigned offsets. Reads end at a segment boundary after every third batch."""

    def __init__(self) -> None:
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.max_decompressed_bytes = 1 << 20
        self.batches: list[tuple[int, bytes]] = []

    def append(self, data: bytes) -> None:
        """Append a batch; its records get the next offsets."""
        (last_delta,) = struct.unpack_from(">i", data, 23)
        self.batches.append((self.log_end_offset, struct.pack(">q", self.log_end_offset) + data[8:]))
        self.log_end_offset += last_delta + 1

    def read(self, offset: int, max_bytes: int, *, upto: int, min_one_message: bool) -> Any:
        """Read as `Log.read` does, with bytes in place of a slice."""
        index = max(i for i, (base, _) in enumerate(self.batches) if base <= offset)
        return SimpleNamespace(records=b"".join(data for _, data in self.batches[index : index // 3 * 3 + 3]))


class MemoryReplicas:
    """The part of ReplicaManager that the store uses. `failure` is the error of appends after `fail_after` more."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self.failure: ErrorCode | None = None
        self.fail_after = 0

    def append_internal(self, tp: TopicPartition, batch: bytes, now_wall_ms: int, verification: Any = None) -> None:
        if self.failure is not None and self.fail_after == 0:
            raise BrokerError(self.failure)
        self.fail_after = max(0, self.fail_after - 1)
        if len(batch) > LogConfig().max_message_bytes:
            raise BrokerError(ErrorCode.MESSAGE_TOO_LARGE)
        self.logs[tp].append(batch)

    def partition(self, tp: TopicPartition) -> Any:
        return SimpleNamespace(log=self.logs[tp]) if tp in self.logs else None


def new_partitions(count: int) -> dict[int, PartitionState]:
    return {number: PartitionState((1,), (1,), 1) for number in range(count)}


class Topics:
    """The part of ClusterView that the store and its handlers use."""

    def __init__(self, replicas: MemoryReplicas, offsets_partitions: int = 50) -> None:
        self.topics: dict[str, Any] = {}
        self.features = {"group.version": 1}
        self._ids = 0
        self.add(OFFSETS_TOPIC, offsets_partitions)
        for number in range(offsets_partitions):
            replicas.logs.setdefault(TopicPartition(OFFSETS_TOPIC, number), MemoryLog())

    def add(self, name: str, partitions: int = 4) -> UUID:
        """Add a topic with a new topic id."""
        self._ids += 1
        topic_id = UUID(int=self._ids)
        self.topics[name] = SimpleNamespace(name=name, topic_id=topic_id, partitions=new_partitions(partitions))
        return topic_id

    def topic_by_id(self, topic_id: UUID) -> Any:
        return next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)


class Groups:
    """A GroupRegistry whose facts tests set; `restored` are the restored groups."""

    def __init__(self) -> None:
        self.known: dict[str, GroupFacts] = {}
        self.restored: dict[str, GroupMetadataValue | None] = {}

    def restore(self, group_id: str, value: GroupMetadataValue | None) -> None:
        self.restored[group_id] = value
        self.known.setdefault(group_id, GroupFacts("Empty", value.protocol_type if value else None, None))

    def facts(self, group_id: str) -> GroupFacts | None:
        return self.known.get(group_id)

    def tombstones(self, group_id: str) -> list[KeyAndValue]:
        return [group_record(group_id, None)]

    def forget(self, group_id: str) -> None:
        del self.known[group_id]

    def group_ids(self) -> list[str]:
        return list(self.known)


def load_all(offsets: OffsetStore, topics: Any) -> None:
    """Read all partitions of __consumer_offsets, as their leader does."""
    topic = topics.topics.get(OFFSETS_TOPIC)
    for number in topic.partitions if topic else ():
        for _ in offsets.load_partition(number):
            pass


class Written(NamedTuple):
    """A decoded record of __consumer_offsets."""

    key: OffsetCommitKey | GroupMetadataKey | None
    value: Any


class StoreHarness:
    """A store with the topics "orders" and "clicks", with four partitions each."""

    def __init__(self, **settings: Any) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig.from_properties(named)
        self.clock = ManualClock(wall_ms=NOW_MS)
        self.replicas = MemoryReplicas()
        self.cluster = Topics(self.replicas, self.config.offsets_topic_num_partitions)
        self.cluster.add("orders")
        self.cluster.add("clicks")
        self.start()

    def start(self) -> None:
        """Start a broker over the existing logs."""
        self.groups = Groups()
        self.group_log = GroupLog(self.config, self.replicas, self.cluster)  # type: ignore[arg-type]
        self.offsets = OffsetStore(self.config, self.replicas, self.cluster, self.clock)  # type: ignore[arg-type]
        self.offsets.register(self.groups)
        load_all(self.offsets, self.cluster)

    def commit(self, group_id: str, *offsets: tuple[TopicPartition, int], **more: Any) -> list[ErrorCode]:
        """Commit at the current time, without metadata."""
        new = [NewOffset(partition, offset) for partition, offset in offsets]
        return self.offsets.commit(group_id, new, self.clock.wall_ms(), **more)

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group."""
        return {partition: found.offset for partition, found in self.offsets.fetch(group_id).items()}

    def written(self, group_id: str) -> list[Written]:
        """Return all records in the partition of a group."""
        log = self.replicas.logs[TopicPartition(OFFSETS_TOPIC, self.group_log.partition_for(group_id))]
        return [_read(key, value) for _, data in log.batches for _, key, value in read_pairs(memoryview(data))]


def _read(raw_key: bytes | None, value: bytes | None) -> Written:
    key = decode_key(raw_key or b"")
    if value is None:
        return Written(key, None)
    decode: Any = decode_offset_value if isinstance(key, OffsetCommitKey) else decode_group_value
    return Written(key, decode(value))


def orders(partition: int) -> TopicPartition:
    return TopicPartition("orders", partition)


def clicks(partition: int) -> TopicPartition:
    return TopicPartition("clicks", partition)
