"""__consumer_offsets as a log of keyed records: the partition of a group, appends, and the replay at start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from kcli.broker.group.group_records import KeyAndValue, Replay
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords
from kcli.protocol.records import batch as layout
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.compression import CODEC_IDS
from kcli.protocol.records.record import NewRecord
from kcli.structs import OFFSETS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.cluster_state import ClusterState
    from kcli.broker.config import BrokerConfig
    from kcli.broker.log.log import Log
    from kcli.broker.replica_manager import ReplicaManager

READ_BYTES = 1 << 20
_CODECS = {number: name for name, number in CODEC_IDS.items()}

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
    """Translate the error of a failed append into the one that a group's client gets, as Kafka's coordinator does.

    Most of these make the client look up the coordinator again.
    """
    return _COORDINATOR_ERRORS.get(error, error)


def group_hash(group_id: str) -> int:
    """Java's String.hashCode of the group id (over UTF-16 units) without its sign, as in Kafka's Utils.abs.

    Integer.MIN_VALUE, which has no positive counterpart, becomes 0.
    """
    data = group_id.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return value if value < 1 << 31 else (1 << 32) - value & 0x7FFFFFFF


class GroupLog:
    """Appends to __consumer_offsets and reads of it. An append is atomic; the first one creates the topic."""

    def __init__(self, config: BrokerConfig, replica_manager: ReplicaManager, cluster: ClusterState) -> None:
        self._config = config
        self._replica_manager = replica_manager
        self._cluster = cluster

    def __repr__(self) -> str:
        return f"<GroupLog {OFFSETS_TOPIC} partitions={self.partition_count}>"

    @property
    def partition_count(self) -> int:
        """The topic's number of partitions, or the configured one before it exists."""
        topic = self._cluster.topics.get(OFFSETS_TOPIC)
        return topic.partitions if topic else self._config.offsets_topic_num_partitions

    def partition_for(self, group_id: str) -> int:
        """Return the partition of all records of a group."""
        return group_hash(group_id) % self.partition_count

    def append(self, group_id: str, records: Sequence[KeyAndValue], now_wall_ms: int) -> ErrorCode:
        """Write the records as one batch to the group's partition; NONE once they are in the log."""
        codec = _CODECS[self._config.offsets_topic_compression_codec]
        rows = [NewRecord(key, value, now_wall_ms) for key, value in records]
        # Kafka's coordinator sets base sequence 0 although its batches have no producer id.
        data = build_batch(rows, compression=codec, base_sequence=0)
        try:
            if OFFSETS_TOPIC not in self._cluster.topics:
                self._cluster.ensure_internal(OFFSETS_TOPIC)
            partition = TopicPartition(OFFSETS_TOPIC, self.partition_for(group_id))
            self._replica_manager.append_internal(partition, data, now_wall_ms)
        except BrokerError as error:
            return coordinator_error(error.code)
        return ErrorCode.NONE

    def replay(self, report: Callable[[str], None]) -> Replay:
        """Read all partitions. A damaged batch is reported and skipped."""
        replay = Replay()
        topic = self._cluster.topics.get(OFFSETS_TOPIC)
        for number in range(topic.partitions if topic else 0):
            partition = self._replica_manager.partition(TopicPartition(OFFSETS_TOPIC, number))
            if partition is None:
                report(
                    f"{OFFSETS_TOPIC}-{number} is not on this broker: the groups and offsets stored there are unknown"
                )
            elif partition.log.log_end_offset > partition.log.log_start_offset:
                _replay_log(partition.log, number, replay, report)
        return replay


def _replay_log(log: Log, number: int, replay: Replay, report: Callable[[str], None]) -> None:
    for data in _read_batches(log):
        try:
            replay.add_batch(number, data)
        except CorruptRecords as problem:
            base_offset = layout.PREFIX.unpack_from(data)[0]
            report(f"{OFFSETS_TOPIC}-{number}: the batch at offset {base_offset} was skipped: {problem}")


def _read_batches(log: Log) -> Iterator[memoryview]:
    offset, end = log.log_start_offset, log.log_end_offset
    while offset < end:
        records = log.read(offset, READ_BYTES, upto=end, min_one_message=True).records
        section = memoryview(bytes(records) if records else b"")
        walk = layout.walk_batches(section, 0, len(section))
        if not walk.starts:
            return
        for start, stop in zip(walk.starts, walk.ends, strict=True):
            yield section[start:stop]
        offset = layout.read_batch_info(section, walk.starts[-1]).last_offset + 1
