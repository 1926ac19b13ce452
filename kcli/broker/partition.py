"""One partition of this broker, as leader or follower: its leader epoch, the checks of each access, the high watermark.

A single broker leads all its partitions, and their high watermark is the log end offset after each append. In a
cluster the leader and the in-sync replicas are the controller's decision (`state`), and the high watermark is the
smallest log end offset of the replicas that count (`replication.isr`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kcli.broker.replication import isr as rules
from kcli.broker.replication.isr import Follower
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.cluster.cluster_values import PartitionState, Registration
    from kcli.broker.log.log import AppendInfo, Log, LogOffsetMetadata
    from kcli.broker.log.producer_checks import TransactionMarker, Verification
    from kcli.broker.log.segment_index import AbortedTransaction
    from kcli.network.file_slice import FileSlice
    from kcli.protocol.primitives import Buffer

ANY_EPOCH = -1
ACKS_ALL = -1
#: As `PartitionFetch.high_watermark`: the reader does not wait for news of it.
NO_NEWS = 0x7FFF_FFFF_FFFF_FFFF


class FetchParams(NamedTuple):
    """The limits of a Fetch request as a whole, and its reader.

    `replica_id` is the follower that fetches, -1 for a consumer, and `broker_epoch` its epoch. `leader_only`: the
    reader does not know that followers can be read (KIP-392). `rack` is that of a consumer, empty if unknown.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool = False
    replica_id: int = -1
    broker_epoch: int = -1
    leader_only: bool = True
    rack: str = ""


class PartitionFetch(NamedTuple):
    """One partition of a Fetch request. Its topic has a name (until v12) or an id; an unknown epoch is -1.

    A replica sends the start of its log, and the high watermark that it knows if it waits for news of that (KIP-1166).
    """

    topic: str
    topic_id: UUID
    partition: int
    offset: int
    max_bytes: int
    current_leader_epoch: int = ANY_EPOCH
    last_fetched_epoch: int = ANY_EPOCH
    log_start_offset: int = -1
    high_watermark: int = NO_NEWS


class PartitionRead(NamedTuple):
    """The result of reading a partition. With an error, the offsets are -1.

    `start` is the position of the fetch offset in the log. `aborted` are the aborted transactions in the records, for a
    read_committed consumer; None if the log was not read, or its first batch is too large. If the reader's log diverges
    from this one, `diverging` is the (epoch, end offset) up to which they agree (KIP-595). `preferred_replica` is the
    broker to read from instead.
    """

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: FileSlice | None = None
    start: LogOffsetMetadata | None = None
    diverging: tuple[int, int] | None = None
    aborted: Sequence[AbortedTransaction] | None = None
    preferred_replica: int = -1

    @property
    def size(self) -> int:
        """Size of the records in bytes."""
        return 0 if self.records is None else len(self.records)


class Replication(NamedTuple):
    """The node that a replica is on: its id, the registered brokers by id, and `replica.lag.time.max.ms`."""

    node_id: int
    broker: Callable[[int], Registration | None]
    max_lag_ms: float


class Proposal(NamedTuple):
    """An ISR that the leader has proposed to the controller, for the partition epoch that it knew.

    `broker_epochs` are those of its followers when they had the records for which they are in it. A follower that
    restarts before the controller decides may have lost these records, so a later epoch must not take their place.
    """

    partition: Partition
    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    broker_epochs: dict[int, int]


