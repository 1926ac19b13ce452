"""All partitions of which this broker has a replica: appends, fetches, and the requests that wait for either."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from kcli.broker.cluster.image import BROKER_CONFIG, TOPIC_CONFIG
from kcli.broker.counters import EXPECTED_REFUSALS, TopicMetrics
from kcli.broker.delayed import (
    DelayedDeleteRecords,
    DelayedFetch,
    DelayedProduce,
    FetchTarget,
    ProduceOutcome,
    shared_deadline_ms,
)
from kcli.broker.fetch_sessions import FetchSessionCache
from kcli.broker.files import lacks_descriptors
from kcli.broker.partition import ACKS_ALL, FetchParams, Partition, PartitionFetch, PartitionRead
from kcli.broker.purgatory import Purgatory
from kcli.broker.serving.long_work import LongWork
from kcli.broker.serving.pending import Pending, completed
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.metadata_records import ClientQuotaRecord
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.cluster.image import Changes, MetadataImage
    from kcli.broker.config import BrokerConfig
    from kcli.broker.log.log import AppendInfo
    from kcli.broker.log.log_config import LogConfig
    from kcli.broker.log.producer_checks import TransactionMarker, Verification
    from kcli.broker.log_manager import LogManager
    from kcli.broker.node.peers import Peers
    from kcli.broker.quotas import ClientQuotas, Entity
    from kcli.broker.replication.fetchers import ReplicaFetchers
    from kcli.broker.replication.local_replicas import LocalReplicas
    from kcli.broker.serving.timer import Timer
    from kcli.clock import Clock
    from kcli.protocol.primitives import Buffer

T = TypeVar("T")

_ACKS = (ACKS_ALL, 0, 1)
_NONE: Mapping[TopicPartition, Verification] = {}


class ReplicaManager:
    """The partitions by name, and the delayed fetches and produces. Used from the broker's loop thread only.

    A single broker creates and deletes its partitions by `create_partition` and `delete_partition`. A node of a cluster
    has `replicas`, set when it joins, and gets its partitions by `apply`.

    The callbacks in `on_leadership` get a partition and the leader epoch if this node leads it from now on or in a new
    epoch, or None if it leads it no longer. They run after the partition was changed.
    """

    def __init__(self, log_manager: LogManager, timer: Timer, clock: Clock, config: BrokerConfig) -> None:
        self.log_manager = log_manager
        self.config = config
        self.partitions: dict[TopicPartition, Partition] = {}
        self.fetches = Purgatory("fetch", timer)
        self.produces = Purgatory("produce", timer)
        self.deletes = Purgatory("delete records", timer)
        self.metrics = TopicMetrics()
        self.replicas: LocalReplicas | None = None
        #: Set while the cluster has quotas.
        self.client_quotas: ClientQuotas | None = None
        self.on_leadership: list[Callable[[TopicPartition, int | None], None]] = []
        self.fetch_sessions = FetchSessionCache(config.max_incremental_fetch_session_cache_slots)
        self._clock = clock
        self._timer = timer
        self.long_work = LongWork(clock, timer)
        self._topics: dict[UUID, str] = {}

    def __repr__(self) -> str:
        return f"<ReplicaManager {len(self.partitions)} partitions, {self.fetches!r}, {self.produces!r}>"

    def create_partition(self, tp: TopicPartition, topic_id: UUID, log_config: LogConfig) -> Partition:
        """Lead a partition with its log from the disk, or with a new log. OSError if a new one cannot be made."""
        log = self.log_manager.create(tp, topic_id, log_config)
        self._topics[topic_id] = tp.topic
        replication = None if self.replicas is None else self.replicas.replication
        partition = self.partitions[tp] = Partition(tp, topic_id, log, replication)
        return partition

    def set_client_quotas(self, limits: Mapping[Entity, Mapping[str, float]]) -> None:
        """Set the client quotas by entity, or change them; without any, clients are not measured."""
        if not limits:
            self.client_quotas = None
        elif self.client_quotas is None:
            from kcli.broker.quotas import ClientQuotas, Windows

            config = self.config
            windows = Windows(config.quota_window_num, 1000.0 * config.quota_window_size_seconds)
            self.client_quotas = ClientQuotas(windows, limits)
        else:
            self.client_quotas.limits = limits
            self.client_quotas.changed()

    def join_cluster(
        self,
        *,
        fetchers: ReplicaFetchers,
        peers: Peers,
        log_config: Callable[[str], LogConfig],
        broker_epoch: Callable[[], int],
    ) -> None:
        """Become a node of a cluster, before the first `apply`.

        `fetchers` follow the leaders of followers, `peers` reach the controller, `log_config(topic)` returns the log
        configuration of a topic, and `broker_epoch()` that of this node's registration.
        """
        from kcli.broker.replication.local_replicas import LocalReplicas

        self.replicas = LocalReplicas(
            self,
            fetchers=fetchers,
            peers=peers,
            log_config=log_config,
            broker_epoch=broker_epoch,
            timer=self._timer,
            clock=self._clock,
            config=self.config,
        )

    def apply(self, image: MetadataImage, changes: Changes | None = None) -> None:
        """Create, lead, follow and delete the partitions of this node as the image says.

        `changes` are those since the previous call; without them, or with another image object than before, the image
        is read as a whole. Call it in the loop thread, after ClusterView.apply, and for the first time only with an
        image that is caught up: logs that such an image does not assign to this node are kept, but not opened again.
        ValueError unless this is a node of a cluster.
        """
        if self.replicas is None:
            raise ValueError("this broker is not a node of a cluster")
        self.replicas.apply(image, changes)

    def delete_partition(self, tp: TopicPartition) -> None:
        """Remove a partition and its log. Requests that wait for it get UNKNOWN_TOPIC_OR_PARTITION (3)."""
        if self._remove(tp):
            self.log_manager.delete(tp)
            self.complete_waiting(tp)

    def discard_partition(self, tp: TopicPartition) -> None:
        """Remove a partition whose topic could not be created as a whole."""
        self._remove(tp)
        self.log_manager.discard(tp)

    def _remove(self, tp: TopicPartition) -> bool:
        """Lead a partition no longer, and forget its topic after the last one. False if it was not led here."""
        partition = self.partitions.pop(tp, None)
        if partition is not None and not any(other.topic == tp.topic for other in self.partitions):
            self._topics.pop(partition.topic_id, None)
            self.metrics.forget(tp.topic)
        return partition is not None

    def partition(self, tp: TopicPartition) -> Partition | None:
        return self.partitions.get(tp)

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of the topic with this id, None if the cluster has none."""
        if self.replicas is not None:
            return self.replicas.image.names.get(topic_id)
        return self._topics.get(topic_id)

    def error_without_replica(self, tp: TopicPartition) -> ErrorCode:
        """Return the error of a partition without a replica here: 6 if the cluster has that partition, else 3."""
        if self.replicas is not None and self.replicas.image.partition(tp) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def partition_or_error(self, tp: TopicPartition) -> Partition:
        """Return the partition. BrokerError: 3 or 6 if there is no replica, 56 if the data directory is offline."""
        partition = self.partitions.get(tp)
        if partition is None:
            raise BrokerError(self.error_without_replica(tp), partition=tp)
        if self.log_manager.failed is not None:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, self.log_manager.failed, partition=tp)
        return partition

    def follow_settings(
        self, image: MetadataImage, changes: Changes | None, log_config: Callable[[str], LogConfig]
    ) -> None:
        """Give the logs their new configurations, and clients their new quotas. No `changes`: all may be new."""
        names: set[str] | None = None  # all topics
        if changes is not None and not any(kind == BROKER_CONFIG for kind, _ in changes.configs):
            names = {name for kind, name in changes.configs if kind == TOPIC_CONFIG}
        configs: dict[str, LogConfig] = {}
        for tp, partition in self.partitions.items() if names is None or names else ():
            if names is None or tp.topic in names:
                if tp.topic not in configs:
                    configs[tp.topic] = log_config(tp.topic)
                partition.log.config = configs[tp.topic]
        if changes is None or ClientQuotaRecord in changes.kinds:
            self.set_client_quotas(image.quotas)

    def append(
        self,
        entries: Mapping[TopicPartition, Buffer],
        *,
        acks: int,
        timeout_ms: int,
        now_ms: float,
        now_wall_ms: int,
        verifications: Mapping[TopicPartition, Verification] = _NONE,
    ) -> Pending[dict[TopicPartition, ProduceOutcome]]:
        """Append one batch to each partition. The answer completes when `acks` replicas have all of them.

        The validation of many compressed batches may take long, so that other requests are served between them.
        `verifications` are those of transactions whose first batches these are.
        """
        if acks not in _ACKS:
            return completed({tp: ProduceOutcome(ErrorCode.INVALID_REQUIRED_ACKS) for tp in entries})

        def append_each() -> Generator[None, None, dict[TopicPartition, ProduceOutcome]]:
            outcomes: dict[TopicPartition, ProduceOutcome] = {}
            for tp, records in entries.items():
                if outcomes:
                    yield
                verification = verifications.get(tp) if verifications else None
                outcomes[tp] = self._append_one(tp, records, acks, now_ms, now_wall_ms, verification)
            return outcomes

        def acknowledge(
            outcomes: dict[TopicPartition, ProduceOutcome],
        ) -> Pending[dict[TopicPartition, ProduceOutcome]]:
            if acks != ACKS_ALL:
                self._complete_appended(outcomes)
                return completed(outcomes)
            return self._when_replicated(outcomes, self._clock.now_ms() + timeout_ms)

        appended = self.long_work.run(append_each())
        if appended.is_done:
            return acknowledge(appended.value)
        acknowledged: Pending[dict[TopicPartition, ProduceOutcome]] = Pending()
        appended.on_done(lambda outcomes: acknowledge(outcomes).on_done(acknowledged.complete))
        return acknowledged

    def append_markers(
        self,
        marker: TransactionMarker,
        partitions: Iterable[TopicPartition],
        on_append: Callable[[TopicPartition], None] = lambda tp: None,
    ) -> Pending[dict[TopicPartition, ErrorCode]]:
        """Append the marker that ends a transaction to each partition, and wait until it is replicated.

        `on_append` is called with each partition whose log has it now, before anything else can be appended there.
        The answer has the error of each partition: those of a Produce with acks=all, 3 if there is no replica here, 47
        if the producer has a newer epoch, 52 if the coordinator has one, and 7 after `request.timeout.ms`.
        """
        now_ms, now_wall_ms = self._clock.now_ms(), self._clock.wall_ms()
        outcomes = {tp: self._append_marker(tp, marker, now_ms, now_wall_ms) for tp in partitions}
        for tp, outcome in outcomes.items():
            if not outcome.error:
                on_append(tp)
        appended = self._when_replicated(outcomes, now_ms + self.config.request_timeout_ms)
        return appended.then(lambda final: {tp: outcome.error for tp, outcome in final.items()})

    def _when_replicated(
        self, outcomes: dict[TopicPartition, ProduceOutcome], deadline_ms: float
    ) -> Pending[dict[TopicPartition, ProduceOutcome]]:
        self._complete_appended(outcomes)
        if all(self._is_replicated(tp, outcome) for tp, outcome in outcomes.items()):
            return completed(outcomes)
        delayed = DelayedProduce(deadline_ms, outcomes, find_partition=self.partition_or_error)
        self.produces.try_complete_else_watch(delayed, outcomes)
        return delayed.outcome

    def _complete_appended(self, outcomes: Mapping[TopicPartition, ProduceOutcome]) -> None:
        for tp, outcome in outcomes.items():
            if not outcome.error:
                self.complete_waiting(tp)

    def append_internal(
        self, tp: TopicPartition, batch: bytes, now_wall_ms: int, verification: Verification | None = None
    ) -> AppendInfo:
        """Append a batch that the broker itself made. BrokerError if that fails, with acks=all as for a client.

        The first batch in a client's transaction needs its `verification`. It does not wait for replicas.
        """
        partition = self.partition_or_error(tp)
        try:
            info = partition.append(
                bytearray(batch),
                now_wall_ms=now_wall_ms,
                from_client=False,
                now_ms=self._clock.now_ms(),
                verification=verification,
            )
        except OSError as error:
            raise self.offline(tp, error) from error
        self.metrics.appended(tp.topic, info)
        self.complete_waiting(tp)
        return info

    def _append_one(
        self,
        tp: TopicPartition,
        records: Buffer,
        acks: int,
        now_ms: float,
        now_wall_ms: int,
        verification: Verification | None,
    ) -> ProduceOutcome:
        try:
            partition = self.partition_or_error(tp)
            info = partition.append(
                records, now_wall_ms=now_wall_ms, acks=acks, now_ms=now_ms, verification=verification
            )
        except (BrokerError, OSError) as error:
            outcome = self._refused_outcome(tp, error)
            self.metrics.refused(tp.topic, outcome.error, len(records))
            return outcome
        self.metrics.appended(tp.topic, info)
        return ProduceOutcome(
            ErrorCode.NONE, info.base_offset, info.last_offset, info.log_append_time_ms, info.log_start_offset
        )

    def _append_marker(
        self, tp: TopicPartition, marker: TransactionMarker, now_ms: float, now_wall_ms: int
    ) -> ProduceOutcome:
        if tp not in self.partitions:
            return ProduceOutcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            info = self.partition_or_error(tp).append_marker(marker, now_wall_ms=now_wall_ms, now_ms=now_ms)
        except (BrokerError, OSError) as error:
            return self._refused_outcome(tp, error)
        self.metrics.appended(tp.topic, info)
        return ProduceOutcome(ErrorCode.NONE, info.base_offset, info.last_offset)

    def _refused_outcome(self, tp: TopicPartition, failure: BrokerError | OSError) -> ProduceOutcome:
        error = self.offline(tp, failure) if isinstance(failure, OSError) else failure
        partition = self.partitions.get(tp)
        start = -1 if partition is None or error.code in EXPECTED_REFUSALS else partition.log.log_start_offset
        errors: tuple[tuple[int, str], ...] = getattr(error, "record_errors", ())
        return ProduceOutcome(error.code, log_start_offset=start, record_errors=errors, message=error.detail or None)

    def _is_replicated(self, tp: TopicPartition, outcome: ProduceOutcome) -> bool:
        return bool(outcome.error) or self.partitions[tp].log.high_watermark > outcome.last_offset

    def complete_waiting(self, tp: TopicPartition) -> None:
        """Complete the requests that a change of this partition allows: an append, a high watermark, a new role."""
        self.produces.check_and_complete(tp)
        self.fetches.check_and_complete(tp)
        if self.deletes.delayed:
            self.deletes.check_and_complete(tp)

    def advance_high_watermark(self, tp: TopicPartition) -> None:
        """Advance the high watermark after a follower's position changed, and complete the requests it allows."""
        partition = self.partitions.get(tp)
        if partition is not None and partition.advance_high_watermark(self._clock.now_ms()):
            self.complete_waiting(tp)

    def offline(self, tp: TopicPartition, error: OSError) -> BrokerError:
        """Take the data directory offline, complete all waiting requests, and return the error to answer with (56).

        A lack of file descriptors concerns only this request: nothing was written.
        """
        reason = f"{error.strerror or error} while using the log of {tp} in {self.log_manager.data_dir}"
        if lacks_descriptors(error):
            return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
        self.log_manager.fail(reason)
        for other in list(self.partitions):
            self.complete_waiting(other)
        return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int, now_ms: float
    ) -> Pending[dict[TopicPartition, tuple[ErrorCode, int]]]:
        """Delete the records below each offset (-1: the high watermark).

        The answer, an error and the low watermark by partition, completes when all live replicas have deleted them.
        """
        outcomes: dict[TopicPartition, tuple[ErrorCode, int]] = {}
        starts: dict[TopicPartition, int] = {}
        for tp, upto in offsets.items():
            try:
                starts[tp] = self._delete_one(tp, upto)
            except BrokerError as error:
                outcomes[tp] = error.code, -1
            else:
                self.complete_waiting(tp)
        delayed = DelayedDeleteRecords(now_ms + timeout_ms, starts, outcomes, find_partition=self.partition_or_error)
        self.deletes.try_complete_else_watch(delayed, starts)
        return delayed.outcome

    def _delete_one(self, tp: TopicPartition, upto: int) -> int:
        partition = self.partition_or_error(tp)
        try:
            return partition.delete_records(upto)
        except OSError as error:
            raise self.offline(tp, error) from error

    def fetch(
        self, params: FetchParams, requested: Sequence[PartitionFetch], *, now_ms: float
    ) -> DelayedFetch | list[PartitionRead]:
        """Read the partitions, one row for each in the order of the request, or wait up to `max_wait_ms`.

        It waits for `min_bytes`, unless a partition that is led here returns an error. The fetch of a replica tells the
        leader what the replica has.
        """
        targets = [self._target(partition) for partition in requested]
        reads = self.read(params, targets)
        self.metrics.fetched(targets, reads)
        if self.replicas is not None:
            reads = self.replicas.on_fetch(params, targets, reads, now_ms)
        if params.max_wait_ms <= 0 or self._is_enough(params, targets, reads):
            return reads
        delayed = DelayedFetch(
            shared_deadline_ms(now_ms, params.max_wait_ms),
            params,
            targets,
            reads,
            find_partition=self.partition_or_error,
            read=self.read,
            is_throttled=self._is_throttled,
        )
        if self.fetches.try_complete_else_watch(delayed, [target.tp for target in targets if target.tp is not None]):
            return delayed.outcome.value
        return delayed

    def fetch_again(self, fetch: DelayedFetch, now_ms: float) -> DelayedFetch:
        """Wait again with a completed fetch; the caller knows that nothing has changed since its read."""
        again = fetch.again(shared_deadline_ms(now_ms, fetch.params.max_wait_ms))
        self.fetches.watch(again, fetch.keys)
        self.metrics.fetched(fetch.targets, fetch.reads)
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
            read = self._read_one(tp, requested, limit, params, min_one_message)
            reads.append(read)
            if read.records:
                remaining, min_one_message = remaining - len(read.records), False
        return reads

    def _read_one(
        self, tp: TopicPartition, requested: PartitionFetch, limit: int, params: FetchParams, min_one_message: bool
    ) -> PartitionRead:
        replicas = self.replicas
        try:
            partition = self.partition_or_error(tp)
            if params.replica_id < 0 or replicas is None:
                return partition.read(requested, limit, params, min_one_message=min_one_message)
            if replicas.is_throttled(tp, params.replica_id):
                return partition.read(requested, 0, params, min_one_message=False)
            read = partition.read(requested, limit, params, min_one_message=min_one_message)
            replicas.count(tp, params.replica_id, read.size)
            return read
        except BrokerError as refusal:
            return PartitionRead(refusal.code)
        except OSError as error:
            return PartitionRead(self.offline(tp, error).code)

    def _is_throttled(self, tp: TopicPartition, replica_id: int) -> bool:
        return self.replicas is not None and self.replicas.is_throttled(tp, replica_id)

    def _target(self, requested: PartitionFetch) -> FetchTarget:
        """Find the partition that a Fetch requests by its topic's name (until v12) or id."""
        name = requested.topic or self.topic_name(requested.topic_id)
        if name is None:
            return FetchTarget(requested, None, ErrorCode.UNKNOWN_TOPIC_ID)
        tp = TopicPartition(name, requested.partition)
        if tp not in self.partitions:
            return FetchTarget(requested, None, self.error_without_replica(tp))
        return FetchTarget(requested, tp)

    def _is_enough(self, params: FetchParams, targets: Sequence[FetchTarget], reads: Sequence[PartitionRead]) -> bool:
        size, has_partition = 0, False
        for (requested, tp, _), read in zip(targets, reads, strict=True):
            if tp is None:
                continue
            if read.error or read.diverging or read.preferred_replica >= 0:
                return True
            if requested.high_watermark < read.high_watermark:
                return True
            has_partition = True
            size += read.size
        return not has_partition or size >= params.min_bytes
