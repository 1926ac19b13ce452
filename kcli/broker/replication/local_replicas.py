"""The replicas on this node, made leaders and followers by the metadata image of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from kcli.broker.cluster.image import BROKER_CONFIG, TOPIC_CONFIG, Changes, MetadataImage, PartitionState, Registration
from kcli.broker.files import retry_without
from kcli.broker.partition import FetchParams, Partition, PartitionRead, Replication
from kcli.broker.purgatory import Purgatory
from kcli.broker.quotas import NO_LIMIT, ReplicationQuota, Windows
from kcli.broker.replication.isr import preferred_replica
from kcli.broker.replication.isr_changes import IsrChanges
from kcli.errors import BrokerError
from kcli.settings import LONG_MAX
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.delayed import FetchTarget
    from kcli.broker.log.log_config import LogConfig
    from kcli.broker.log_manager import LogManager
    from kcli.broker.node.peers import Peers
    from kcli.broker.replication.fetchers import ReplicaFetchers
    from kcli.broker.serving.timer import Timer
    from kcli.clock import Clock

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Manager(Protocol):
    """The partitions of this node: `replica_manager.ReplicaManager`."""

    log_manager: LogManager
    partitions: dict[TopicPartition, Partition]
    on_leadership: list[Callable[[TopicPartition, int | None], None]]
    deletes: Purgatory

    def partition(self, tp: TopicPartition) -> Partition | None:
        """Return the replica here, None if there is none."""

    def create_partition(self, tp: TopicPartition, topic_id: UUID, log_config: LogConfig) -> Partition:
        """Create a replica. OSError if its log cannot be made."""

    def delete_partition(self, tp: TopicPartition) -> None:
        """Delete a replica and its log."""

    def complete_waiting(self, tp: TopicPartition) -> None:
        """Complete the requests that a change of this partition allows."""

    def advance_high_watermark(self, tp: TopicPartition) -> None:
        """Advance the high watermark as far as the replicas allow, and complete the requests that wait for it."""

    def follow_settings(
        self, image: MetadataImage, changes: Changes | None, log_config: Callable[[str], LogConfig]
    ) -> None:
        """Give the logs their new configurations, and clients their new quotas."""

    def offline(self, tp: TopicPartition, error: OSError) -> BrokerError:
        """Take the data directory offline."""


class LocalReplicas:
    """Applies images to the partitions of a `ReplicaManager`, and keeps their in-sync replicas.

    `image` is the one applied last. Used from the broker's loop thread only.
    """

    def __init__(
        self,
        manager: Manager,
        *,
        fetchers: ReplicaFetchers,
        peers: Peers,
        log_config: Callable[[str], LogConfig],
        broker_epoch: Callable[[], int],
        timer: Timer,
        clock: Clock,
        config: BrokerConfig,
    ) -> None:
        """`log_config(topic)` is the log configuration of a topic, `broker_epoch()` that of this registration."""
        self.image = MetadataImage()
        self.fetchers = fetchers
        node_id = config.node_id
        self.replication = Replication(node_id, self._broker, config.replica_lag_time_max_ms)
        windows = Windows(config.replication_quota_window_num, 1000.0 * config.replication_quota_window_size_seconds)
        fetchers.throttle = self._throttle_follower
        self.leader_quota = ReplicationQuota(windows, node_id)
        self.follower_quota = ReplicationQuota(windows, node_id)
        self.isr_changes = IsrChanges(
            peers,
            timer,
            clock,
            node_id=node_id,
            broker_epoch=broker_epoch,
            on_accepted=manager.advance_high_watermark,
            report=manager.log_manager.reports.append,
        )
        self._manager = manager
        self._node_id = node_id
        self._config = config
        self._log_config = log_config
        self._timer = timer
        self._clock = clock
        self._follows: dict[TopicPartition, tuple[int, int]] = {}
        self._prefers_near = config.replica_selector_class == RACK_AWARE_SELECTOR
        self._has_started = False

    def __repr__(self) -> str:
        return f"<LocalReplicas of node {self._node_id}, {len(self._follows)} followers, {self.image!r}>"

    def _broker(self, node_id: int) -> Registration | None:
        return self.image.brokers.get(node_id)

    # ---- metadata ----

    def apply(self, image: MetadataImage, changes: Changes | None) -> None:
        """Create, lead, follow and delete replicas.

        `changes` are those since the previous call. Without them, or with another image than before, such as one of a
        snapshot, the image is read as a whole.
        """
        changed = None if image is not self.image else changes
        self.image = image
        if self._manager.log_manager.failed is not None:
            return
        if changed is None:
            self._remove_unassigned()
            assigned = [tp for tp, _ in image.partitions()]
        else:
            for topic in changed.removed_topics:
                for number in topic.partitions:
                    self._remove(TopicPartition(topic.name, number), topic.topic_id)
            assigned = list(changed.partitions)
        self._assign(assigned)
        self._manager.follow_settings(image, changed, self._log_config)
        self._apply_quotas(changed)
        if changed is None or changed.brokers:
            for tp in self._led():  # whether a follower counts depends on its registration
                self._manager.advance_high_watermark(tp)
                if self._manager.deletes.delayed:
                    self._manager.deletes.check_and_complete(tp)
        if not self._has_started:
            self._has_started = True
            self._check_lag()

    def _remove_unassigned(self) -> None:
        image, manager = self.image, self._manager
        stray = []
        for tp, log in list(manager.log_manager.logs.items()):
            topic, state = image.topics.get(tp.topic), image.partition(tp)
            is_other = topic is None or log.topic_id not in (None, topic.topic_id)
            if is_other or state is None or self._node_id not in state.replicas:
                if tp in manager.partitions:
                    self._remove(tp)
                else:
                    stray.append(tp)
                    self._on_disk(tp, lambda tp=tp: manager.log_manager.keep_stray(tp))  # type: ignore[misc]
        if stray:
            manager.log_manager.reports.append(
                f"the cluster does not assign to this node: {', '.join(map(str, stray))}; their records are kept in "
                f"{manager.log_manager.data_dir}, in directories that end in -stray; remove them if these topics were "
                "deleted"
            )

    def _assign(self, partitions: Sequence[TopicPartition]) -> None:
        followed = []
        for tp in partitions:
            state = self.image.partition(tp)
            if state is None:
                continue
            if self._node_id not in state.replicas:
                self._remove(tp)
            elif state.leader == self._node_id:
                self._lead(tp, state)
            else:
                followed.append((tp, state))
        for tp, state in followed:
            self._follow(tp, state)

    def _lead(self, tp: TopicPartition, state: PartitionState) -> None:
        partition = self._replica(tp)
        if partition is None:
            return
        if self._follows.pop(tp, None) is not None:
            self.fetchers.stop(tp)
        is_new_epoch = partition.make_leader(state, self._clock.now_ms())
        self._manager.advance_high_watermark(tp)
        if is_new_epoch:
            self._manager.complete_waiting(tp)
            self._notify(tp, state.leader_epoch)
        if state.is_recovering and partition.proposal is None and partition.state is state:
            self.isr_changes.submit(partition.propose(state.isr))  # recovered: there is nothing else to wait for

    def _follow(self, tp: TopicPartition, state: PartitionState) -> None:
        partition = self._replica(tp)
        if partition is None:
            return
        was_leader = partition.make_follower(state)
        target = state.leader, state.leader_epoch
        if self._follows.get(tp) != target:
            self._follows[tp] = target
            self._manager.complete_waiting(tp)
            if state.leader >= 0:
                self.fetchers.follow(tp, partition.topic_id, *target)
            else:
                self.fetchers.stop(tp)
        if was_leader:
            self._notify(tp, None)

    def _replica(self, tp: TopicPartition) -> Partition | None:
        """Return the replica of a partition, created if it does not exist; None if the disk refuses that."""
        manager, topic = self._manager, self.image.topics[tp.topic]
        partition = manager.partition(tp)
        if partition is not None and partition.topic_id == topic.topic_id:
            return partition
        self._remove(tp)
        self._on_disk(tp, lambda: manager.create_partition(tp, topic.topic_id, self._log_config(tp.topic)))
        return manager.partition(tp)

    def _remove(self, tp: TopicPartition, topic_id: UUID | None = None) -> None:
        """Delete the replica of a partition, if there is one (with `topic_id`: of this topic)."""
        partition = self._manager.partition(tp)
        if partition is None or topic_id not in (None, partition.topic_id):
            return
        if self._follows.pop(tp, None) is not None:
            self.fetchers.stop(tp)
        self._on_disk(tp, lambda: self._manager.delete_partition(tp))
        if partition.is_leader:
            partition.is_leader = False
            self._notify(tp, None)

    def _on_disk(self, tp: TopicPartition, act: Callable[[], object]) -> None:
        """Change the data directory; take it offline if that fails."""
        try:
            retry_without(self._manager.log_manager.release_files, act)
        except OSError as error:
            self._manager.offline(tp, error)

    def _apply_quotas(self, changed: Changes | None) -> None:
        image = self.image
        keys = image.configs.keys() if changed is None else changed.configs
        if any(kind == BROKER_CONFIG for kind, _ in keys):
            config = self._config
            self.leader_quota.limit = self._throttled_rate(
                "leader.replication.throttled.rate", config.leader_replication_throttled_rate
            )
            self.follower_quota.limit = self._throttled_rate(
                "follower.replication.throttled.rate", config.follower_replication_throttled_rate
            )
        for kind, name in keys:
            if kind == TOPIC_CONFIG:
                configs = image.configs.get((kind, name), {})
                self.leader_quota.set_topic(name, configs.get("leader.replication.throttled.replicas"))
                self.follower_quota.set_topic(name, configs.get("follower.replication.throttled.replicas"))

    def _throttled_rate(self, setting: str, given: int) -> float:
        configs = self.image.configs
        for name in (str(self._node_id), ""):
            value = configs.get((BROKER_CONFIG, name), {}).get(setting)
            if value is not None:
                given = int(value)
                break
        return NO_LIMIT if given == LONG_MAX else given

    def _notify(self, tp: TopicPartition, leader_epoch: int | None) -> None:
        for callback in self._manager.on_leadership:
            callback(tp, leader_epoch)

    def _led(self) -> list[TopicPartition]:
        return [tp for tp, partition in self._manager.partitions.items() if partition.is_leader]

    # ---- replication quotas ----

    def is_throttled(self, tp: TopicPartition, replica_id: int) -> bool:
        """Return True if a follower gets no records of a partition now. In-sync replicas are never throttled."""
        quota = self.leader_quota
        return (
            quota.limit != NO_LIMIT
            and quota.covers(*tp)
            and not self._is_in_sync(tp, replica_id)
            and quota.is_exceeded(self._clock.now_ms())
        )

    def count(self, tp: TopicPartition, replica_id: int, size: int) -> None:
        """Count the bytes that a follower gets."""
        if size and self.leader_quota.limit != NO_LIMIT and self.leader_quota.covers(*tp):
            self.leader_quota.record(size, self._clock.now_ms())

    def _throttle_follower(self, tp: TopicPartition, size: int) -> float:
        """Count the bytes that a replica here has fetched; return for how long it must wait, unless it is in sync."""
        quota = self.follower_quota
        if quota.limit == NO_LIMIT or not quota.covers(*tp):
            return 0.0
        now_ms = self._clock.now_ms()
        quota.record(size, now_ms)
        return 0.0 if self._is_in_sync(tp, self._node_id) else quota.wait_ms(now_ms)

    def _is_in_sync(self, tp: TopicPartition, node_id: int) -> bool:
        partition = self._manager.partition(tp)
        return partition is not None and partition.state is not None and node_id in partition.state.isr

    # ---- in-sync replicas ----

    def on_fetch(
        self, params: FetchParams, targets: Sequence[FetchTarget], reads: list[PartitionRead], now_ms: float
    ) -> list[PartitionRead]:
        """Record what a fetching replica has; direct a consumer to a nearer replica. Return the rows of the answer."""
        if params.replica_id >= 0:
            return [self._followed(params, target, read, now_ms) for target, read in zip(targets, reads, strict=True)]
        if params.rack and self._prefers_near and not params.leader_only:
            return [self._directed(params, target, read) for target, read in zip(targets, reads, strict=True)]
        return reads

    def _followed(self, params: FetchParams, target: FetchTarget, read: PartitionRead, now_ms: float) -> PartitionRead:
        tp = target.tp
        partition = None if tp is None else self._manager.partition(tp)
        if tp is None or partition is None or read.error or read.diverging is not None:
            return read
        previous_start = partition.low_watermark if self._manager.deletes.delayed else 0
        partition.follower_fetched(target.requested, params, now_ms)
        isr = partition.expanded_isr(params.replica_id)
        if isr is not None:
            self.isr_changes.submit(partition.propose(isr))
        self._manager.advance_high_watermark(tp)
        if self._manager.deletes.delayed and partition.low_watermark != previous_start:
            self._manager.deletes.check_and_complete(tp)
        log = partition.log
        if read.high_watermark == log.high_watermark:
            return read
        return read._replace(high_watermark=log.high_watermark, last_stable_offset=log.last_stable_offset)

    def _directed(self, params: FetchParams, target: FetchTarget, read: PartitionRead) -> PartitionRead:
        partition = None if target.tp is None else self._manager.partition(target.tp)
        if partition is None or read.error or not partition.is_leader or partition.state is None:
            return read
        best = preferred_replica(
            target.requested.offset,
            params.rack,
            self._rack(self._node_id),
            partition.followers.values(),
            partition.state.isr,
            self._rack,
        )
        return read if best is None else read._replace(preferred_replica=best, records=None, start=None)

    def _rack(self, node_id: int) -> str | None:
        broker = self._broker(node_id)
        return None if broker is None or broker.is_fenced else broker.rack

    def _check_lag(self) -> None:
        """Propose ISRs without the followers that lag, now and again after half of `replica.lag.time.max.ms`."""
        now_ms = self._clock.now_ms()
        self._timer.call_at(now_ms + max(self.replication.max_lag_ms / 2, 1.0), self._check_lag)
        for tp in self._led():
            partition = self._manager.partitions[tp]
            isr = partition.shrunk_isr(now_ms)
            if isr is not None:
                self.isr_changes.submit(partition.propose(isr))
            self._manager.advance_high_watermark(
                tp
            )  # a follower that is caught up no longer holds the high watermark back
