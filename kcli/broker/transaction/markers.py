"""Transaction markers: the coordinator's sender, which has the leaders of all partitions of a transaction write them.

A marker is the control record that ends a transaction in one partition (KIP-98). The coordinator decides the outcome,
and then `MarkerSender` sends it to the leader of each partition until that leader has stored it: in this process by a
function, elsewhere by WriteTxnMarkers. Leaders move, so the leader is looked up again for each try.

The errors are treated as Kafka's coordinator treats them: a fenced producer or coordinator epoch ends the sending
without a result, because another coordinator has taken over; a partition that was deleted has nothing to end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.log.producer_checks import TransactionMarker
from kcli.broker.node.peers import PeerError
from kcli.broker.serving.pending import Pending
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kcli.structs import OFFSETS_TOPIC, TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from kcli.broker.cluster.view import ClusterView
    from kcli.broker.node.peers import Peers
    from kcli.broker.replica_manager import ReplicaManager
    from kcli.broker.serving.timer import Timer
    from kcli.clock import Clock

_FIRST_BACKOFF_MS = 20.0
_MAX_BACKOFF_MS = 1000.0
_PURPOSE = "transaction markers"

# The epoch of the producer or coordinator is older than one that the leader has seen: the transaction is not ours.
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
# The partition has no records of transactions, so there is nothing to end.
_NOTHING_TO_END = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})


class MarkerWriter:
    """Stores markers in the partitions that this broker leads; one in `__consumer_offsets` ends pending offsets.

    `error_of_offsets(number)` is NONE for a partition of `__consumer_offsets` whose groups are in memory, and
    `end_offsets(number, producer_id, is_commit)` ends the pending offsets of a producer there.
    """

    def __init__(
        self,
        replica_manager: ReplicaManager,
        error_of_offsets: Callable[[int], ErrorCode],
        end_offsets: Callable[[int, int, bool], None],
    ) -> None:
        self._replica_manager = replica_manager
        self._error_of_offsets = error_of_offsets
        self._end_offsets = end_offsets

    def write(
        self, marker: TransactionMarker, partitions: Sequence[TopicPartition]
    ) -> Pending[dict[TopicPartition, ErrorCode]]:
        """Append a marker to each partition; the answer has the error of each, once the replicas have it.

        See `ReplicaManager.append_markers`. NOT_LEADER_OR_FOLLOWER while groups are loaded: the sender tries again.
        """
        refused: dict[TopicPartition, ErrorCode] = {}
        for tp in partitions:
            if (
                tp.topic == OFFSETS_TOPIC
                and self._replica_manager.partition(tp)
                and self._error_of_offsets(tp.partition)
            ):
                refused[tp] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        accepted = [tp for tp in partitions if tp not in refused]

        def on_append(tp: TopicPartition) -> None:
            # At once, not when the replicas have it: the next offsets of this producer are of another transaction.
            if tp.topic == OFFSETS_TOPIC:
                self._end_offsets(tp.partition, marker.producer_id, marker.is_commit)

        appended = self._replica_manager.append_markers(marker, accepted, on_append)
        return appended.then(lambda outcomes: refused | outcomes)


class _Sending:
    """A marker on its way: the partitions that have not stored it yet."""

    def __init__(
        self, marker: TransactionMarker, partitions: Collection[TopicPartition], on_done: Callable[[], None]
    ) -> None:
        self.marker = marker
        self.partitions = set(partitions)
        self.is_stopped = False
        self.attempts = 0
        self.on_done = on_done

    def __repr__(self) -> str:
        return f"<_Sending {self.marker} to {sorted(self.partitions)}>"


class _Part(NamedTuple):
    """The partitions of a marker that have the same leader."""

    sending: _Sending
    partitions: tuple[TopicPartition, ...]


class MarkerSender:
    """Markers that are not stored everywhere yet, and the requests to their leaders.

    `write` stores a marker in partitions that this broker leads. `peers` reach the other brokers; None for a single
    broker. Used from the loop thread only.
    """

    def __init__(
        self,
        cluster: ClusterView,
        write: Callable[[TransactionMarker, Sequence[TopicPartition]], Pending[dict[TopicPartition, ErrorCode]]],
        peers: Peers | None,
        timer: Timer,
        clock: Clock,
    ) -> None:
        self._cluster = cluster
        self._write = write
        self._peers = peers
        self._timer = timer
        self._clock = clock
        self._sendings: dict[_Sending, None] = {}
        self._queues: dict[int, list[_Part]] = {}  # by node, while a request to it is on its way
        #: Messages to log.
        self.reports: list[str] = []

    def __repr__(self) -> str:
        return f"<MarkerSender {len(self._sendings)} markers>"

    def __len__(self) -> int:
        """Return the number of markers that are not stored everywhere yet."""
        return len(self._sendings)

    def send(
        self, marker: TransactionMarker, partitions: Collection[TopicPartition], on_done: Callable[[], None]
    ) -> None:
        """Have the leaders of all partitions store the marker, then call `on_done` once.

        It may be called before `send` returns. It is never called after `stop`, or if a leader answers that the epoch
        of the producer or of the coordinator is fenced.
        """
        sending = _Sending(marker, partitions, on_done)
        self._sendings[sending] = None
        self._send(sending, tuple(sending.partitions))

    def partitions_left(self, producer_id: int) -> Collection[TopicPartition] | None:
        """Return the partitions that have not stored the marker of this producer, None if none is on its way."""
        return next(
            (sending.partitions for sending in self._sendings if sending.marker.producer_id == producer_id), None
        )

    def stop(self, is_affected: Callable[[TransactionMarker], bool]) -> None:
        """Send these markers no more: this broker does not coordinate their transactions any longer."""
        for sending in [sending for sending in self._sendings if is_affected(sending.marker)]:
            self._drop(sending)

    # ---- internal ----

    def _send(self, sending: _Sending, partitions: Collection[TopicPartition]) -> None:
        """Send a marker to the present leaders of some of its partitions."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in sorted(partitions):
            state = self._cluster.partition_state(tp)
            if state is None:
                sending.partitions.discard(tp)
            else:
                by_leader.setdefault(state.leader, []).append(tp)
        for leader, led in by_leader.items():
            part = _Part(sending, tuple(led))
            if leader == self._cluster.node_id:
                self._write_here(part)
            elif leader < 0 or self._peers is None:
                self._retry_later(part)
            else:
                self._send_to(leader, part)
        self._finish_if_done(sending)

    def _write_here(self, part: _Part) -> None:
        sending = part.sending
        self._write(sending.marker, part.partitions).on_done(lambda errors: self._on_errors(part, errors))

    def _send_to(self, node_id: int, part: _Part) -> None:
        """Send a request, or wait for the one on its way to that node: the markers of many transactions share one."""
        queue = self._queues.get(node_id)
        if queue is not None:
            queue.append(part)
        else:
            self._queues[node_id] = []
            self._request(node_id, [part])

    def _request(self, node_id: int, parts: list[_Part]) -> None:
        assert self._peers is not None

        def on_done(answer: WriteTxnMarkersResponse | PeerError) -> None:
            waiting = self._queues.pop(node_id)
            if isinstance(answer, PeerError):
                for part in parts:
                    self._retry_later(part)
            else:
                errors = _errors_by_producer(answer)
                for part in parts:
                    self._on_errors(part, errors.get(part.sending.marker.producer_id, {}))
            self._send_waiting(node_id, waiting)

        self._peers.to(node_id, _PURPOSE).send(WriteTxnMarkersRequest(markers=[_row(part) for part in parts]), on_done)

    def _send_waiting(self, node_id: int, waiting: list[_Part]) -> None:
        """Send what has waited as one request. Its answer has rows by producer, so a producer is in it once only."""
        parts: dict[int, _Part] = {}
        later = []
        for part in waiting:
            if part.sending.is_stopped:
                continue
            if parts.setdefault(part.sending.marker.producer_id, part) is not part:
                later.append(part)
        if parts:
            if node_id in self._queues:  # a retry was sent at once
                self._queues[node_id] += [*parts.values(), *later]
            else:
                self._queues[node_id] = later
                self._request(node_id, list(parts.values()))

    def _on_errors(self, part: _Part, errors: dict[TopicPartition, ErrorCode]) -> None:
        """Take the result of each partition; one without a result is tried again."""
        sending, again = part.sending, []
        if sending.is_stopped:
            return
        for tp in part.partitions:
            error = errors.get(tp, ErrorCode.UNKNOWN_SERVER_ERROR)
            if error is ErrorCode.NONE or error in _NOTHING_TO_END:
                sending.partitions.discard(tp)
            elif error in _FENCED:
                marker = sending.marker
                self.reports.append(
                    f"the marker of producer {marker.producer_id} epoch {marker.producer_epoch} for {tp} was refused: "
                    f"{error.name}; another coordinator ends this transaction"
                )
                self._drop(sending)
                return
            else:
                again.append(tp)
        if again:
            self._retry_later(_Part(sending, tuple(again)))
        self._finish_if_done(sending)

    def _retry_later(self, part: _Part) -> None:
        sending = part.sending
        if sending.is_stopped:
            return
        delay_ms = min(_FIRST_BACKOFF_MS * 2 ** min(sending.attempts, 10), _MAX_BACKOFF_MS)
        sending.attempts += 1

        def retry() -> None:
            if not sending.is_stopped:
                self._send(sending, part.partitions)

        self._timer.call_at(self._clock.now_ms() + delay_ms, retry)

    def _finish_if_done(self, sending: _Sending) -> None:
        if not sending.partitions and not sending.is_stopped:
            self._drop(sending)
            sending.on_done()

    def _drop(self, sending: _Sending) -> None:
        sending.is_stopped = True
        self._sendings.pop(sending, None)


def _row(part: _Part) -> WritableTxnMarker:
    marker = part.sending.marker
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=numbers)
            for topic, numbers in numbers_by_topic(part.partitions).items()
        ],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def _errors_by_producer(answer: WriteTxnMarkersResponse) -> dict[int, dict[TopicPartition, ErrorCode]]:
    return {
        result.producer_id: {
            TopicPartition(topic.name, partition.partition_index): ErrorCode.of(partition.error_code)
            for topic in result.topics
            for partition in topic.partitions
        }
        for result in answer.markers
    }
