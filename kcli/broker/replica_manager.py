"""All partitions of this broker: writing to them, reading from them, and waking who waits for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from kcli.broker.delayed import (
    DelayedFetch,
    DelayedProduce,
    FetchParams,
    FetchTarget,
    ProduceOutcome,
    shared_deadline_ms,
)
from kcli.broker.fetch_sessions import FetchSessionCache
from kcli.broker.partition import FetchWanted, Partition, PartitionRead
from kcli.broker.pending import Pending
from kcli.broker.purgatory import Purgatory
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.log.log import AppendInfo
    from kcli.broker.log.log_config import LogConfig
    from kcli.broker.log_manager import LogManager
    from kcli.broker.timer import Timer
    from kcli.clock import Clock
    from kcli.protocol.primitives import Buffer

T = TypeVar("T")

ACKS_ALL = -1
_ACKS = (ACKS_ALL, 0, 1)


class ReplicaManager:
    """`partitions` by name. Everything happens in the broker's one thread."""

    def __init__(self, log_manager: LogManager, timer: Timer, clock: Clock, config: BrokerConfig) -> None:
        self.log_manager = log_manager
        self.config = config
        self.partitions: dict[TopicPartition, Partition] = {}
        self.fetches = Purgatory("fetch", timer)
        self.produces = Purgatory("produce", timer)
        self.fetch_sessions = FetchSessionCache(config.max_incremental_fetch_session_cache_slots)
        self._clock = clock
        self._topics: dict[UUID, str] = {}

    def __repr__(self) -> str:
        return f"<ReplicaManager {len(self.partitions)} partitions, {self.fetches!r}, {self.produces!r}>"

    def create_partition(self, tp: TopicPartition, topic_id: UUID, log_config: LogConfig) -> Partition:
        """Lead a partition, with the log that is on the disk or a new one. `OSError` when that cannot be made."""
        log = self.log_manager.create(tp, topic_id, log_config)
        self._topics[topic_id] = tp.topic
        partition = self.partitions[tp] = Partition(tp, topic_id, log)
        return partition

    def delete_partition(self, tp: TopicPartition) -> None:
        """Forget a partition and its log. Whoever waits for it is told that it is unknown (3)."""
        partition = self.partitions.pop(tp, None)
        if partition is None:
            return
        if not any(other.topic == tp.topic for other in self.partitions):
            self._topics.pop(partition.topic_id, None)
        self.log_manager.delete(tp)
        self._wake(tp)

    def partition(self, tp: TopicPartition) -> Partition | None:
        return self.partitions.get(tp)

    def partition_by_id(self, topic_id: UUID, index: int) -> Partition | None:
        name = self._topics.get(topic_id)
        return None if name is None else self.partitions.get(TopicPartition(name, index))

    def partition_wanted(self, wanted: FetchWanted) -> Partition | None:
        """The partition that a Fetch means, by its topic's name or id."""
        if wanted.topic:
            return self.partitions.get(TopicPartition(wanted.topic, wanted.partition))
        return self.partition_by_id(wanted.topic_id, wanted.partition)

    def topic_name(self, topic_id: UUID) -> str | None:
        """The topic with this id, if we have one of its partitions."""
        return self._topics.get(topic_id)

    def partition_or_error(self, tp: TopicPartition) -> Partition:
        """`BrokerError`: 3 when there is none, 56 when the disk is offline."""
        partition = self.partitions.get(tp)
        if partition is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partition=tp)
        if self.log_manager.failed is not None:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, self.log_manager.failed, partition=tp)
        return partition

    def set_log_config(self, topic: str, log_config: LogConfig) -> None:
        """The topic's configuration changed."""
        for tp, partition in self.partitions.items():
            if tp.topic == topic:
                partition.log.config = log_config

    def append(
        self,
        entries: Mapping[TopicPartition, Buffer],
        *,
        acks: int,
        timeout_ms: int,
        now_ms: float,
        now_wall_ms: int,
    ) -> Pending[dict[TopicPartition, ProduceOutcome]]:
        """Write a batch to each partition; the answer is there when as many replicas have them as `acks` asks for."""
        if acks not in _ACKS:
            return _done({tp: ProduceOutcome(ErrorCode.INVALID_REQUIRED_ACKS) for tp in entries})
        outcomes = {tp: self._append_one(tp, records, now_wall_ms) for tp, records in entries.items()}
        for tp, outcome in outcomes.items():
            if not outcome.error:
                self._wake(tp)
        if acks != ACKS_ALL or all(self._is_replicated(tp, outcome) for tp, outcome in outcomes.items()):
            return _done(outcomes)
        delayed = DelayedProduce(now_ms + timeout_ms, self, outcomes)
        self.produces.try_complete_else_watch(delayed, outcomes)
        return delayed.answer

    def append_internal(self, tp: TopicPartition, batch: bytes, now_wall_ms: int) -> AppendInfo:
        """Write a batch of the broker's own. `BrokerError` when that fails."""
        info = self._write(tp, bytearray(batch), now_wall_ms, from_client=False)
        self._wake(tp)
        return info

    def _append_one(self, tp: TopicPartition, records: Buffer, now_wall_ms: int) -> ProduceOutcome:
        try:
            info = self._write(tp, records, now_wall_ms, from_client=True)
        except BrokerError as refusal:
            return self._refused(tp, refusal)
        return ProduceOutcome(
            ErrorCode.NONE, info.base_offset, info.last_offset, info.log_append_time_ms, info.log_start_offset
        )

    def _write(self, tp: TopicPartition, records: Buffer, now_wall_ms: int, *, from_client: bool) -> AppendInfo:
        partition = self.partition_or_error(tp)
        try:
            return partition.append(records, now_wall_ms=now_wall_ms, from_client=from_client)
        except OSError as trouble:
            raise self.offline(tp, trouble) from trouble

    def _refused(self, tp: TopicPartition, refusal: BrokerError) -> ProduceOutcome:
        partition = self.partitions.get(tp)
        start = -1 if partition is None or refusal.code in _NO_LOG_START else partition.log.log_start_offset
        errors: tuple[tuple[int, str], ...] = getattr(refusal, "record_errors", ())
        return ProduceOutcome(refusal.code, log_start_offset=start, record_errors=errors, message=_reason(refusal))

    def _is_replicated(self, tp: TopicPartition, outcome: ProduceOutcome) -> bool:
        return bool(outcome.error) or self.partitions[tp].log.high_watermark > outcome.last_offset

    def _wake(self, tp: TopicPartition) -> None:
        self.produces.check_and_complete(tp)
        self.fetches.check_and_complete(tp)

    def high_watermark_may_have_moved(self, tp: TopicPartition) -> None:
        """A replica reported, or one left: whoever waits for the high watermark is tried."""
        partition = self.partitions.get(tp)
        if partition is not None and partition.advance_high_watermark():
            self._wake(tp)

    def offline(self, tp: TopicPartition, trouble: OSError) -> BrokerError:
        """The disk failed: nothing is served from it any more, and who waits is told. What to answer: 56."""
        why = f"{trouble.strerror or trouble} while using the log of {tp} in {self.log_manager.data_dir}"
        self.log_manager.fail(why)
        for waiting in list(self.partitions):
            self._wake(waiting)
        return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, why)

    def delete_records(self, tp: TopicPartition, upto: int) -> int:
        """Delete what is below `upto` (-1: the high watermark); the new start. `BrokerError` when that is refused."""
        partition = self.partition_or_error(tp)
        try:
            start = partition.delete_records(upto)
        except OSError as trouble:
            raise self.offline(tp, trouble) from trouble
        self._wake(tp)
        return start

    def fetch(
        self, params: FetchParams, wanted: Sequence[FetchWanted], *, now_ms: float
    ) -> Pending[list[PartitionRead]]:
        """Read the partitions, in this order; the answer has a row for each. It waits for `min_bytes`, but not when a
        partition that we have gives an error."""
        targets = [self._target(one) for one in wanted]
        reads = self.read(params, targets)
        if params.max_wait_ms <= 0 or self._is_enough(params, targets, reads):
            return _done(reads)
        delayed = DelayedFetch(shared_deadline_ms(now_ms, params.max_wait_ms), self, params, targets, reads)
        self.fetches.try_complete_else_watch(delayed, [target.tp for target in targets if target.tp is not None])
        return delayed.answer

    def read(self, params: FetchParams, targets: Sequence[FetchTarget]) -> list[PartitionRead]:
        """What the targets have now: each bounded by its own limit and by what is left of `max_bytes`; the first batch
        found is returned whole whatever its size (KIP-74)."""
        left, min_one_message = params.max_bytes, True
        reads = []
        for wanted, tp, unknown in targets:
            if tp is None:
                reads.append(PartitionRead(unknown))
                continue
            limit = max(min(wanted.max_bytes, left), 0)
            found = self._read_one(tp, wanted, limit, params.read_committed, min_one_message)
            reads.append(found)
            if found.records:
                left, min_one_message = left - len(found.records), False
        return reads

    def _read_one(
        self, tp: TopicPartition, wanted: FetchWanted, limit: int, read_committed: bool, min_one_message: bool
    ) -> PartitionRead:
        try:
            partition = self.partition_or_error(tp)
            return partition.read(wanted, limit, read_committed=read_committed, min_one_message=min_one_message)
        except BrokerError as refusal:
            return PartitionRead(refusal.code)
        except OSError as trouble:
            return PartitionRead(self.offline(tp, trouble).code)

    def _target(self, wanted: FetchWanted) -> FetchTarget:
        partition = self.partition_wanted(wanted)
        if partition is not None:
            return FetchTarget(wanted, partition.tp)
        is_unknown_id = not wanted.topic and wanted.topic_id not in self._topics
        code = ErrorCode.UNKNOWN_TOPIC_ID if is_unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return FetchTarget(wanted, None, code)

    def _is_enough(self, params: FetchParams, targets: Sequence[FetchTarget], reads: Sequence[PartitionRead]) -> bool:
        size, known = 0, False
        for target, found in zip(targets, reads, strict=True):
            if target.tp is None:
                continue
            if found.error or found.diverging:
                return True
            known = True
            size += found.size
        return not known or size >= params.min_bytes


# Kafka tells the log start with a refusal, except with these.
_NO_LOG_START = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


def _reason(refusal: BrokerError) -> str | None:
    """The sentence behind the code's name."""
    return refusal.message.partition(": ")[2] or None


def _done(value: T) -> Pending[T]:
    answer: Pending[T] = Pending()
    answer.complete(value)
    return answer
