"""`ShareConsumer`: a member of a share group, in the thread of its caller (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import uuid4

from kcli.arguments import checked
from kcli.client.backoff import Backoff
from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
from kcli.consumer.group.kip848_protocol import HeartbeatTiming, reaction_to
from kcli.consumer.share.share_session import (
    AcknowledgeType,
    PartitionId,
    Range,
    ShareSession,
    acknowledged_ranges,
)
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, UnsupportedVersion
from kcli.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kcli.structs import Node, TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
    from kcli.protocol.messages.share_fetch import PartitionData, ShareFetchResponse
    from kcli.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
    from kcli.protocol.records.batch import Buffer
    from kcli.protocol.records.columns import RecordColumns

MAX_RECORDS = 500
_LEAVE_EPOCH = -1
_EARLY_MS = 250.0
_TOO_OLD = "the broker has no share groups (KIP-932); they need Kafka 4.1 or newer, with share.version 1"
_NEW_SESSION = {
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
}


class AcquiredRecords(NamedTuple):
    """Records of one partition that this member holds, with the acquired ranges of offsets: first and last of each.

    `node_id` is the broker that must get the acknowledgement.
    """

    tp: TopicPartition
    columns: RecordColumns
    ranges: list[tuple[int, int]]
    id: PartitionId
    node_id: int


class FailedAcknowledgement(NamedTuple):
    """A partition whose acknowledgements a broker did not accept, or for which no answer arrived."""

    tp: TopicPartition
    offsets: int
    error: KcliError


_Acknowledged: TypeAlias = "Mapping[PartitionId, list[Range]]"


class _Exchange(NamedTuple):
    """A ShareFetch in flight to a node, and the acknowledgements in it."""

    node: Node
    future: RequestFuture[ShareFetchResponse]
    acknowledged: _Acknowledged


@checked()
class ShareConsumer:
    """Acquires records with `poll`; the caller acknowledges all of them with `acknowledge` before the next poll.

    `failed` has the acknowledgements that failed. The brokers deliver those records again.
    """

    def __init__(
        self, client: ConsumerNetworkClient, config: ConsumerConfig, group: str, topics: Iterable[str]
    ) -> None:
        self.group = group
        self.member_id = str(uuid4())
        self.failed: list[FailedAcknowledgement] = []
        self.partitions: frozenset[TopicPartition] = frozenset()
        self._client = client
        self._config = config
        self._topics = sorted(topics)
        self._lookup = CoordinatorLookup(client, group)
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._timing = HeartbeatTiming()
        self._epoch = 0
        self._answered_ms = 0.0
        self._failure: KcliError | None = None
        self._assigned: frozenset[PartitionId] = frozenset()
        self._names: dict[PartitionId, TopicPartition] = {}
        self._sessions: dict[int, ShareSession] = {}
        self._exchanges: dict[int, _Exchange] = {}
        self._acknowledgements: dict[int, dict[PartitionId, list[Range]]] = {}
        self._not_before_ms: dict[int, float] = {}
        self._turn = 0
        client.metadata.add_topics(self._topics)

    def __repr__(self) -> str:
        return f"<ShareConsumer {self.group} epoch={self._epoch} {len(self._assigned)} partitions>"

    @property
    def is_member(self) -> bool:
        """True after the coordinator accepted this member."""
        return self._epoch > 0

    # --- reading

    def poll(self, timeout_ms: float, max_records: int | None = None) -> list[AcquiredRecords]:
        """Return acquired records as soon as there are some; none if the timeout passes.

        With `max_records` at most that many are acquired, from one broker at a time; brokers before Kafka 4.2 may give
        the rest of a batch in addition. Raise WakeupError, BrokerError for a refusal, CorruptRecords for damaged
        records, and UnsupportedVersion if the brokers have no share groups.
        """
        self._client.require_own_process()
        deadline_ms = self._client.clock.now_ms() + timeout_ms
        while True:
            now_ms = self._client.clock.now_ms()
            self._beat(now_ms)
            if self._failure is not None:
                raise self._failure
            acquired = self._take_answers(now_ms)
            self._send_fetches(now_ms, max_records)
            if acquired or now_ms >= deadline_ms:
                return acquired
            self._client.poll(timeout_ms=max(0.0, min(deadline_ms, self._next_ms(now_ms)) - now_ms))

    def acknowledge(self, acquired: AcquiredRecords, type: AcknowledgeType, released_from: int | None = None) -> None:
        """Acknowledge records: `type` for those before the offset `released_from`, and release for the others.

        The acknowledgement is sent with the next request to the broker.
        """
        self._client.require_own_process()
        offsets = acquired.columns.offsets.tolist()
        ranges = acknowledged_ranges(acquired.ranges, offsets, type, released_from)
        self._acknowledgements.setdefault(acquired.node_id, {}).setdefault(acquired.id, []).extend(ranges)

    def close(self, timeout_ms: float) -> None:
        """Send the remaining acknowledgements, release all other records, and leave the group. Never raises."""
        if self._client.is_forked:
            return
        deadline_ms = self._client.clock.now_ms() + timeout_ms
        with self._client.without_wakeups():
            self._close_sessions(deadline_ms)
            self._leave(deadline_ms)

    # --- membership

    def _beat(self, now_ms: float) -> None:
        """Send a heartbeat if one is due."""
        node = self._lookup.find(now_ms)
        if node is None or not self._timing.is_due(now_ms, urgent=self._awaits_assignment(now_ms)):
            return
        request = ShareGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=self._epoch)
        if self._epoch == 0:
            request.rack_id, request.subscribed_topic_names = self._config.client_rack or None, self._topics
        self._timing.sent(now_ms)
        timeout_ms = self._timing.response_timeout_ms(self._client.config.request_timeout_ms)
        answer = self._client.send(node, request, timeout_ms=timeout_ms)
        answer.add_done_callback(lambda done: self._answered(node, done))

    def _awaits_assignment(self, now_ms: float) -> bool:
        """True if the next heartbeat should not wait for its interval: a new member has its assignment soon."""
        return self._epoch == 0 or (not self._assigned and now_ms >= self._answered_ms + _EARLY_MS)

    def _answered(self, node: Node, done: RequestFuture[ShareGroupHeartbeatResponse]) -> None:
        self._answered_ms = self._client.clock.now_ms()
        error = done.error
        if error is None and (code := done.value().error_code):
            refused = done.value()
            error = refused.broker_error(code, refused.error_message, api="ShareGroupHeartbeat", group=self.group)
        if error is not None:
            self._refused(error, node)
            return
        response = done.value()
        self._timing.succeeded(response.heartbeat_interval_ms)
        self._epoch = response.member_epoch
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            self._assigned = frozenset(
                PartitionId(topic.topic_id, number) for topic in topics for number in topic.partitions
            )

    def _refused(self, error: KcliError, node: Node) -> None:
        if isinstance(error, UnsupportedVersion) or getattr(error, "code", 0) == ErrorCode.UNSUPPORTED_VERSION:
            error = UnsupportedVersion(f"group {self.group} cannot be joined: {_TOO_OLD}")
        reaction = reaction_to(error, self._epoch)
        if reaction in ("fail", "report"):
            self._failure = error
            return
        self._timing.failed(self._client.clock.now_ms(), self._backoff.after(self._timing.failures + 1))
        if reaction == "find":
            self._lookup.mark_unknown(str(error), node)
        elif reaction == "fence":
            self._epoch, self._assigned = 0, frozenset()
            self._timing = HeartbeatTiming()

    # --- requests to leaders

    def _send_fetches(self, now_ms: float, max_records: int | None) -> None:
        """Send a ShareFetch to each leader without one in flight; with `max_records` to one leader after another."""
        leaders = self._partitions_by_leader()
        nodes = sorted({*leaders, *self._acknowledgements}, key=lambda node_id: (node_id <= self._turn, node_id))
        for node_id in nodes:
            if max_records is not None and self._exchanges:
                return
            node = self._client.metadata.cluster.broker(node_id)
            if node is None:
                self._give_up_acknowledgements(node_id, KcliError("the broker is no longer in the cluster"))
            elif node_id not in self._exchanges and now_ms >= self._not_before_ms.get(node_id, 0.0):
                self._turn = node_id
                self._send_fetch(node, leaders.get(node_id, []), max_records or MAX_RECORDS)

    def _partitions_by_leader(self) -> dict[int, list[PartitionId]]:
        """Return the assigned partitions by the id of their leader; request metadata if one is unknown."""
        metadata = self._client.metadata
        topics = {topic.topic_id: topic for topic in metadata.cluster.topics.values() if topic.topic_id is not None}
        leaders: dict[int, list[PartitionId]] = {}
        for partition_id in self._assigned:
            topic = topics.get(partition_id.topic_id)
            info = None if topic is None else topic.partitions.get(partition_id.partition)
            if info is None or info.leader < 0:
                metadata.request_update()
                continue
            self._names[partition_id] = TopicPartition(info.topic, info.partition)
            leaders.setdefault(info.leader, []).append(partition_id)
        self.partitions = frozenset(self._names[id] for id in self._assigned if id in self._names)
        return leaders

    def _send_fetch(self, node: Node, wanted: list[PartitionId], max_records: int) -> None:
        session = self._sessions.setdefault(node.id, ShareSession(self.group, self.member_id))
        acknowledged = self._acknowledgements.pop(node.id, {})
        if acknowledged and not session.is_open:  # the broker has released the records
            self._fail(acknowledged, KcliError("the share session was closed before the acknowledgement"))
            acknowledged = {}
        request = session.fetch(wanted, acknowledged, max_records, self._config.fetch_max_wait_ms)
        self._exchanges[node.id] = _Exchange(node, self._client.send(node, request), acknowledged)

    def _take_answers(self, now_ms: float) -> list[AcquiredRecords]:
        acquired: list[AcquiredRecords] = []
        for node_id, exchange in list(self._exchanges.items()):
            if exchange.future.done:
                del self._exchanges[node_id]
                acquired += self._take_answer(exchange, now_ms)
        return acquired

    def _take_answer(self, exchange: _Exchange, now_ms: float) -> list[AcquiredRecords]:
        node, future = exchange.node, exchange.future
        error = future.error
        if error is None and (code := future.value().error_code):
            error = future.value().broker_error(code, future.value().error_message, api="ShareFetch", group=self.group)
        if error is not None:
            self._lost_session(exchange, error, now_ms)
            return []
        acquired = []
        partitions = {
            PartitionId(t.topic_id, row.partition_index): row for t in future.value().responses for row in t.partitions
        }
        self._judge(exchange.acknowledged, {id: data.acknowledge_error_code for id, data in partitions.items()})
        for partition_id, data in partitions.items():
            if data.error_code:
                self._partition_failed(partition_id, data, node.id, now_ms)
            elif data.acquired_records and partition_id in self._names:
                acquired.append(self._decoded(partition_id, data, node.id))
        return acquired

    def _lost_session(self, exchange: _Exchange, error: KcliError, now_ms: float) -> None:
        """Begin a new session after a failed request. Its acknowledgements may or may not be stored."""
        self._sessions[exchange.node.id].reset()
        self._fail(exchange.acknowledged, error)
        self._give_up_acknowledgements(exchange.node.id, error)
        is_session = isinstance(error, BrokerError) and error.code in _NEW_SESSION
        if not error.retriable and not is_session:
            raise error
        self._not_before_ms[exchange.node.id] = now_ms + self._backoff.after(1)
        if not is_session:
            self._client.metadata.request_update()

    def _partition_failed(self, partition_id: PartitionId, data: PartitionData, node_id: int, now_ms: float) -> None:
        tp = self._names.get(partition_id)
        where: dict[str, Any] = {"api": "ShareFetch", "group": self.group}
        if tp is not None:
            where |= {"topic": tp.topic, "partition": tp.partition}
        error = BrokerError(data.error_code, data.error_message, principal=self._client.principal, **where)
        if not error.retriable:
            raise error
        self._not_before_ms[node_id] = now_ms + self._backoff.after(1)
        self._client.metadata.request_update()

    def _decoded(self, partition_id: PartitionId, data: PartitionData, node_id: int) -> AcquiredRecords:
        """Return the acquired records of a partition. Raise CorruptRecords and RecordTooLarge."""
        ranges = sorted((acquired.first_offset, acquired.last_offset) for acquired in data.acquired_records)
        columns, next_offset = decode_acquired(
            self._names[partition_id], data.records, ranges, self._config.max_decompressed_batch_bytes
        )
        held = [(first, min(last, next_offset - 1)) for first, last in ranges if first < next_offset]
        beyond = [
            Range(max(first, next_offset), last, AcknowledgeType.RELEASE)
            for first, last in ranges
            if last >= next_offset
        ]
        if beyond:
            self._acknowledgements.setdefault(node_id, {}).setdefault(partition_id, []).extend(beyond)
        return AcquiredRecords(self._names[partition_id], columns, held, partition_id, node_id)

    # --- failed acknowledgements

    def _give_up_acknowledgements(self, node_id: int, error: KcliError) -> None:
        self._fail(self._acknowledgements.pop(node_id, {}), error)

    def _judge(self, acknowledged: _Acknowledged, codes: Mapping[PartitionId, int]) -> None:
        """Record the acknowledgements of partitions whose outcome is an error code."""
        for partition_id in acknowledged.keys() & {id for id, code in codes.items() if code}:
            error = BrokerError(codes[partition_id], api="ShareAcknowledge", principal=self._client.principal)
            self._fail({partition_id: acknowledged[partition_id]}, error)

    def _fail(self, acknowledged: _Acknowledged, error: KcliError) -> None:
        for partition_id, ranges in acknowledged.items():
            kept = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)
            offsets = sum(span.last - span.first + 1 for span in ranges if span.type in kept)
            if offsets:
                self.failed.append(FailedAcknowledgement(self._names[partition_id], offsets, error))

    # --- the end

    def _close_sessions(self, deadline_ms: float) -> None:
        for node_id, session in self._sessions.items():
            node = self._client.metadata.cluster.broker(node_id)
            acknowledged = self._acknowledgements.pop(node_id, {})
            exchange = self._exchanges.pop(node_id, None)
            if node is None or not session.is_open:
                self._fail(acknowledged, KcliError("the share session was closed before the acknowledgement"))
                continue
            answer = self._client.send(node, session.closing(acknowledged))
            self._await(answer, deadline_ms)
            if exchange is not None:
                self._judge_answer(exchange.future, exchange.acknowledged)
            self._judge_answer(answer, acknowledged)

    def _judge_answer(
        self, answer: RequestFuture[ShareFetchResponse] | RequestFuture[ShareAcknowledgeResponse], sent: _Acknowledged
    ) -> None:
        """Record the failed acknowledgements of a request whose records, if any, are no longer wanted."""
        if not answer.done or answer.error is not None:
            self._fail(sent, answer.error or KcliError("no answer arrived in time"))
            return
        response = answer.value()
        if response.error_code:
            self._fail(sent, BrokerError(response.error_code, response.error_message))
            return
        self._judge(
            sent,
            {
                PartitionId(topic.topic_id, row.partition_index): getattr(row, "acknowledge_error_code", row.error_code)
                for topic in response.responses
                for row in topic.partitions
            },
        )

    def _leave(self, deadline_ms: float) -> None:
        node = self._lookup.node
        if node is not None and self._epoch > 0:
            request = ShareGroupHeartbeatRequest(
                group_id=self.group, member_id=self.member_id, member_epoch=_LEAVE_EPOCH
            )
            self._await(self._client.send(node, request), deadline_ms)
        self._epoch = 0

    def _await(self, answer: RequestFuture[Any], deadline_ms: float) -> None:
        self._client.poll(until=answer, timeout_ms=max(0.0, deadline_ms - self._client.clock.now_ms()))

    def _next_ms(self, now_ms: float) -> float:
        """Return the time of the next heartbeat, search for the coordinator, or fetch after a failure."""
        beat_ms = self._lookup.next_ms()
        if self._lookup.node is not None:
            beat_ms = self._timing.due_ms(urgent=self._epoch == 0)
            if not self._assigned and not self._timing.in_flight:
                beat_ms = min(beat_ms, self._answered_ms + _EARLY_MS)
        waiting = [ms for ms in self._not_before_ms.values() if ms > now_ms]
        return min([beat_ms, *waiting])


def decode_acquired(
    tp: TopicPartition, data: Buffer, ranges: Sequence[tuple[int, int]], max_bytes: int
) -> tuple[RecordColumns, int]:
    """Return the records at the acquired offsets, and the offset from which on nothing is decoded.

    Batches that together are too large for memory when they are decompressed are left. Raise CorruptRecords, and
    RecordTooLarge for a batch that decompresses to more than `max_bytes`, or to more than the memory has room for.
    """
    import numpy as np

    from kcli.protocol.records.compression import out_of_memory
    from kcli.protocol.records.decode import decode_sections
    from kcli.protocol.records.sections import RecordSection

    firsts, lasts = (np.array(column, np.int64) for column in zip(*ranges, strict=True))
    section = RecordSection(tp.topic, tp.partition, data, ranges[0][0])
    try:
        (decoded,) = decode_sections([section], max_decompressed_bytes=max_bytes)
    except MemoryError:
        raise out_of_memory(tp, ranges[0][0], len(memoryview(data))) from None
    if decoded.error is not None:
        raise decoded.error
    columns = decoded.columns
    place = np.searchsorted(firsts, columns.offsets, "right") - 1
    is_acquired = (place >= 0) & (columns.offsets <= lasts[place])
    next_offset = ranges[-1][1] + 1 if decoded.remaining is None else decoded.next_offset
    return columns.take(is_acquired), next_offset
