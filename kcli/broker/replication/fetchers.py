"""Replica fetchers: the followers of this node fetch from their leaders, one fetcher for each leader.

A fetcher has one Fetch request on its way, in an incremental session (KIP-227): a request names only the partitions
whose positions have changed. The rules are those of Kafka's replica fetchers:

- Batches are appended byte for byte. The high watermark is the leader's, at most the log end; the log start offset
  follows the leader's.
- A request has the epoch of the last record. Where the logs diverge, the leader answers with its largest epoch up to
  that one and the end offset of it (KIP-595). The follower truncates, and asks again if it has no record of that epoch.
- OFFSET_OUT_OF_RANGE: the leader is asked for its end and start. After an unclean election its log may end before ours;
  if it starts after our end, all our records are dropped.
- An answer to an earlier request than the last change of a partition is ignored.

An error of a partition, a truncation that changes nothing, and a failed request are followed by a pause, which doubles
from 20 ms up to `replica.fetch.backoff.ms`: metadata usually arrives at the leader within milliseconds. The same
problem ten times in a row, after some five seconds, is reported once; damaged records are at once.

Leaders need Fetch v15 (Kafka 3.5), the first one that carries the epoch of the follower's registration (KIP-903).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar
from uuid import UUID

from kcli.broker.node.peers import PeerError
from kcli.broker.replication.repeated_failures import REPORT_AFTER, Backoff
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords
from kcli.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kcli.structs import TopicPartition
from kcli.text import format_count

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.log.log import Log
    from kcli.broker.log_manager import LogManager
    from kcli.broker.node.peers import Peer, Peers
    from kcli.broker.serving.timer import Timer, TimerTask
    from kcli.clock import Clock

T = TypeVar("T")

_LAST_SESSION_EPOCH = (1 << 31) - 1
_LATEST, _EARLIEST = -1, -2
_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


Throttle = Callable[[TopicPartition, int], float]


class Replicas(Protocol):
    """The replicas of this node: `ReplicaManager`."""

    log_manager: LogManager

    def complete_waiting(self, tp: TopicPartition) -> None:
        """Complete the requests that the partition's new high watermark allows."""

    def offline(self, tp: TopicPartition, error: OSError) -> BrokerError:
        """Take the data directory offline after an error."""


class Position(NamedTuple):
    """Position of a partition in a request."""

    offset: int
    last_epoch: int
    log_start_offset: int
    leader_epoch: int


class Followed:
    """A partition that is fetched. `is_waiting`: for the bounds of the leader's log."""

    __slots__ = ("backoff", "is_waiting", "leader_epoch", "topic_id", "tp")

    def __init__(self, tp: TopicPartition, topic_id: UUID, leader_epoch: int, backoff: Backoff) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.backoff = backoff
        self.is_waiting = False

    def __repr__(self) -> str:
        return f"<Followed {self.tp} in epoch {self.leader_epoch}>"

    def position(self, log: Log) -> Position:
        return Position(log.log_end_offset, log.epochs.latest_epoch, log.log_start_offset, self.leader_epoch)


class FetchSession:
    """The follower's side of a fetch session: `positions` are what the leader knows, `id` and `epoch` name the request.

    Epoch 0 opens a session with all partitions.
    """

    def __init__(self) -> None:
        self.id = self.epoch = 0
        self.positions: dict[tuple[UUID, int], Position] = {}

    def reset(self) -> None:
        """Open a new session with the next request."""
        self.id = self.epoch = 0
        self.positions.clear()

    def opened(self, session_id: int) -> None:
        """Take over the id in the answer. 0: the leader has no room for a session, so each request has all rows."""
        if session_id:
            self.id, self.epoch = session_id, 1 if self.epoch == _LAST_SESSION_EPOCH else self.epoch + 1
        else:
            self.reset()


