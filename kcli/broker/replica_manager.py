"""All partitions that this broker leads: appends, fetches, and the requests that wait for either."""

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
from kcli.broker.files import lacks_descriptors
from kcli.broker.partition import Partition, PartitionFetch, PartitionRead
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
    """The partitions by name, and the delayed fetches and produces. Used from the broker's loop thread only."""

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
        """Lead a partition with its log from the disk, or with a new log. OSError if a new one cannot be made."""
        log = self.log_manager.create(tp, topic_id, log_config)
        self._topics[topic_id] = tp.topic
        partition = self.partitions[tp] = Partition(tp, topic_id, log)
        return partition

    def delete_partition(self, tp: TopicPartition) -> None:
        """Remove a partition and its log. Requests that wait for it get UNKNOWN_TOPIC_OR_PARTITION (3)."""
        if self._remove(tp):
            self.log_manager.delete(tp)
            self._complete_waiting(tp)

    def discard_partition(self, tp: TopicPartition) -> None:
        """Remove a partition whose topic could not be created as a whole."""
        self._remove(tp)
        self.log_manager.discard(tp)

    def _remove(self, tp: TopicPartition) -> bool:
        """Lead a partition no longer, and forget its topic after the last one. False if it was not led here."""
        partition = self.partitions.pop(tp, None)
        if partition is not None and not any(other.topic == tp.topic for other in self.partitions):
            self._topics.pop(partition.topic_id, None)
        return partition is not None

    def partition(self, tp: TopicPartition) -> Partition | None:
        return self.partitions.get(tp)

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of the topic with this id, None if no partition of it is led here."""
        return self._topics.get(topic_id)

    def partition_or_error(self, tp: TopicPartition) -> Partition:
        """Return the partition. BrokerError: 3 if it is unknown, 56 if the data directory is offline."""
        partition = self.partitions.get(tp)
        if partition is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partition=tp)
        if self.log_manager.failed is not None:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, self.log_manager.failed, partition=tp)
        return partition

    def set_log_config(self, topic: str, log_config: LogConfig) -> None:
        """Give the logs of a topic a new configuration."""
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
        """Append one batch to each partition. The answer completes when `acks` replicas have all of them."""
        if acks not in _ACKS:
            return _done({tp: ProduceOutcome(ErrorCode.INVALID_REQUIRED_ACKS) for tp in entries})
        outcomes = {tp: self._append_one(tp, records, now_wall_ms) for tp, records in entries.items()}
        for tp, outcome in outcomes.items():
            if not outcome.error:
                self._complete_waiting(tp)
        if acks != ACKS_ALL or all(self._is_replicated(tp, outcome) for tp, outcome in outcomes.items()):
            return _done(outcomes)
        delayed = DelayedProduce(now_ms + timeout_ms, outcomes, find_partition=self.partition_or_error)
        self.produces.try_complete_else_watch(delayed, outcomes)
        return delayed.outcome

    def append_internal(self, tp: TopicPartition, batch: bytes, now_wall_ms: int) -> AppendInfo:
        """Append a batch that the broker itself made. BrokerError if that fails."""
        info = self._write(tp, bytearray(batch), now_wall_ms, from_client=False)
        self._complete_waiting(tp)
        return info

    def _append_one(self, tp: TopicPartition, records: Buffer, now_wall_ms: int) -> ProduceOutcome:
        try:
            info = self._write(tp, records, now_wall_ms, from_client=True)
        except BrokerError as error:
            return self._refused_outcome(tp, error)
        return ProduceOutcome(
            ErrorCode.NONE, info.base_offset, info.last_offset, info.log_append_time_ms, info.log_start_offset
        )

    def _write(self, tp: TopicPartition, records: Buffer, now_wall_ms: int, *, from_client: bool) -> AppendInfo:
        partition = self.partition_or_error(tp)
        try:
            return partition.append(records, now_wall_ms=now_wall_ms, from_client=from_client)
        except OSError as error:
            raise self.offline(tp, error) from error

    def _refused_outcome(self, tp: TopicPartition, error: BrokerError) -> ProduceOutcome:
        partition = self.partitions.get(tp)
        start = -1 if partition is None or error.code in _NO_LOG_START else partition.log.log_start_offset
        errors: tuple[tuple[int, str], ...] = getattr(error, "record_errors", ())
        return ProduceOutcome(error.code, log_start_offset=start, record_errors=errors, message=error.detail or None)

    def _is_replicated(self, tp: TopicPartition, outcome: ProduceOutcome) -> bool:
        return bool(outcome.error) or self.partitions[tp].log.high_watermark > outcome.last_offset

    def _complete_waiting(self, tp: TopicPartition) -> None:
        self.produces.check_and_complete(tp)
        self.fetches.check_and_complete(tp)

    def advance_high_watermark(self, tp: TopicPartition) -> None:
        """Advance the high watermark after a follower's position changed, and complete the requests it allows."""
        partition = self.partitions.get(tp)
        if partition is not None and partition.advance_high_watermark():
            self._complete_waiting(tp)

    def offline(self, tp: TopicPartition, error: OSError) -> BrokerError:
        """Take the data directory offline, complete all waiting requests, and return the error to answer with (56).

        A lack of file descriptors concerns only this request: nothing was written.
        """
        reason = f"{error.strerror or error} while using the log of {tp} in {self.log_manager.data_dir}"
        if lacks_descriptors(error):
            return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
        self.log_manager.fail(reason)
        for other in list(self.partitions):
            self._complete_waiting(other)
        return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    def delete_records(self, tp: TopicPartition, upto: int) -> int:
        """Delete the records below `upto` (-1: the high watermark) and return the new log start offset.

        BrokerError if that is refused.
        """
        partition = self.partition_or_error(tp)
        try:
            start = partition.delete_records(upto)
        except OSError as error:
            raise self.offline(tp, error) from error
        self._complete_waiting(tp)
        return start

    def fetch(
        self, params: FetchParams, requested: Sequence[PartitionFetch], *, now_ms: float
    ) -> DelayedFetch | list[PartitionRead]:
        """Read the partitions, one row for each in the order of the request, or wait up to `max_wait_ms`.

        It waits for `min_bytes`, unless a partition that is led here returns an error.
        """
        targets = [self._target(one) for one in requested]
        reads = self.read(params, targets)
        if params.max_wait_ms <= 0 or self._is_enough(params, targets, reads):
            return reads
        delayed = DelayedFetch(
            shared_deadline_ms(now_ms, params.max_wait_ms),
            params,
            targets,
            reads,
            find_partition=self.partition_or_error,
            read=self.read,
        )
        if self.fetches.try_complete_else_watch(delayed, [target.tp for target in targets if target.tp is not None]):
            return delayed.outcome.value
        return delayed

    def fetch_again(self, fetch: DelayedFetch, now_ms: float) -> DelayedFetch:
        """Wait again with a completed fetch; the caller knows that nothing has changed since its read."""
        again = fetch.again(shared_deadline_ms(now_ms, fetch.params.max_wait_ms))
        self.fetches.watch(again, fetch.keys)
        return again

    def read(self, params: FetchParams, targets: Sequence[FetchTarget]) -> list[PartitionRead]:
        """Read all targets once, each up to its own limit and to the rest of `max_bytes`.

        The first batch found is returned whole, whatever its size (KIP-74).
        """
        remaining, min_one_message = params.max_bytes, True
        reads = []
        for requested, tp, unknown in targets:
            if tp is None:
                reads.append(PartitionRead(unknown))
                continue
            limit = max(min(requested.max_bytes, remaining), 0)
            read = self._read_one(tp, requested, limit, params.read_committed, min_one_message)
            reads.append(read)
            if read.records:
                remaining, min_one_message = remaining - len(read.records), False
        return reads

    def _read_one(
        self, tp: TopicPartition, requested: PartitionFetch, limit: int, read_committed: bool, min_one_message: bool
    ) -> PartitionRead:
        try:
            partition = self.partition_or_error(tp)
            return partition.read(requested, limit, read_committed=read_committed, min_one_message=min_one_message)
        except BrokerError as refusal:
            return PartitionRead(refusal.code)
        except OSError as error:
            return PartitionRead(self.offline(tp, error).code)

    def _target(self, requested: PartitionFetch) -> FetchTarget:
        """Find the partition that a Fetch requests by its topic's name (until v12) or id."""
        name = requested.topic or self._topics.get(requested.topic_id)
        if name is None:
            return FetchTarget(requested, None, ErrorCode.UNKNOWN_TOPIC_ID)
        tp = TopicPartition(name, requested.partition)
        if tp not in self.partitions:
            return FetchTarget(requested, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return FetchTarget(requested, tp)

    def _is_enough(self, params: FetchParams, targets: Sequence[FetchTarget], reads: Sequence[PartitionRead]) -> bool:
        size, has_partition = 0, False
        for target, read in zip(targets, reads, strict=True):
            if target.tp is None:
                continue
            if read.error or read.diverging:
                return True
            has_partition = True
            size += read.size
        return not has_partition or size >= params.min_bytes


# Kafka returns the log start offset with a refused batch, except with these errors.
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


def _done(value: T) -> Pending[T]:
    pending: Pending[T] = Pending()
    pending.complete(value)
    return pending
