"""`Fetcher`: one Fetch request in flight per broker; the next request is sent before the last response is decoded.

Batch headers alone show the next position of each partition (`fetch_buffer`), so the next request leaves while the
records are still undecoded. A broker gets its next request when the delivery of its last response begins: per broker at
most one response is waiting and one is in flight.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.client.metrics import RECORD_BYTES, RECORDS_PER_REQUEST
from kcli.consumer.fetch_buffer import CompletedFetch, FetchBuffer, Section, position_after
from kcli.consumer.fetch_session import FINAL_EPOCH, FetchSession, PartitionFetch, fetch_topics, forgotten_topics
from kcli.consumer.fetch_verdict import judge_partition
from kcli.consumer.retry_backoff import RetryBackoffs, RetryState, RetryWarnings
from kcli.consumer.subscription import FetchPosition, PartitionFailure, PartitionState, SubscriptionState
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, OffsetOutOfRange, TopicRecreated
from kcli.logs import RepeatedWarnings
from kcli.structs import Node, TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.consumer.fetch_buffer import Decode
    from kcli.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData

# v18 is for replicas; v13 needs the id of every topic.
NEWEST_VERSION = 17
NEWEST_VERSION_WITH_NAMES = 12
FIRST_VERSION_WITH_LAST_EPOCH = 12
FETCH = 1


class Fetcher:
    """Fetches the partitions of the subscription; the responses are in `buffer`, to be delivered.

    `memory_bytes` bounds the requested size of all responses together; None: each may have `fetch.max.bytes`.
    `partition_bytes` is requested per partition: `max.partition.fetch.bytes`, unless the caller changes it.
    """

    def __init__(
        self,
        client: ConsumerNetworkClient,
        subscription: SubscriptionState,
        config: ConsumerConfig,
        *,
        memory_bytes: int | None = None,
        decode: Decode | None = None,
    ) -> None:
        self._client = client
        self._subscription = subscription
        self._config = config
        self._memory_bytes = memory_bytes
        self.partition_bytes = config.max_partition_fetch_bytes
        self.buffer = FetchBuffer(
            subscription,
            check_crcs=config.check_crcs,
            max_decompressed_bytes=config.max_decompressed_batch_bytes,
            decode=decode,
            on_completed=self._count_records,
        )
        self._read_committed = config.reads_committed
        backoff_ms = config.retry_backoff_ms, config.retry_backoff_max_ms
        self._partition_backoffs: RetryBackoffs[TopicPartition] = RetryBackoffs(*backoff_ms)
        self._node_backoffs: RetryBackoffs[int] = RetryBackoffs(*backoff_ms)
        self._sessions: dict[int, FetchSession] = {}
        self._node_ids: dict[TopicPartition, int] = {}
        self._in_flight: set[int] = set()
        self._sent_ms: dict[int, float] = {}
        self._pacing = EarlyAnswers(config.fetch_max_wait_ms, config.retry_backoff_ms)
        self._progressed: set[int] = set()
        self._reopened: set[int] = set()  # brokers whose last response was an error about the session
        self._refused: list[PartitionFailure] = []  # partitions that no broker can be asked for
        self._cluster: object = None
        self._closed = False
        self._warnings = RepeatedWarnings("kcli.consumer.fetches")
        self._retry_warnings = RetryWarnings("kcli.consumer.fetches", "{} cannot be read yet", "{} is read again")

    def __repr__(self) -> str:
        return f"<Fetcher brokers={len(self._sessions)} in-flight={len(self._in_flight)} received={len(self.buffer)}>"

    @property
    def is_fetching(self) -> bool:
        """True if a request is in flight."""
        return bool(self._in_flight)

    # --- requests

    def send(self, now_ms: float) -> None:
        """Send a fetch to every broker without a request in flight. The requests leave with the client's next poll."""
        self._update_targets(now_ms)
        self._pacing.end_expired(now_ms)
        for node_id in list(self._sessions):
            session = self._sessions[node_id]
            if (
                node_id in self._in_flight
                or self.buffer.has_unstarted(node_id)
                or self._node_backoffs.is_waiting(node_id)
                or self._pacing.is_waiting(node_id)
            ):
                continue
            if len(session):
                self._send(node_id, session)
            else:
                self._close_session(node_id)

    def next_ms(self) -> float:
        """Return the time of the next retry."""
        return min(self._partition_backoffs.next_ms(), self._node_backoffs.next_ms(), self._pacing.next_ms())

    def _update_targets(self, now_ms: float) -> None:
        subscription = self._subscription
        subscription.updated.update(self._partition_backoffs.take_expired(now_ms))
        self._node_backoffs.take_expired(now_ms)
        cluster = self._client.metadata.cluster
        if cluster is not self._cluster:
            self._cluster = cluster
            self._partition_backoffs.end_all()
            subscription.updated.update(subscription.partitions())
        while subscription.updated:
            updated, subscription.updated = sorted(subscription.updated), set()
            for tp in updated:
                self._update_target(tp, now_ms)
            refused, self._refused = self._refused, []
            self.buffer.add(CompletedFetch(_NOWHERE, [], refused))

    def _update_target(self, tp: TopicPartition, now_ms: float) -> None:
        """Add `tp` to the session of the broker to fetch it from, or to none."""
        target = self._target(tp, now_ms)
        current = self._node_ids.get(tp)
        if current is not None and (target is None or target[0] != current):
            self._sessions[current].remove(tp)
            del self._node_ids[tp]
        if target is not None:
            node_id, fetch = target
            self._sessions.setdefault(node_id, FetchSession()).put(tp, fetch)
            self._node_ids[tp] = node_id

    def _target(self, tp: TopicPartition, now_ms: float) -> tuple[int, PartitionFetch] | None:
        state = self._subscription.get(tp)
        if state is None:
            self._partition_backoffs.clear(tp)
            self.buffer.forget(tp)
            return None
        metadata = self._client.metadata
        leader, epoch = metadata.leader(tp)
        topic_id = metadata.topic_id(tp.topic)
        if not state.belongs_to(topic_id):
            self._refuse_recreated(tp, state)
            return None
        if topic_id not in (None, state.topic_id):
            state.topic_id, state.leader_epoch = topic_id, epoch
        position = state.next_fetch()
        if position is None or self.buffer.is_halted(tp, position.offset) or self._partition_backoffs.is_waiting(tp):
            return None
        if state.held:
            return None
        if leader is None:
            error = self._client.leader_error(tp)
            if error.retriable:
                self._retry_later(tp, error, now_ms)
            else:
                self._refused.append(PartitionFailure(tp, position.offset, error))
                metadata.request_update()
            return None
        node_id = leader.id
        if state.preferred_replica in metadata.cluster.nodes and now_ms < state.preferred_until_ms:
            node_id = state.preferred_replica
        return node_id, PartitionFetch(position.offset, epoch, position.epoch, self.partition_bytes, topic_id)

    def _refuse_recreated(self, tp: TopicPartition, state: PartitionState) -> None:
        assert state.position is not None
        offset = state.position.offset
        if not self.buffer.is_halted(tp, offset):
            text = f"topic {tp.topic} was deleted and created again while it was read"
            error = TopicRecreated(text, topic=tp.topic, partition=tp.partition, offset=offset)
            self._refused.append(PartitionFailure(tp, offset, error))

    def _send(self, node_id: int, session: FetchSession) -> None:
        node = self._client.metadata.cluster.nodes.get(node_id)
        if node is None:
            return
        built = session.build()
        request = self._request(built.session_id, built.epoch)
        versions = (self._client.negotiated(node_id) or {}).get(FETCH)
        with_epochs = versions is not None and versions[1] >= FIRST_VERSION_WITH_LAST_EPOCH
        request.topics = fetch_topics(built.fetches, with_last_epochs=with_epochs)
        request.forgotten_topics_data = forgotten_topics(built.forgotten)
        newest = NEWEST_VERSION if built.use_ids else NEWEST_VERSION_WITH_NAMES
        self._in_flight.add(node_id)
        self._sent_ms[node_id] = self._client.clock.now_ms()
        future = self._client.send(node, request, max_version=newest)
        future.add_done_callback(lambda done: self._answered(node, session, done))

    def _request(self, session_id: int, epoch: int) -> FetchRequest:
        from kcli.protocol.messages.fetch import FetchRequest

        config = self._config
        return FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=self._max_bytes(),
            isolation_level=int(self._read_committed),
            session_id=session_id,
            session_epoch=epoch,
            rack_id=config.client_rack,
        )

    def _max_bytes(self) -> int:
        if self._memory_bytes is None:
            return self._config.fetch_max_bytes
        # One response of each broker may be waiting while the next is in flight.
        return min(self._config.fetch_max_bytes, self._memory_bytes // (2 * max(1, len(self._sessions))))

    # --- responses

    def _answered(self, node: Node, session: FetchSession, done: RequestFuture[FetchResponse]) -> None:
        self._in_flight.discard(node.id)
        if self._closed:
            return
        now_ms = self._client.clock.now_ms()
        if done.error is not None:
            session.failed()
            self._node_failed(node.id, session, done.error, now_ms)
            return
        response = done.value()
        session.succeeded(response.error_code, response.session_id)
        if response.error_code:
            error = response.broker_error(response.error_code, api="Fetch", node=node.id)
            self._node_failed(node.id, session, error, now_ms)
            return
        if self._node_backoffs.clear(node.id):
            self._warnings.ended(now_ms, f"node {node.id} answers fetches again", node.id)
        self._reopened.discard(node.id)
        self._pacing.answered(node.id, self._sent_ms[node.id], now_ms, is_empty=_is_empty(response))
        received = self._process(node.id, session, response, now_ms)
        if response.responses:  # an idle fetch of a session names no partition
            self._count_bytes(received, now_ms)
        self.buffer.add(received)

    def _count_bytes(self, received: CompletedFetch, now_ms: float) -> None:
        sizes: dict[str, int] = {}
        for section in received.sections:
            sizes[section.tp.topic] = sizes.get(section.tp.topic, 0) + len(section.data)
        metrics = self._client.metrics
        metrics.sensor(RECORD_BYTES).record(sum(sizes.values()), now_ms)
        for topic, size in sizes.items():
            metrics.sensor(f"{RECORD_BYTES},topic={topic}").record(size, now_ms)

    def _count_records(self, counts: dict[str, int]) -> None:
        metrics, now_ms = self._client.metrics, self._client.clock.now_ms()
        metrics.sensor(RECORDS_PER_REQUEST).record(sum(counts.values()), now_ms)
        for topic, count in counts.items():
            metrics.sensor(f"{RECORDS_PER_REQUEST},topic={topic}").record(count, now_ms)

    def _node_failed(self, node_id: int, session: FetchSession, error: KcliError, now_ms: float) -> None:
        code = error.code if isinstance(error, BrokerError) else None
        if code in _SESSION_ERRORS and node_id not in self._reopened:
            self._reopened.add(node_id)  # retry at once the first time, after a backoff later
            return
        if not (error.retriable or code in _SESSION_ERRORS or code == ErrorCode.UNKNOWN_SERVER_ERROR):
            failures = [
                PartitionFailure(tp, sent.offset, error)
                for tp, sent in session.sent.items()
                if self._is_current(tp, sent)
            ]
            self.buffer.add(CompletedFetch(node_id, [], failures))
        if self._node_backoffs.add(node_id, error, now_ms).is_worth_a_warning:
            self._warnings.warn(node_id, now_ms, f"node {node_id} answers no fetch: {error}")
        self._client.metadata.request_update()
        for tp in list(session.partitions()):
            self._subscription.prefer_leader(tp)

    def _process(self, node_id: int, session: FetchSession, response: FetchResponse, now_ms: float) -> CompletedFetch:
        received = CompletedFetch(node_id, [], [])
        failed = set()
        for tp, data in _partitions_of(response, session):
            requested = session.sent.get(tp)
            if requested is None or not self._is_current(tp, requested):
                continue  # the position changed while the request was in flight
            verdict = judge_partition(tp, requested, response, data, node_id)
            if verdict.retry is not None:
                failed.add(tp)
                self._saw_leader(tp, data, response)
                self._subscription.prefer_leader(tp)
                self._retry_later(tp, verdict.retry, now_ms)
            elif isinstance(verdict.failure, OffsetOutOfRange) and self._subscription.prefer_leader(tp):
                continue  # a follower may lag: ask the leader before this is an error
            elif verdict.failure is not None:
                received.failures.append(PartitionFailure(tp, requested.offset, verdict.failure))
            elif verdict.epoch is not None:
                self._subscription.fetched(tp, requested.offset, FetchPosition(requested.offset, verdict.epoch))
            else:
                self._take_records(tp, requested, data, received, now_ms)
        for tp in [tp for tp, _ in self._partition_backoffs.items() if tp in session.sent and tp not in failed]:
            self._partition_backoffs.clear(tp)
            self._retry_warnings.ended(tp, now_ms)
        return received

    def _take_records(
        self,
        tp: TopicPartition,
        requested: PartitionFetch,
        data: PartitionData,
        received: CompletedFetch,
        now_ms: float,
    ) -> None:
        state = self._subscription.state(tp)
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start = data.log_start_offset
        if data.preferred_read_replica >= 0:
            until_ms = now_ms + self._config.metadata_max_age_ms
            self._subscription.prefer_replica(tp, data.preferred_read_replica, until_ms)
        if not data.records:
            return
        aborted = None
        if self._read_committed:
            aborted = [(row.producer_id, row.first_offset) for row in data.aborted_transactions or ()]
        records = memoryview(data.records)
        received.sections.append(Section(tp, records, requested.offset, aborted, requested.topic_id))
        after = position_after(records)
        if after is not None and after.offset > requested.offset:
            self._subscription.fetched(tp, requested.offset, after)
            self._progressed.add(received.node_id)
        else:
            self.buffer.halt(tp, requested.offset)  # no whole batch: the decoder finds the error

    def _is_current(self, tp: TopicPartition, requested: PartitionFetch) -> bool:
        state = self._subscription.get(tp)
        if state is None or not state.belongs_to(requested.topic_id):
            return False
        position = state.next_fetch()
        return position is not None and position.offset == requested.offset

    def _saw_leader(self, tp: TopicPartition, data: PartitionData, response: FetchResponse) -> None:
        """Take the new leader from the error response, which saves a metadata request (KIP-951)."""
        leader = data.current_leader
        if leader.leader_id >= 0:
            nodes = [Node(row.node_id, row.host, row.port, row.rack) for row in response.node_endpoints]
            self._client.metadata.update_leader(tp, leader.leader_id, leader.leader_epoch, nodes)

    def _retry_later(self, tp: TopicPartition, error: KcliError, now_ms: float) -> None:
        self._retry_warnings.failed(tp, self._partition_backoffs.add(tp, error, now_ms), now_ms)
        self._subscription.updated.add(tp)
        self._client.metadata.request_update()

    # --- state for callers

    def retry_state(self, tp: TopicPartition) -> RetryState | None:
        """Return the failures because of which nothing arrives for `tp`; None if there are none."""
        return self._partition_backoffs.get(tp) or self._node_backoffs.get(self._node_ids.get(tp, _NOWHERE))

    def retry_states(self) -> dict[TopicPartition, RetryState]:
        """Return the failures of all partitions for which nothing arrives."""
        if not len(self._partition_backoffs) and not len(self._node_backoffs):
            return {}
        partitions = {*self._node_ids, *(tp for tp, _ in self._partition_backoffs.items())}
        return {tp: state for tp in partitions if (state := self.retry_state(tp)) is not None}

    def node_of(self, tp: TopicPartition) -> int | None:
        """Return the broker that `tp` is fetched from now."""
        return self._node_ids.get(tp)

    def take_progressed_nodes(self) -> set[int]:
        """Return the brokers that have sent new records since the last call."""
        progressed, self._progressed = self._progressed, set()
        return progressed

    def close(self) -> None:
        """Close the fetch sessions without waiting. Nothing is delivered afterwards."""
        self._closed = True
        for node_id in list(self._sessions):
            self._close_session(node_id)
        self.buffer.clear()

    def _close_session(self, node_id: int) -> None:
        session = self._sessions.pop(node_id)
        node = self._client.metadata.cluster.nodes.get(node_id)
        if node is not None and session.session_id and node_id not in self._in_flight:
            request = self._request(session.session_id, FINAL_EPOCH)
            request.max_wait_ms = 0
            self._client.send(
                node, request, max_version=NEWEST_VERSION if session.uses_ids else NEWEST_VERSION_WITH_NAMES
            )


class EarlyAnswers:
    """A pause per broker that answers fetches at once with nothing, though it was asked to wait for records.

    Kafka does so while the position is above the high watermark: after a leader change the new leader learns the high
    watermark from its followers, and consumers have read further. Without a pause the next fetch would be answered at
    once too, a thousand times a second. Pure: time is an argument.
    """

    def __init__(self, max_wait_ms: float, pause_ms: float) -> None:
        self._max_wait_ms = max_wait_ms
        self._pause_ms = pause_ms
        self._count: dict[int, int] = {}
        self._until_ms: dict[int, float] = {}

    def answered(self, node_id: int, sent_ms: float, now_ms: float, *, is_empty: bool) -> None:
        """Record a response. The first early one may have another reason; from the second on there is a pause."""
        if not is_empty or now_ms - sent_ms >= self._max_wait_ms / 2:
            self._count.pop(node_id, None)
            return
        self._count[node_id] = self._count.get(node_id, 0) + 1
        if self._count[node_id] > 1:
            self._until_ms[node_id] = now_ms + min(self._pause_ms, self._max_wait_ms)

    def end_expired(self, now_ms: float) -> None:
        """End the pauses that are over."""
        if self._until_ms:
            self._until_ms = {node_id: until_ms for node_id, until_ms in self._until_ms.items() if until_ms > now_ms}

    def is_waiting(self, node_id: int) -> bool:
        """True during the pause, until `end_expired` has ended it."""
        return node_id in self._until_ms

    def next_ms(self) -> float:
        """Return the time at which the next pause ends; infinity without one."""
        return min(self._until_ms.values(), default=float("inf"))


def _is_empty(response: FetchResponse) -> bool:
    """Return whether a response has neither records nor errors, nor names another place to read from."""
    return not any(
        data.error_code or data.records or data.diverging_epoch.epoch >= 0 or data.preferred_read_replica >= 0
        for topic in response.responses
        for data in topic.partitions
    )


_NOWHERE = -(2**31)
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


def _partitions_of(response: FetchResponse, session: FetchSession) -> Iterator[tuple[TopicPartition, PartitionData]]:
    for topic in response.responses:
        name = topic.topic or session.name_of(topic.topic_id)
        if name is not None:
            for data in topic.partitions:
                yield TopicPartition(name, data.partition_index), data