class Fetcher:
    """The requests to one leader. `changed` are the partitions that the next request names."""

    def __init__(self, owner: ReplicaFetchers, leader: int, peer: Peer) -> None:
        self.leader = leader
        self.partitions: dict[TopicPartition, Followed] = {}
        self.session = FetchSession()
        self._owner = owner
        self._peer = peer
        self._backoff = owner.new_backoff()
        self._keys: dict[tuple[UUID, int], Followed] = {}
        self._changed: dict[tuple[UUID, int], None] = {}
        self._is_in_flight = False
        self._wakeup: TimerTask | None = None

    def __repr__(self) -> str:
        return f"<Fetcher of node {self.leader} {len(self.partitions)} partitions, session {self.session.id}>"

    def add(self, followed: Followed) -> None:
        """Fetch a partition from the next request on, at once: the metadata say that this leader is there."""
        self.remove(followed.tp)
        self._backoff.succeeded()
        self.partitions[followed.tp] = followed
        self._keys[followed.topic_id, followed.tp.partition] = followed
        self.refetch(followed)

    def remove(self, tp: TopicPartition) -> None:
        """Leave a partition out of the next request, and ignore the answer to the last one."""
        followed = self.partitions.pop(tp, None)
        if followed is not None:
            key = followed.topic_id, tp.partition
            del self._keys[key]
            self._changed[key] = None

    def refetch(self, followed: Followed) -> None:
        """Send the position of a partition again, when its pause is over."""
        self._changed[followed.topic_id, followed.tp.partition] = None
        self.wake_at(max(followed.backoff.ready_ms, self._backoff.ready_ms))

    def wake_at(self, ms: float) -> None:
        """Send the next request at this time or earlier."""
        if self._is_in_flight or (self._wakeup is not None and self._wakeup.deadline_ms <= ms):
            return
        self.stop()
        self._wakeup = self._owner.timer.call_at(max(ms, self._owner.clock.now_ms()), self._wake)

    def stop(self) -> None:
        """Send nothing until `wake_at` is called."""
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None

    def _wake(self) -> None:
        self._wakeup = None
        self._send()

    # ---- requests ----

    def _send(self) -> None:
        if self._is_in_flight or not self.partitions or self._owner.is_stopped:
            return
        now_ms = self._owner.clock.now_ms()
        if now_ms < self._backoff.ready_ms:
            self.wake_at(self._backoff.ready_ms)
            return
        rows, forgotten, next_ms = self._rows(now_ms)
        if not rows and not self.session.positions:
            self.session.reset()  # because no request names the forgotten partitions
            if next_ms < math.inf:
                self.wake_at(next_ms)
            return
        config, owner = self._owner.config, self._owner
        wait_ms = min(config.replica_fetch_wait_max_ms, math.ceil(next_ms - now_ms)) if next_ms < math.inf else None
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=config.node_id, replica_epoch=owner.broker_epoch()),
            max_wait_ms=config.replica_fetch_wait_max_ms if wait_ms is None else wait_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=self.session.id,
            session_epoch=self.session.epoch,
            topics=[FetchTopic(topic_id=id, partitions=found) for id, found in _by_topic(rows)],
            forgotten_topics_data=[ForgottenTopic(topic_id=id, partitions=found) for id, found in _by_topic(forgotten)],
        )
        self._is_in_flight = True
        self._peer.send(request, self._on_answer, timeout_ms=config.replica_socket_timeout_ms)

    def _rows(self, now_ms: float) -> tuple[list[tuple[UUID, FetchPartition]], list[tuple[UUID, int]], float]:
        """Return the changed rows of the session, its forgotten partitions, and the end of the next pause."""
        positions = self.session.positions
        keys: Iterable[tuple[UUID, int]] = [*self._keys] if not self.session.epoch else [*self._changed]
        self._changed.clear()
        rows: list[tuple[UUID, FetchPartition]] = []
        forgotten: list[tuple[UUID, int]] = []
        next_ms = math.inf
        for key in keys:
            followed = self._keys.get(key)
            log = None if followed is None else self._owner.log(followed.tp)
            if followed is None or log is None or followed.is_waiting or followed.backoff.ready_ms > now_ms:
                if positions.pop(key, None) is not None:
                    forgotten.append(key)
                if followed is not None and log is not None:
                    self._changed[key] = None
                    next_ms = next_ms if followed.is_waiting else min(next_ms, followed.backoff.ready_ms)
                continue
            position = followed.position(log)
            if positions.get(key) != position:
                positions[key] = position
                rows.append((key[0], self._row(key[1], position)))
        return rows, forgotten, next_ms

    def _row(self, partition: int, position: Position) -> FetchPartition:
        return FetchPartition(
            partition=partition,
            current_leader_epoch=position.leader_epoch,
            fetch_offset=position.offset,
            last_fetched_epoch=position.last_epoch,
            log_start_offset=position.log_start_offset,
            partition_max_bytes=self._owner.config.replica_fetch_max_bytes,
        )

    # ---- answers ----

    def _on_answer(self, answer: FetchResponse | PeerError) -> None:
        self._is_in_flight = False
        if self._owner.is_stopped:
            return
        if isinstance(answer, PeerError) or answer.error_code:
            was_incremental = self.session.epoch > 0
            self.session.reset()
            if isinstance(answer, PeerError) or not was_incremental or answer.error_code not in _SESSION_ERRORS:
                problem = str(answer) if isinstance(answer, PeerError) else ErrorCode.of(answer.error_code).name
                if self._backoff.failed(problem, self._owner.clock.now_ms()):
                    self._owner.report(
                        f"{format_count(len(self.partitions), 'partition')} cannot follow node {self.leader}: {problem}"
                    )
        else:
            self._backoff.succeeded()
            positions = dict(self.session.positions) if not answer.session_id else self.session.positions
            self.session.opened(answer.session_id)
            for topic in answer.responses:
                for row in topic.partitions:
                    self._take((topic.topic_id, row.partition_index), row, positions)
            self._owner.finish_answer()
        self._send()

    def _take(self, key: tuple[UUID, int], row: PartitionData, positions: dict[tuple[UUID, int], Position]) -> None:
        followed, asked = self._keys.get(key), positions.get(key)
        log = None if followed is None else self._owner.log(followed.tp)
        if followed is None or log is None:
            return
        self._changed[key] = None
        if asked is None or asked[:2] != followed.position(log)[:2] or asked.leader_epoch != followed.leader_epoch:
            return
        if self._owner.take(self, followed, log, row):
            followed.backoff.succeeded()
            if row.records and self._owner.throttle is not None:
                now_ms = self._owner.clock.now_ms()
                followed.backoff.ready_ms = now_ms + self._owner.throttle(followed.tp, len(row.records))


