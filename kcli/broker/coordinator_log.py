"""Internal topics in which a coordinator keeps keyed records: the partition of a key, appends, and the replay.

Groups are in __consumer_offsets, transactional ids in __transaction_state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from kcli.broker.log.file_records import has_valid_checksum
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords, RecordTooLarge
from kcli.protocol.records import batch as layout
from kcli.protocol.records.scan import read_pairs
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.cluster.view import ClusterView
    from kcli.broker.log.log import Log
    from kcli.broker.log.producer_checks import Verification
    from kcli.broker.replica_manager import ReplicaManager
    from kcli.protocol.records.scan import Pair

#: `add(partition number, whole batch, its keys and values)`; CorruptRecords if they are not valid.
AddBatch: TypeAlias = Callable[[int, layout.BatchInfo, "list[Pair]"], None]

READ_BYTES = 1 << 20

_COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """Translate the error of a failed append into the one that the client of a coordinator gets, as in Kafka.

    Most of these make the client look up the coordinator again.
    """
    return _COORDINATOR_ERRORS.get(error, error)


@lru_cache(1000)
def key_hash(key: str) -> int:
    """Java's String.hashCode of an id (over UTF-16 units) without its sign, as in Kafka's Utils.abs.

    Integer.MIN_VALUE, which has no positive counterpart, becomes 0.
    """
    data = key.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return value if value < 1 << 31 else (1 << 32) - value & 0x7FFFFFFF


def find_coordinator(cluster: ClusterView, topic: str, key: str) -> int:
    """Return the id of the broker that coordinates a key: the leader of the key's partition in the internal topic.

    -1 if that partition has no leader now, or the topic does not exist.
    """
    found = cluster.topics.get(topic)
    if found is None:
        return -1
    state = cluster.partition_state(TopicPartition(topic, key_hash(key) % len(found.partitions)))
    return -1 if state is None else state.leader


class CoordinatorLog:
    """Appends to the internal topic of a coordinator and reads of it. FindCoordinator creates the topic."""

    def __init__(
        self, topic: str, replica_manager: ReplicaManager, cluster: ClusterView, *, default_count: int, content: str
    ) -> None:
        """`default_count`: the configured number of partitions. `content`: what is stored, for messages."""
        self.topic = topic
        self._replica_manager = replica_manager
        self._cluster = cluster
        self._default_count = default_count
        self._content = content

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.topic} partitions={self.partition_count}>"

    @property
    def partition_count(self) -> int:
        """The topic's number of partitions, or the configured one before it exists."""
        topic = self._cluster.topics.get(self.topic)
        return len(topic.partitions) if topic else self._default_count

    def partition_for(self, key: str) -> int:
        """Return the partition of all records of a group or transactional id."""
        return key_hash(key) % self.partition_count

    def append_batch(
        self, key: str, batch: bytes, now_wall_ms: int, verification: Verification | None = None
    ) -> ErrorCode:
        """Write a batch of records to the key's partition; NONE once they are in the log.

        `verification` is that of the client's transaction in which the records are.
        """
        try:
            partition = TopicPartition(self.topic, self.partition_for(key))
            self._replica_manager.append_internal(partition, batch, now_wall_ms, verification)
        except BrokerError as error:
            return coordinator_error(error.code)
        return ErrorCode.NONE

    def replay_partition(self, number: int, add_batch: AddBatch, report: Callable[[str], None]) -> Iterator[None]:
        """Read one partition up to its present end; yield after each section. A damaged batch is reported."""
        partition = self._replica_manager.partition(TopicPartition(self.topic, number))
        if partition is None:
            report(f"{self.topic}-{number} is not on this broker: the {self._content} stored there are unknown")
        elif partition.log.log_end_offset > partition.log.log_start_offset:
            for section in _read_sections(partition.log):
                for data in section:
                    self._replay_batch(data, number, partition.log.max_decompressed_bytes, add_batch, report)
                yield

    def _replay_batch(
        self, data: memoryview, number: int, max_bytes: int, add_batch: AddBatch, report: Callable[[str], None]
    ) -> None:
        info = layout.read_batch_info(data)
        try:
            if info.magic == 2 and not has_valid_checksum(info):
                raise CorruptRecords("its checksum is wrong")
            add_batch(number, info, read_pairs(memoryview(info.records), max_bytes))
        except (CorruptRecords, RecordTooLarge) as problem:
            report(f"{self.topic}-{number}: the batch at offset {info.base_offset} was skipped: {problem}")


def _read_sections(log: Log) -> Iterator[list[memoryview]]:
    """Read the log in sections of about READ_BYTES, each as its whole batches."""
    offset, end = log.log_start_offset, log.log_end_offset
    while offset < end:
        records = log.read(offset, READ_BYTES, upto=end, min_one_message=True).records
        section = memoryview(bytes(records) if records else b"")
        walk = layout.walk_batches(section, 0, len(section))
        if not walk.starts:
            return
        yield [section[start:stop] for start, stop in zip(walk.starts, walk.ends, strict=True)]
        offset = layout.read_batch_info(section, walk.starts[-1]).last_offset + 1