class Partition:
    """A partition of which this broker has a replica.

    Without `replication` this broker is the whole cluster and leads. Otherwise the partition is neither leader nor
    follower until `make_leader` or `make_follower`. `followers` are those of a leader, by id; `epoch_start` is the log
    end offset at which its leader epoch began; `proposal` is the ISR change that the controller has not answered yet.
    """

    def __init__(self, tp: TopicPartition, topic_id: UUID, log: Log, replication: Replication | None = None) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.log = log
        self.replication = replication
        self.state: PartitionState | None = None
        self.followers: dict[int, Follower] = {}
        self.epoch_start = 0
        self.proposal: Proposal | None = None
        self.is_leader = replication is None
        # Each new leader has a new epoch, so that readers can distinguish its records from earlier ones (KIP-101). The
        # epoch of a single broker is stored with the first record appended in it; until then the next start computes
        # the same number.
        self.leader_epoch = log.epochs.latest_epoch + 1 if replication is None else ANY_EPOCH
        if replication is None:
            log.advance_high_watermark(log.log_end_offset)

    def __repr__(self) -> str:
        log = self.log
        offsets = f"{log.log_start_offset}..{log.high_watermark}..{log.log_end_offset}"
        role = "" if self.is_leader else " follower"
        return f"<Partition {self.tp}{role} epoch={self.leader_epoch} {offsets}>"

    # ---- leader and follower ----

    def make_leader(self, state: PartitionState, now_ms: float) -> bool:
        """Lead with this state; return True if the leader epoch is new. A state older than the known one is ignored."""
        if self.state is not None and state.partition_epoch < self.state.partition_epoch:
            return False
        assert self.replication is not None
        is_new_epoch = not self.is_leader or state.leader_epoch > self.leader_epoch
        # Another leader in between may have had the followers truncate their logs.
        goes_on = self.is_leader and state.leader_epoch == self.leader_epoch + 1
        end = self.log.log_end_offset
        others = [id for id in state.replicas if id != self.replication.node_id]
        self.followers = {id: self.followers.get(id) or Follower(id) for id in others}
        if is_new_epoch:
            self.epoch_start = end
            for id, follower in self.followers.items():
                follower.reset(is_in_sync=id in state.isr, keep_position=goes_on, leader_end=end, now_ms=now_ms)
        if self.state is None or state.partition_epoch > self.state.partition_epoch:
            self.proposal = None  # its answer comes too late
        self.state, self.leader_epoch, self.is_leader = state, state.leader_epoch, True
        return is_new_epoch

    def make_follower(self, state: PartitionState) -> bool:
        """Follow the leader of this state; return True if this broker led until now."""
        was_leader, self.is_leader = self.is_leader, False
        self.state, self.leader_epoch = state, state.leader_epoch
        self.followers, self.proposal = {}, None
        return was_leader

    @property
    def is_under_min_isr(self) -> bool:
        """True if too few replicas are in sync to acknowledge acks=all, and to move the high watermark (KIP-966)."""
        state = self.state
        return state is not None and len(state.isr) < rules.effective_min_isr(
            self.log.config.min_insync_replicas, len(state.replicas)
        )

    def follower_fetched(self, requested: PartitionFetch, params: FetchParams, now_ms: float) -> None:
        """Record the position of a follower, which `check_replica` has accepted."""
        self.followers[params.replica_id].fetched(
            requested.offset,
            requested.log_start_offset,
            params.broker_epoch,
            leader_end=self.log.log_end_offset,
            now_ms=now_ms,
        )

    def expanded_isr(self, node_id: int) -> tuple[int, ...] | None:
        """Return the ISR with this follower, None if it must not join it now or a proposal is not answered yet."""
        state, follower = self.state, self.followers.get(node_id)
        if state is None or follower is None or self.proposal is not None or node_id in state.isr:
            return None
        assert self.replication is not None
        joins = rules.may_join(
            follower, state.isr, high_watermark=self.log.high_watermark, epoch_start=self.epoch_start
        )
        if not joins or not rules.is_eligible(follower, self.replication.broker(node_id)):
            return None
        return (*state.isr, node_id)

    def shrunk_isr(self, now_ms: float) -> tuple[int, ...] | None:
        """Return the ISR without the followers that lag, None if there are none or a proposal is not answered yet."""
        state, replication = self.state, self.replication
        if state is None or replication is None or not self.is_leader or self.proposal is not None:
            return None
        lagging = rules.replicas_to_remove(
            state.isr,
            replication.node_id,
            self.followers,
            leader_end=self.log.log_end_offset,
            now_ms=now_ms,
            max_lag_ms=replication.max_lag_ms,
        )
        return tuple(id for id in state.isr if id not in lagging) if lagging else None

    def propose(self, isr: tuple[int, ...]) -> Proposal:
        """Start an ISR change. Until it is answered, the replicas of both ISRs hold back the high watermark."""
        assert self.state is not None
        epochs = {id: self.followers[id].broker_epoch for id in isr if id in self.followers}
        self.proposal = Proposal(self, isr, self.leader_epoch, self.state.partition_epoch, epochs)
        return self.proposal

    def accept(self, isr: Sequence[int], leader_epoch: int, partition_epoch: int, is_recovering: bool) -> None:
        """End a proposal with the state that the controller has answered, unless a newer one is known."""
        state = self.state
        self.proposal = None
        if state is not None and leader_epoch == self.leader_epoch and partition_epoch >= state.partition_epoch:
            self.state = state._replace(isr=tuple(isr), partition_epoch=partition_epoch, is_recovering=is_recovering)

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of this leader and its live followers (KIP-107)."""
        start, replication = self.log.log_start_offset, self.replication
        if replication is None or not self.followers:
            return start

        def is_alive(node_id: int) -> bool:
            broker = replication.broker(node_id)
            return broker is not None and not broker.is_fenced

        return rules.low_watermark(start, self.followers.values(), is_alive)

    # ---- writing ----

    def append(
        self,
        records: Buffer,
        *,
        now_wall_ms: int,
        from_client: bool = True,
        acks: int = ACKS_ALL,
        now_ms: float = 0.0,
        verification: Verification | None = None,
    ) -> AppendInfo:
        """Append one batch. BrokerError if it is refused, OSError if it cannot be written.

        The first batch of a transaction needs its `verification`. With acks=all a batch is refused with 19 if fewer
        than `min.insync.replicas` are in sync.
        """
        self.check_leader()
        if self.state is not None and acks == ACKS_ALL and self.is_under_min_isr:
            raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, partition=self.tp)
        info = self.log.append(
            records,
            leader_epoch=self.leader_epoch,
            now_wall_ms=now_wall_ms,
            from_client=from_client,
            verification=verification,
        )
        self._appended(now_ms)
        return info

    def append_marker(self, marker: TransactionMarker, *, now_wall_ms: int, now_ms: float = 0.0) -> AppendInfo:
        """Append the marker that ends a transaction, as with acks=all. Errors as for `append`, and 47 and 52."""
        self.check_leader()
        if self.state is not None and self.is_under_min_isr:
            raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, partition=self.tp)
        info = self.log.append_marker(marker, leader_epoch=self.leader_epoch, now_wall_ms=now_wall_ms)
        self._appended(now_ms)
        return info

    def _appended(self, now_ms: float) -> None:
        if self.state is not None:
            self.advance_high_watermark(now_ms)
        else:
            self.log.advance_high_watermark(self.log.log_end_offset)

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, *, adds: bool, now_wall_ms: int
    ) -> Verification | None:
        """Begin to verify a producer's transaction; None if the log has it. BrokerError 6, or 47 for an old epoch."""
        self.check_leader()
        return self.log.producers.start_verification(producer_id, epoch, sequence, adds=adds, now_wall_ms=now_wall_ms)

    def advance_high_watermark(self, now_ms: float = 0.0) -> bool:
        """Advance to the smallest end offset of the replicas that count; False if nothing changes. It never decreases.

        It does not move while fewer than `min.insync.replicas` are in sync.
        """
        log = self.log
        common = log.log_end_offset
        if self.followers:
            common = self._replicated_end(now_ms)
        elif not self.is_leader or self.is_under_min_isr:
            return False
        if common <= log.high_watermark:
            return False
        log.advance_high_watermark(common)
        return True

    def _replicated_end(self, now_ms: float) -> int:
        state, replication = self.state, self.replication
        assert state is not None
        assert replication is not None
        if self.is_under_min_isr:
            return -1
        maximal_isr = state.isr if self.proposal is None else {*state.isr, *self.proposal.isr}
        return rules.high_watermark(
            self.log.log_end_offset,
            self.followers.values(),
            maximal_isr,
            is_eligible=lambda follower: rules.is_eligible(follower, replication.broker(follower.node_id)),
            now_ms=now_ms,
            max_lag_ms=replication.max_lag_ms,
        )

    def delete_records(self, upto: int) -> int:
        """Delete the records below `upto` (-1: the high watermark) here, and return the new log start offset.

        BrokerError: 1 above the high watermark, 17 for an internal topic, 44 if the cleanup policy has no delete.
        """
        self.check_leader()
        log = self.log
        if self.tp.topic in INTERNAL_TOPICS:
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, partition=self.tp)
        if "delete" not in log.config.cleanup_policy:
            raise BrokerError(ErrorCode.POLICY_VIOLATION, partition=self.tp)
        return log.delete_records(upto)

    def read(
        self, requested: PartitionFetch, max_bytes: int, params: FetchParams, *, min_one_message: bool
    ) -> PartitionRead:
        """Read from the requested offset up to the end for this reader. Errors are in the result.

        Replicas read to the log end, consumers to the high watermark or, with read_committed, the last stable offset.
        """
        log = self.log
        read_committed = params.read_committed
        try:
            self.check_epoch(requested.current_leader_epoch)
            self._check_reader(params)
            diverging = self._divergence(requested)
            if diverging is None:
                upto = self.readable_end(sees_all=params.replica_id >= 0, read_committed=params.read_committed)
                data = log.read(requested.offset, max_bytes, upto=upto, min_one_message=min_one_message)
        except BrokerError as error:
            return PartitionRead(error.code)
        offsets = log.high_watermark, log.last_stable_offset, log.log_start_offset
        if diverging is not None:
            return PartitionRead(ErrorCode.NONE, *offsets, diverging=diverging)
        # If the first batch exceeds the remaining bytes, return nothing, because a part of a batch is useless.
        if data.first_batch_only and not min_one_message:
            return PartitionRead(ErrorCode.NONE, *offsets, start=data.start)
        records, aborted = data.records, None
        if read_committed:
            aborted = [] if records is None else log.aborted_transactions(data.start, len(records))
        return PartitionRead(ErrorCode.NONE, *offsets, records, data.start, None, aborted)

    def bytes_to_read(self, requested: PartitionFetch, start: LogOffsetMetadata, params: FetchParams) -> float | None:
        """Return the number of bytes that a delayed fetch would get now; None if it must not wait any longer.

        It must not wait if reading would return an error or a divergence, or if the high watermark has news for it.
        In an older segment than the active one, which does not grow, the number is infinite: enough for any
        `min_bytes`. Above the end for this reader, it waits only within the first batch after that end, as in Kafka
        since 3.8 (KAFKA-16452).
        """
        try:
            self.check_epoch(requested.current_leader_epoch)
            self._check_reader(params)
            if self._divergence(requested) is not None:
                return None
        except BrokerError:
            return None
        if requested.high_watermark < self.log.high_watermark:
            return None
        end = self._end_metadata(params)
        if start.offset == end.offset or start[1:] == end[1:]:
            return 0
        if start.offset > end.offset:
            return None
        if start.segment_base_offset != end.segment_base_offset:
            return math.inf
        return min(end.position - start.position, requested.max_bytes)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to `epoch`, and its end offset; (-1, -1) if unknown (KIP-101)."""
        if epoch == self.leader_epoch:
            return epoch, self.log.log_end_offset
        found = self.log.end_offset_for_epoch(epoch)
        if found[0] < 0 <= epoch < self.leader_epoch and self.state is not None:
            # This leader has no record of that epoch, nor has it written one in its own yet.
            latest = self.log.epochs.latest_epoch
            return latest if latest >= 0 else epoch, self.epoch_start
        return found

    def check_leader(self) -> None:
        if not self.is_leader:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition=self.tp)

    def check_replica(self, node_id: int, broker_epoch: int) -> None:
        """Check that a broker may replicate: 75 if it has no replica, 6 if it has registered again since."""
        if node_id not in self.followers:
            raise BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH, partition=self.tp, replica=node_id)
        assert self.replication is not None
        broker = self.replication.broker(node_id)
        if broker is not None and ANY_EPOCH < broker_epoch < broker.epoch:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition=self.tp, replica=node_id)

    def check_epoch(self, epoch: int) -> None:
        """Check the leader epoch that the client knows, -1 if it sends none (KIP-320)."""
        if epoch in (ANY_EPOCH, self.leader_epoch):
            return
        older = epoch < self.leader_epoch
        code = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise BrokerError(code, partition=self.tp, requested=epoch, current=self.leader_epoch)

    def _divergence(self, requested: PartitionFetch) -> tuple[int, int] | None:
        epoch = requested.last_fetched_epoch
        if epoch < 0:
            return None
        common, end = self.end_offset_for_epoch(epoch)
        if common < 0 or end < 0:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, partition=self.tp, last_fetched_epoch=epoch)
        return (common, end) if common < epoch or end < requested.offset else None

    def _check_reader(self, params: FetchParams) -> None:
        if not self.is_leader and (params.leader_only or self.state is None):
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition=self.tp)
        if params.replica_id >= 0:
            self.check_replica(params.replica_id, params.broker_epoch)

    def readable_end(self, *, sees_all: bool, read_committed: bool) -> int:
        """Return the end for a reader: last stable offset or high watermark; the log end for one that sees all."""
        log = self.log
        if sees_all:
            return log.log_end_offset
        return log.last_stable_offset if read_committed else log.high_watermark

    def _end_metadata(self, params: FetchParams) -> LogOffsetMetadata:
        log = self.log
        offset = self.readable_end(sees_all=params.replica_id >= 0, read_committed=params.read_committed)
        end = log.end_metadata
        return end if end.offset == offset else log.offset_metadata(offset)
