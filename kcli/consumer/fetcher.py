"""`Fetcher`: one Fetch request in flight per broker, the next one sent before the last answer is decoded.

A response is taken apart when it arrives: headers alone say where each partition stands now (`fetch_buffer`), so the
next request leaves while the records are still undecoded. A broker is asked again only when its last response is about
to be handed out: per broker there is never more than one response waiting and one on its way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.consumer.fetch_buffer import Delivery, Failure, Received, Section, position_after
from kcli.consumer.fetch_session import FINAL_EPOCH, Ask, FetchSession, fetch_topics, forgotten_topics
from kcli.consumer.fetch_verdict import judge
from kcli.consumer.retry_backoff import Trouble, Troubles
from kcli.consumer.subscription import FetchPosition, SubscriptionState
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, OffsetOutOfRange
from kcli.structs import Node, TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

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
    """Fetches what the subscription wants; what comes is in `delivery`, to be handed out.

    `memory_bytes` bounds what may be asked for in all responses together; None: each may have `fetch.max.bytes`.
    `partition_bytes` is what is asked for of one partition: `max.partition.fetch.bytes`, unless somebody changes it.
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
        self.delivery = Delivery(subscription, check_crcs=config.check_crcs, decode=decode)
        self._read_committed = config.reads_committed
        backoff_ms = config.retry_backoff_ms, config.retry_backoff_max_ms
        self._partition_troubles: Troubles[TopicPartition] = Troubles(*backoff_ms)
        self._node_troubles: Troubles[int] = Troubles(*backoff_ms)
        self._sessions: dict[int, FetchSession] = {}
        self._placed: dict[TopicPartition, int] = {}
        self._in_flight: set[int] = set()
        self._moved: set[int] = set()
        self.pinned_ids: dict[str, UUID | None] = {}  # topics that must not be replaced by others of their name
        self._reopened: set[int] = set()  # brokers whose last answer was that they have no such session
        self._cluster: object = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<Fetcher brokers={len(self._sessions)} in-flight={len(self._in_flight)} received={len(self.delivery)}>"

    @property
    def is_fetching(self) -> bool:
        """Whether a request is on its way."""
        return bool(self._in_flight)

    # --- asking

    def send(self, now_ms: float) -> None:
        """Ask every broker that is free for what is wanted of it. The requests leave with the client's next poll."""
        self._place_touched(now_ms)
        for node_id in list(self._sessions):
            session = self._sessions[node_id]
            if node_id in self._in_flight or self.delivery.has_from(node_id) or self._node_troubles.waits(node_id):
                continue
            if len(session):
                self._send(node_id, session)
            else:
                self._close_session(node_id)  # nothing is wanted of this broker any more

    def next_ms(self) -> float:
        """When there will be something to ask again without anything arriving."""
        return min(self._partition_troubles.next_ms(), self._node_troubles.next_ms())

    def _place_touched(self, now_ms: float) -> None:
        subscription = self._subscription
        subscription.touched.update(self._partition_troubles.take_waited(now_ms))
        self._node_troubles.take_waited(now_ms)
        cluster = self._client.metadata.cluster
        if cluster is not self._cluster:
            self._cluster = cluster
            self._partition_troubles.end_waits()
            subscription.touched.update(subscription.partitions())
        while subscription.touched:
            touched, subscription.touched = sorted(subscription.touched), set()
            for tp in touched:
                self._place(tp, now_ms)

    def _place(self, tp: TopicPartition, now_ms: float) -> None:
        """Ask for `tp` at the broker that has it, or nowhere."""
        target = self._target(tp, now_ms)
        placed = self._placed.get(tp)
        if placed is not None and (target is None or target[0] != placed):
            self._sessions[placed].remove(tp)
            del self._placed[tp]
        if target is not None:
            node_id, ask = target
            self._sessions.setdefault(node_id, FetchSession()).put(tp, ask)
            self._placed[tp] = node_id

    def _target(self, tp: TopicPartition, now_ms: float) -> tuple[int, Ask] | None:
        state = self._subscription.get(tp)
        if state is None:
            self._partition_troubles.clear(tp)
            self.delivery.forget(tp)
            return None
        position = state.fetch_from()
        if position is None or self.delivery.is_halted(tp, position.offset) or self._partition_troubles.waits(tp):
            return None
        metadata = self._client.metadata
        leader, epoch = metadata.leader(tp)
        if leader is None:
            self._retry_later(tp, self._no_leader(tp), now_ms)
            return None
        node_id = leader.id
        if state.preferred_replica in metadata.cluster.nodes and now_ms < state.preferred_until_ms:
            node_id = state.preferred_replica
        topic_id = metadata.topic_id(tp.topic)
        pinned_id = self.pinned_ids.get(tp.topic)
        if topic_id is not None and pinned_id is not None and topic_id != pinned_id:
            text = f"topic {tp.topic} was deleted and created anew"
            self._retry_later(tp, BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, text), now_ms)
            return None
        return node_id, Ask(position.offset, epoch, position.epoch, self.partition_bytes, topic_id)

    def _no_leader(self, tp: TopicPartition) -> BrokerError:
        topic = self._client.metadata.cluster.topics.get(tp.topic)
        partition = None if topic is None else topic.partitions.get(tp.partition)
        if topic is not None and topic.error:
            code = topic.error
        elif topic is not None and partition is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return BrokerError(code, api="Metadata", topic=tp.topic, partition=tp.partition)

    def _send(self, node_id: int, session: FetchSession) -> None:
        node = self._client.metadata.cluster.nodes.get(node_id)
        if node is None:
            return
        built = session.build()
        request = self._request(built.session_id, built.epoch)
        versions = (self._client.negotiated(node_id) or {}).get(FETCH)
        with_epochs = versions is not None and versions[1] >= FIRST_VERSION_WITH_LAST_EPOCH
        request.topics = fetch_topics(built.asks, with_last_epochs=with_epochs)
        request.forgotten_topics_data = forgotten_topics(built.forgotten)
        newest = NEWEST_VERSION if built.use_ids else NEWEST_VERSION_WITH_NAMES
        self._in_flight.add(node_id)
        future = self._client.send(node, request, max_version=newest)
        future.on_done(lambda done: self._answered(node, session, done))

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
        # One response of each broker may be waiting while the next is on its way.
        return min(self._config.fetch_max_bytes, self._memory_bytes // (2 * max(1, len(self._sessions))))

    # --- being answered

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
            error = BrokerError(response.error_code, api="Fetch", node=node.id)
            self._node_failed(node.id, session, error, now_ms)
            return
        self._node_troubles.clear(node.id)
        self._reopened.discard(node.id)
        self.delivery.add(self._take_apart(node.id, session, response, now_ms))

    def _node_failed(self, node_id: int, session: FetchSession, error: KcliError, now_ms: float) -> None:
        code = error.code if isinstance(error, BrokerError) else None
        if code in _ABOUT_SESSIONS and node_id not in self._reopened:
            self._reopened.add(node_id)  # at once the first time, like others the next times
            return
        if not (error.retriable or code in _ABOUT_SESSIONS or code == ErrorCode.UNKNOWN_SERVER_ERROR):
            failures = [Failure(tp, ask.offset, error) for tp, ask in session.sent.items() if self._is_current(tp, ask)]
            self.delivery.add(Received(node_id, [], failures))
        self._node_troubles.add(node_id, error, now_ms)
        self._client.metadata.request_update()
        for tp in list(session.partitions()):
            self._subscription.prefer_leader(tp)

    def _take_apart(self, node_id: int, session: FetchSession, response: FetchResponse, now_ms: float) -> Received:
        received = Received(node_id, [], [])
        failed = set()
        for tp, data in _partitions_of(response, session):
            asked = session.sent.get(tp)
            if asked is None or not self._is_current(tp, asked):
                continue  # the position moved while the answer was on its way
            verdict = judge(tp, asked, data, node_id)
            if verdict.retry is not None:
                failed.add(tp)
                self._saw_leader(tp, data, response)
                self._subscription.prefer_leader(tp)
                self._retry_later(tp, verdict.retry, now_ms)
            elif isinstance(verdict.failure, OffsetOutOfRange) and self._subscription.prefer_leader(tp):
                continue  # a follower may lag behind: its word is not the last
            elif verdict.failure is not None:
                received.failures.append(Failure(tp, asked.offset, verdict.failure))
            elif verdict.epoch is not None:
                self._subscription.fetched(tp, asked.offset, FetchPosition(asked.offset, verdict.epoch))
            else:
                self._take_records(tp, asked, data, received, now_ms)
        for tp in [tp for tp, _ in self._partition_troubles.items() if tp in session.sent and tp not in failed]:
            self._partition_troubles.clear(tp)
        return received

    def _take_records(
        self, tp: TopicPartition, asked: Ask, data: PartitionData, received: Received, now_ms: float
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
            aborted = [(it.producer_id, it.first_offset) for it in data.aborted_transactions or ()]
        records = memoryview(data.records)
        received.sections.append(Section(tp, records, asked.offset, aborted))
        behind = position_after(records)
        if behind is not None and behind.offset > asked.offset:
            self._subscription.fetched(tp, asked.offset, behind)
            self._moved.add(received.node_id)
        else:
            self.delivery.halt(tp, asked.offset)  # nothing whole to go on from: the decoder will say why

    def _is_current(self, tp: TopicPartition, asked: Ask) -> bool:
        state = self._subscription.get(tp)
        position = None if state is None else state.fetch_from()
        return position is not None and position.offset == asked.offset

    def _saw_leader(self, tp: TopicPartition, data: PartitionData, response: FetchResponse) -> None:
        """The broker that refuses may name the new leader, which saves asking for metadata (KIP-951)."""
        leader = data.current_leader
        if leader.leader_id >= 0:
            nodes = [Node(it.node_id, it.host, it.port, it.rack) for it in response.node_endpoints]
            self._client.metadata.update_leader(tp, leader.leader_id, leader.leader_epoch, nodes)

    def _retry_later(self, tp: TopicPartition, error: KcliError, now_ms: float) -> None:
        self._partition_troubles.add(tp, error, now_ms)
        self._subscription.touched.add(tp)
        self._client.metadata.request_update()

    # --- the rest

    def trouble_of(self, tp: TopicPartition) -> Trouble | None:
        """Why nothing comes for `tp` though it is wanted, and since when; None if all is well."""
        return self._partition_troubles.get(tp) or self._node_troubles.get(self._placed.get(tp, _NOWHERE))

    def placed_at(self, tp: TopicPartition) -> int | None:
        """The broker that is asked for `tp` now."""
        return self._placed.get(tp)

    def take_moved(self) -> set[int]:
        """The brokers that have given something new since the last call."""
        moved, self._moved = self._moved, set()
        return moved

    def close(self) -> None:
        """Give the brokers their sessions back, as far as that needs no waiting. Nothing is handed out any more."""
        self._closed = True
        for node_id in list(self._sessions):
            self._close_session(node_id)
        self.delivery.clear()

    def _close_session(self, node_id: int) -> None:
        session = self._sessions.pop(node_id)
        node = self._client.metadata.cluster.nodes.get(node_id)
        if node is not None and session.session_id and node_id not in self._in_flight:
            request = self._request(session.session_id, FINAL_EPOCH)
            request.max_wait_ms = 0
            self._client.send(
                node, request, max_version=NEWEST_VERSION if session.uses_ids else NEWEST_VERSION_WITH_NAMES
            )


_NOWHERE = -(2**31)
_ABOUT_SESSIONS = frozenset(
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