class ReplicaFetchers:
    """The fetchers of a node by leader. Used from the broker's loop thread only."""

    def __init__(
        self,
        replicas: Replicas,
        peers: Peers,
        timer: Timer,
        clock: Clock,
        config: BrokerConfig,
        *,
        broker_epoch: Callable[[], int],
    ) -> None:
        """`broker_epoch()` is the epoch of this node's registration."""
        self.timer = timer
        self.clock = clock
        self.config = config
        self.broker_epoch = broker_epoch
        #: Counts the bytes of a partition, and returns for how long not to fetch it after that (KIP-73).
        self.throttle: Throttle | None = None
        self.fetchers: dict[int, Fetcher] = {}
        self.is_stopped = False
        self.bytes_in = 0
        self._replicas = replicas
        self._peers = peers
        self._by_partition: dict[TopicPartition, Fetcher] = {}

    def __repr__(self) -> str:
        return f"<ReplicaFetchers {len(self._by_partition)} partitions of {len(self.fetchers)} leaders>"

    def follow(self, tp: TopicPartition, topic_id: UUID, leader: int, leader_epoch: int) -> None:
        """Fetch a partition from this leader in this epoch; it replaces an earlier leader or epoch."""
        fetcher = self.fetchers.get(leader)
        if fetcher is None:
            fetcher = self.fetchers[leader] = Fetcher(self, leader, self._peers.to(leader, "fetch"))
        if self._by_partition.get(tp) is not fetcher:
            self.stop(tp)
        self._by_partition[tp] = fetcher
        fetcher.add(Followed(tp, topic_id, leader_epoch, self.new_backoff()))

    def stop(self, tp: TopicPartition) -> None:
        """Fetch a partition no longer. An unknown one is ignored."""
        fetcher = self._by_partition.pop(tp, None)
        if fetcher is not None:
            fetcher.remove(tp)

    def shutdown(self) -> None:
        """Stop all. Answers that come later are ignored."""
        self.is_stopped = True
        for fetcher in self.fetchers.values():
            fetcher.stop()

    def new_backoff(self) -> Backoff:
        return Backoff(self.config.replica_fetch_backoff_ms)

    def log(self, tp: TopicPartition) -> Log | None:
        """Return the log of a partition; None if there is none, or the data directory is offline."""
        manager = self._replicas.log_manager
        return None if manager.failed is not None else manager.logs.get(tp)

    def report(self, problem: str) -> None:
        """Report a problem that may last."""
        self._replicas.log_manager.reports.append(problem)

    # ---- answers ----

    def take(self, fetcher: Fetcher, followed: Followed, log: Log, row: PartitionData) -> bool:
        """Process the row of a partition. False after a failure: its pause has begun."""
        tp = followed.tp
        try:
            if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                followed.is_waiting = True
                self._find_bounds(fetcher, followed, _LATEST)
            if row.error_code:
                name = ErrorCode.of(row.error_code).name
                return self._failed(followed, f"its fetch from offset {log.log_end_offset} returns {name}")
            epoch, end_offset = row.diverging_epoch.epoch, row.diverging_epoch.end_offset
            if epoch < 0:
                if self._append(tp, log, followed.leader_epoch, row):
                    return True
                problem = f"its fetch from offset {log.log_end_offset} returns no new records"
            else:
                if self._truncate(tp, log, epoch, end_offset):
                    return True
                problem = f"its log has nothing to truncate to the leader's end of epoch {epoch} at offset {end_offset}"
            return self._failed(followed, problem)
        except (BrokerError, CorruptRecords) as error:
            return self._failed(followed, error.message, report_after=1)
        except OSError as error:
            self._replicas.offline(tp, error)
            return self._failed(followed, str(error))

    def _failed(self, followed: Followed, problem: str, *, report_after: int = REPORT_AFTER) -> bool:
        if followed.backoff.failed(problem, self.clock.now_ms(), report_after=report_after):
            self.report(f"{followed.tp} cannot follow its leader: {problem}")
        return False

    def finish_answer(self) -> None:
        """Store what the truncations of an answer have changed, before anything is appended to those logs."""
        try:
            self._replicas.log_manager.checkpoint_truncations()
        except OSError as error:
            self._replicas.offline(next(iter(self._by_partition)), error)

    def _append(self, tp: TopicPartition, log: Log, leader_epoch: int, row: PartitionData) -> bool:
        size = 0
        if row.records:
            size = log.append_as_follower(row.records, leader_epoch=leader_epoch, now_wall_ms=self.clock.wall_ms())
            self.bytes_in += size
        before = log.high_watermark
        log.advance_high_watermark(row.high_watermark)
        has_moved = log.high_watermark != before
        if row.log_start_offset > log.log_start_offset:
            has_moved |= log.advance_start(row.log_start_offset)
        if has_moved:
            self._replicas.complete_waiting(tp)
        return bool(size) or not row.records

    def _truncate(self, tp: TopicPartition, log: Log, epoch: int, end_offset: int) -> bool:
        """Truncate to where this log and the leader's, whose `epoch` ends at `end_offset`, may agree.

        Return whether that has changed anything.
        """
        before = log.log_end_offset, log.epochs.latest_epoch
        own_epoch, own_end = log.end_offset_for_epoch(epoch)
        if own_epoch == epoch:
            target = min(own_end, end_offset)
        else:
            target = own_end if own_epoch >= 0 else end_offset
        if self._replicas.log_manager.truncate(tp, min(target, log.log_end_offset)):
            self._report_loss(tp, log, before[0])
        return (log.log_end_offset, log.epochs.latest_epoch) != before

    def _report_loss(self, tp: TopicPartition, log: Log, end_before: int) -> None:
        self.report(
            f"{tp} was truncated from offset {end_before} to {log.log_end_offset}, where it agrees with its leader"
        )

    # ---- bounds of the leader's log ----

    def _find_bounds(self, fetcher: Fetcher, followed: Followed, timestamp: int) -> None:
        """Ask the leader for the end or the start of its log."""
        row = ListOffsetsPartition(
            partition_index=followed.tp.partition, current_leader_epoch=followed.leader_epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self.config.node_id, topics=[ListOffsetsTopic(name=followed.tp.topic, partitions=[row])]
        )
        on_answer = partial(self._on_bounds, fetcher, followed, timestamp)
        peer = self._peers.to(fetcher.leader, "offsets")  # not behind a Fetch that waits
        peer.send(request, on_answer, timeout_ms=self.config.replica_socket_timeout_ms)

    def _on_bounds(
        self, fetcher: Fetcher, followed: Followed, timestamp: int, answer: ListOffsetsResponse | PeerError
    ) -> None:
        log = self.log(followed.tp)
        if fetcher.partitions.get(followed.tp) is not followed or log is None or self.is_stopped:
            return
        rows = [] if isinstance(answer, PeerError) else [row for topic in answer.topics for row in topic.partitions]
        row = rows[0] if rows else None
        try:
            if row is not None and not row.error_code and row.offset >= 0:
                if timestamp == _LATEST and row.offset >= log.log_end_offset:
                    self._find_bounds(fetcher, followed, _EARLIEST)
                    return
                self._fit(followed.tp, log, timestamp, row.offset)
        except OSError as error:
            self._replicas.offline(followed.tp, error)
        except BrokerError as error:
            self._failed(followed, error.message, report_after=1)
        followed.is_waiting = False
        fetcher.refetch(followed)

    def _fit(self, tp: TopicPartition, log: Log, timestamp: int, offset: int) -> None:
        manager, before = self._replicas.log_manager, log.log_end_offset
        if timestamp == _LATEST:
            manager.truncate(tp, offset)
            self._report_loss(tp, log, before)
        elif offset > before:
            manager.restart(tp, offset)
            manager.reports.append(f"{tp} starts again at offset {offset}, because its leader has none before")
        manager.checkpoint_truncations()


def _by_topic(rows: list[tuple[UUID, T]]) -> list[tuple[UUID, list[T]]]:
    found: dict[UUID, list[T]] = {}
    for topic_id, row in rows:
        found.setdefault(topic_id, []).append(row)
    return list(found.items())
