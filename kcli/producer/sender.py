"""Takes batches to the leaders of their partitions, and sees to what comes back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, ProtocolError, TimeoutExpired
from kcli.producer.batches import Identity
from kcli.producer.sequences import Sequences
from kcli.producer.verdicts import FAILED, RETRY_RENEWED, SPLIT, STORED, judge, surely_not_stored
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.wire import zero_uuid
from kcli.structs import Node, TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ProducerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.producer.accumulator import Accumulator
    from kcli.producer.batches import ProducerBatch
    from kcli.protocol.messages.produce import PartitionProduceResponse, ProduceResponse

_NO_IDENTITY = Identity(-1, -1, -1)
_FIRST_VERSION_WITH_ZSTD = 7
_LAST_VERSION_WITH_NAMES = 12
# While batches that are due wait for something that will be an event (an answer, an id), look again this often.
_BLOCKED_WAIT_MS = 10.0


class Sender:
    """`run` sends what may leave, each node's batches in one request; answers are taken while the client is polled."""

    def __init__(self, config: ProducerConfig, client: ConsumerNetworkClient, accumulator: Accumulator) -> None:
        self._config = config
        self._client = client
        self._accumulator = accumulator
        self._backoff = client.retry_backoff
        self._sequences = Sequences() if config.enable_idempotence else None
        self._id_future: RequestFuture[Any] | None = None
        self._id_failures = 0
        self._id_retry_at_ms = float("-inf")
        self._requests_out: dict[int, int] = {}
        self._blocked = False

    def run(self, *, at_once: bool = False) -> None:
        """Fail what is too late and send what may leave; with `at_once` without waiting for batches to fill."""
        now_ms = self._client.clock.now_ms()
        for batch in self._accumulator.take_expired(now_ms):
            self._give_up(batch, self._too_late(batch))
        due = self._accumulator.sendable(now_ms, at_once=at_once)
        self._blocked = False
        if due and self._may_number(now_ms):
            for node, partitions in self._by_leader(due, now_ms).items():
                self._send(node, partitions, now_ms)

    def wait_ms(self, *, at_once: bool = False) -> float:
        """How long nothing needs doing here unless an answer comes; infinity for as long as that takes."""
        wait_ms = self._accumulator.next_due_ms(at_once=at_once) - self._client.clock.now_ms()
        return max(wait_ms, _BLOCKED_WAIT_MS if self._blocked else 0.0)

    # Where to

    def _by_leader(self, due: Iterable[TopicPartition], now_ms: float) -> dict[Node, list[TopicPartition]]:
        """The partitions by node, as far as the node may get another request; a partition without leader is held."""
        found: dict[Node, list[TopicPartition]] = {}
        for tp in due:
            node = self._client.metadata.leader(tp).node
            if node is None or self._client.is_unavailable(node):
                self._client.metadata.request_update()
                self._accumulator.peek(tp).retry_at_ms = now_ms + self._backoff.after(1)
            elif self._requests_out.get(node.id, 0) < self._config.max_in_flight_requests_per_connection:
                found.setdefault(node, []).append(tp)
            else:
                self._blocked = True
        return found

    def _send(self, node: Node, partitions: list[TopicPartition], now_ms: float) -> None:
        """One request with the first batches of these partitions, as many as max.request.size allows."""
        batches: list[ProducerBatch] = []
        size = 0
        for tp in partitions:
            size += self._accumulator.peek(tp).size_bytes
            if batches and size > self._config.max_request_size:
                self._blocked = True
                break
            batches.append(self._accumulator.take(tp))
        deadline_ms = min(self._accumulator.deadline_ms(batch) for batch in batches)
        request = self._request(batches)
        named_only = any(topic.topic_id == zero_uuid() for topic in request.topic_data)
        self._requests_out[node.id] = self._requests_out.get(node.id, 0) + 1
        self._client.send(
            node,
            request,
            timeout_ms=min(self._config.request_timeout_ms, deadline_ms - now_ms),
            min_version=_FIRST_VERSION_WITH_ZSTD if self._config.compression_type == "zstd" else None,
            max_version=_LAST_VERSION_WITH_NAMES if named_only else None,
        ).on_done(lambda future: self._answered(node, batches, request, future))

    def _request(self, batches: list[ProducerBatch]) -> ProduceRequest:
        from kcli.protocol.records.builder import build_batch

        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            batch.attempts += 1
            if self._sequences is not None:
                self._sequences.assign(batch)
            records = build_batch(
                batch.rows, compression=self._config.compression_type, **(batch.identity or _NO_IDENTITY)._asdict()
            )
            name = batch.tp.topic
            if name not in topics:
                topic_id = self._client.metadata.topic_id(name) or zero_uuid()
                topics[name] = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
            topics[name].partition_data.append(PartitionProduceData(index=batch.tp.partition, records=records))
        return ProduceRequest(
            acks=self._config.acks, timeout_ms=self._config.request_timeout_ms, topic_data=list(topics.values())
        )

    # What came back

    def _answered(
        self, node: Node, batches: list[ProducerBatch], request: ProduceRequest, future: RequestFuture[Any]
    ) -> None:
        self._requests_out[node.id] -= 1
        if future.error is not None:
            self._client.metadata.request_update(at_once=True)
            for batch in batches:
                self._settle(batch, future.error)
        elif future.value() is None:  # acks=0: written, and nobody will tell more
            for batch in batches:
                self._settle(batch, None)
        else:
            self._take_answers(batches, request, future.value())

    def _take_answers(self, batches: list[ProducerBatch], request: ProduceRequest, response: ProduceResponse) -> None:
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        answers = {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), answer.index): answer
            for topic in response.responses
            for answer in topic.partition_responses
        }
        nodes = [Node(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints]
        for batch in batches:
            answer = answers.get(batch.tp)
            if answer is None:
                self._settle(batch, ProtocolError("the answer to Produce leaves out a partition", partition=batch.tp))
            elif answer.error_code:
                self._refused(batch, answer, nodes)
            else:
                self._settle(batch, None, answer)

    def _refused(self, batch: ProducerBatch, answer: PartitionProduceResponse, nodes: list[Node]) -> None:
        error = BrokerError(answer.error_code, answer.error_message, topic=batch.tp.topic, partition=batch.tp.partition)
        knows_new_leader = False
        if error.code.refresh_metadata:
            leader = answer.current_leader
            metadata = self._client.metadata
            knows_new_leader = metadata.saw_leader(batch.tp, leader.leader_id, leader.leader_epoch, nodes)
            metadata.request_update(at_once=True)
        self._settle(batch, error, answer, at_once=knows_new_leader)

    def _settle(
        self,
        batch: ProducerBatch,
        error: KcliError | None,
        answer: PartitionProduceResponse | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """Do with a batch what the verdict on its attempt says; `at_once`: a retry need not wait."""
        verdict = judge(batch, error, max_retries=self._config.retries)
        if verdict == STORED:
            self._stored(batch, None if error else answer)
            return
        assert error is not None
        batch.last_error = error
        if verdict == FAILED:
            self._accumulator.done(batch)
            self._give_up(batch, error, _record_errors(error, answer))
        elif verdict == SPLIT:
            self._accumulator.put_back_split(batch)
        else:
            if verdict == RETRY_RENEWED and self._sequences is not None:
                batch.identity = None
                self._sequences.renew()
            wait_ms = 0.0 if at_once else self._backoff.after(batch.attempts)
            batch.retry_at_ms = self._client.clock.now_ms() + wait_ms
            self._accumulator.put_back(batch)

    def _stored(self, batch: ProducerBatch, answer: PartitionProduceResponse | None) -> None:
        if self._sequences is not None:
            self._sequences.stored(batch)
        self._accumulator.done(batch)
        if answer is None:
            batch.stored(-1, -1)
        else:
            batch.stored(answer.base_offset, answer.log_append_time_ms)

    def _give_up(
        self, batch: ProducerBatch, error: KcliError, record_errors: dict[int, KcliError] | None = None
    ) -> None:
        if self._sequences is not None:
            self._sequences.failed(batch, surely_not_stored=surely_not_stored(batch, error))
        batch.failed(error, record_errors)

    def _too_late(self, batch: ProducerBatch) -> KcliError:
        node = self._client.metadata.leader(batch.tp).node
        if node is None or batch.last_error is None or self._client.is_unavailable(node):
            awaited = f"leader of {batch.tp}" if node is None else "acknowledgement"
            reason = self._client.timed_out(awaited, node).message
        else:
            reason = batch.last_error.message
        seconds = self._config.delivery_timeout_ms / 1000
        return TimeoutExpired(f"not acknowledged within {seconds:g} s (delivery.timeout.ms): {reason}")

    # Producer id

    def _may_number(self, now_ms: float) -> bool:
        """Batches can be given sequence numbers, or need none; else a producer id is on its way."""
        if self._sequences is None or self._sequences.is_ready:
            return True
        self._blocked = True
        if self._id_future is None and now_ms >= self._id_retry_at_ms:
            node = self._client.least_loaded_node()
            if node is not None:
                from kcli.protocol.messages.init_producer_id import InitProducerIdRequest

                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
                self._id_future = self._client.send(node, request)
                self._id_future.on_done(self._take_producer_id)
        return False

    def _take_producer_id(self, future: RequestFuture[Any]) -> None:
        self._id_future = None
        error = future.error
        if error is None and future.value().error_code:
            error = BrokerError(future.value().error_code, api="InitProducerId")
        if error is None:
            assert self._sequences is not None
            self._id_failures = 0
            self._sequences.begin(future.value().producer_id, future.value().producer_epoch)
        elif error.retriable:
            self._id_failures += 1
            self._id_retry_at_ms = self._client.clock.now_ms() + self._backoff.after(self._id_failures)
        else:
            for batch in self._accumulator.take_all():
                self._give_up(batch, error)


def _record_errors(error: KcliError, answer: PartitionProduceResponse | None) -> dict[int, KcliError]:
    """The records that made a broker refuse the batch, where it named them (KIP-467)."""
    if answer is None or not answer.record_errors or not isinstance(error, BrokerError):
        return {}
    alone = len(answer.record_errors) == 1
    code = error.code if alone else ErrorCode.INVALID_RECORD
    return {
        culprit.batch_index: BrokerError(
            code, culprit.batch_index_error_message or answer.error_message, **error.evidence
        )
        for culprit in answer.record_errors
    }
