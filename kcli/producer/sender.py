"""The sender: Produce requests to the leaders of partitions, their outcomes and retries, the producer id.

In a transaction, `Transactions` supplies the producer id, and a batch that fails makes the transaction fail.

Sequence numbers (KIP-98): a batch gets its identity before its first attempt and keeps it over retries. With one batch
per partition in flight, the next sequence number is the one after the last stored batch. If a batch fails and it is
unknown whether a broker stored it, its numbers can be neither reused nor skipped, so a new producer id is requested.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kcli import logs
from kcli.client.metrics import statistics, sums
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, DisconnectedError, IncompleteResponse, KcliError, TimeoutExpired
from kcli.logs import RepeatedWarnings
from kcli.producer.batches import Identity, ProducerBatch
from kcli.producer.sequences import Sequences
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.wire import zero_uuid
from kcli.structs import Node, TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ProducerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.producer.accumulator import Accumulator
    from kcli.producer.transaction_manager import Transactions
    from kcli.protocol.messages.produce import PartitionProduceResponse, ProduceResponse

_NO_IDENTITY = Identity(-1, -1, -1)
_FIRST_VERSION_WITH_ZSTD = 7
_LAST_VERSION_WITH_NAMES = 12
_NEVER_MS = float("inf")
# Names of sensors: records by request, retry and failure; batches.
_SENT, _RETRIED, _FAILED = "record-send", "record-retry", "record-error"
_BATCH_BYTES, _SPLIT = "batch-size", "batch-split"

# Actions after an attempt. RETRY_RENEWED: retry under a new producer id, because the broker lost its sequence numbers,
# so that it cannot have this batch.
STORED, RETRY, RETRY_RENEWED, SPLIT, FAILED = "stored", "retry", "retry-renewed", "split", "failed"

_LOST_SEQUENCE = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
}
# Codes after which the leader may have the batch: too few replicas have it or confirmed it in time, or the broker
# failed at an unknown point of the append.
_MAY_BE_STORED = {
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}


class Sender:
    """Sends the batches of an accumulator, one request per leader; outcomes arrive while the client is polled."""

    def __init__(self, config: ProducerConfig, client: ConsumerNetworkClient, accumulator: Accumulator) -> None:
        self._config = config
        self._client = client
        self._accumulator = accumulator
        self._backoff = client.retry_backoff
        self._sequences = Sequences() if config.enable_idempotence else None
        #: None: the producer has no transactional id.
        self.transactions: Transactions | None = None
        if config.transactional_id is not None:
            from kcli.producer.transaction_manager import Transactions

            assert self._sequences is not None
            self.transactions = Transactions(config, client, self._sequences)
        self._id_future: RequestFuture[Any] | None = None
        self._id_failures = 0
        self._id_retry_at_ms = float("-inf")
        self._in_flight: dict[int, int] = {}
        self._blocked_until_ms: float | None = None  # due batches wait until then, or for a response; None: none waits
        self._abandoned = False
        self._warnings = RepeatedWarnings("kcli.producer")
        self.unstored = Unstored()

    def run(self) -> None:
        """Fail expired batches and send those that may be sent."""
        now_ms = self._client.clock.now_ms()
        for batch in self._accumulator.take_expired(now_ms):
            self._fail(batch, self._delivery_timeout(batch))
        error = self._client.authentication_error()
        if error is not None:
            self._fail_all(error)
        due = self._accumulator.sendable(now_ms)
        if self.transactions is not None:
            due = self._admitted(self.transactions, due, now_ms)
        self._blocked_until_ms = None
        if due and self._has_producer_id(now_ms):
            for node, partitions in self._by_leader(due, now_ms).items():
                self._send(node, partitions, now_ms)

    def _admitted(self, transactions: Transactions, due: list[TopicPartition], now_ms: float) -> list[TopicPartition]:
        """Return the partitions whose batches may be sent in the open transaction. Fail all if it cannot be committed.

        Batches in flight are not failed: their responses show whether the partition has them.
        """
        if due and transactions.error() is None:
            transactions.add(due, now_ms + self._config.max_block_ms)
        error = transactions.error()
        if error is None:
            return due
        self._fail_all(error)
        return []

    def _block(self, until_ms: float) -> None:
        self._blocked_until_ms = until_ms if self._blocked_until_ms is None else min(self._blocked_until_ms, until_ms)

    def wait_ms(self) -> float:
        """Return the time until `run` has work without a response; infinity if only a response can bring work."""
        now_ms = self._client.clock.now_ms()
        if self._blocked_until_ms is None:
            next_ms = self._accumulator.next_due_ms()
        else:
            next_ms = min(self._blocked_until_ms, self._accumulator.next_due_ms(after_ms=now_ms))
        return max(next_ms - now_ms, 0.0)

    def abandon(self) -> None:
        """Fail all batches, and ignore the responses to requests in flight."""
        self._abandoned = True
        for batch in self._accumulator.take_in_flight():
            batch.may_be_stored = True
            self._fail(batch, _abandoned(batch))
        for batch in self._accumulator.take_all():
            self._fail(batch, _abandoned(batch))

    def encode(self, batches: Iterable[ProducerBatch]) -> None:
        """Encode batches that wait for the one in flight, so that they can be sent at once after its response."""
        for batch in batches:
            batch.encode(self._config.compression_type)

    # Requests

    def _by_leader(self, due: Iterable[TopicPartition], now_ms: float) -> dict[Node, list[TopicPartition]]:
        """Group partitions by leader, if it may get another request. Delay those whose leader is not available."""
        by_leader: dict[Node, list[TopicPartition]] = {}
        for tp in due:
            node = self._client.metadata.leader(tp).node
            if node is None or self._client.is_unavailable(node):
                self._client.metadata.request_update()
                self._accumulator.first(tp).retry_at_ms = now_ms + self._backoff.after(1)
            elif self._in_flight.get(node.id, 0) < self._config.max_in_flight_requests_per_connection:
                by_leader.setdefault(node, []).append(tp)
            else:
                self._block(_NEVER_MS)
        return by_leader

    def _send(self, node: Node, partitions: list[TopicPartition], now_ms: float) -> None:
        """Send the first batches of these partitions in one request, as many as max.request.size allows.

        They are encoded before they are taken: if that fails, none is in flight, and so none is possibly stored.
        """
        size = 0
        for count, tp in enumerate(partitions):
            batch = self._accumulator.first(tp)
            size += batch.size_bytes
            if count and size > self._config.max_request_size:
                self._block(now_ms)
                partitions = partitions[:count]
                break
            batch.closed = True
            batch.encode(self._config.compression_type)
        batches = [self._accumulator.take(tp) for tp in partitions]
        deadline_ms = min(self._accumulator.deadline_ms(batch) for batch in batches)
        request = self._request(batches)
        self._count_request(batches, now_ms)
        named_only = any(topic.topic_id == zero_uuid() for topic in request.topic_data)
        lowest = _FIRST_VERSION_WITH_ZSTD if self._config.compression_type == "zstd" else None
        highest = _LAST_VERSION_WITH_NAMES if named_only else None
        if self.transactions is not None:
            lowest, highest = self.transactions.produce_versions(lowest, highest)
        self._in_flight[node.id] = self._in_flight.get(node.id, 0) + 1
        self._client.send(
            node,
            request,
            timeout_ms=min(self._config.request_timeout_ms, deadline_ms - now_ms),
            min_version=lowest,
            max_version=highest,
        ).add_done_callback(lambda future: self._finish_request(node, batches, request, future))

    def _count_request(self, batches: list[ProducerBatch], now_ms: float) -> None:
        metrics = self._client.metrics
        metrics.sensor(_SENT).record(sum(batch.record_count for batch in batches), now_ms)
        for batch in batches:
            metrics.sensor(_BATCH_BYTES).record(batch.size_bytes, now_ms)
            if batch.attempts > 1:
                metrics.sensor(_RETRIED).record(batch.record_count, now_ms)

    def metrics(self, now_ms: float) -> dict[str, float]:
        """Return the metrics of records, batches and Produce requests under Kafka's names."""
        metrics = self._client.metrics
        sent, produce = metrics.sensor(_SENT), metrics.latency("Produce")
        result = {
            "records-per-request-avg": sent.average(now_ms),
            "batch-split-total": float(metrics.sensor(_SPLIT).count),
            "requests-in-flight": float(sum(self._in_flight.values())),
            **statistics("batch-size", metrics.sensor(_BATCH_BYTES), now_ms),
            **statistics("request-latency", produce, now_ms),
            **statistics("produce-throttle-time", metrics.throttle("Produce"), now_ms),
        }
        for name in (_SENT, _RETRIED, _FAILED):
            result |= sums(name, metrics.sensor(name), now_ms)
        return result

    def _request(self, batches: list[ProducerBatch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            batch.attempts += 1
            if self._sequences is not None:
                self._sequences.assign(batch)
            encoded = batch.encode(self._config.compression_type)
            records = encoded.batch(
                transactional=self.transactions is not None, **(batch.identity or _NO_IDENTITY)._asdict()
            )
            name = batch.tp.topic
            if name not in topics:
                topic_id = self._client.metadata.topic_id(name) or zero_uuid()
                topics[name] = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
            topics[name].partition_data.append(PartitionProduceData(index=batch.tp.partition, records=records))
        return ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    # Responses

    def _finish_request(
        self, node: Node, batches: list[ProducerBatch], request: ProduceRequest, future: RequestFuture[Any]
    ) -> None:
        self._in_flight[node.id] -= 1
        if self._abandoned:
            return
        if future.error is not None:
            self._client.metadata.request_update(at_once=True)
            for batch in batches:
                self._finish_attempt(batch, future.error)
        elif future.value() is None:  # acks=0: the request was written, and there is no response
            for batch in batches:
                self._finish_attempt(batch, None)
        else:
            self._take_response(node, batches, request, future.value())

    def _take_response(
        self, node: Node, batches: list[ProducerBatch], request: ProduceRequest, response: ProduceResponse
    ) -> None:
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        results = {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), result.index): result
            for topic in response.responses
            for result in topic.partition_responses
        }
        nodes = [Node(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints]
        for batch in batches:
            result = results.get(batch.tp)
            if result is None:
                text = f"the response of {node} does not contain {batch.tp}"
                self._finish_attempt(batch, IncompleteResponse(text, api="Produce"))
            elif result.error_code:
                self._take_error(batch, response, result, nodes)
            else:
                self._finish_attempt(batch, None, result)

    def _take_error(
        self, batch: ProducerBatch, response: ProduceResponse, result: PartitionProduceResponse, nodes: list[Node]
    ) -> None:
        evidence: dict[str, Any] = {"topic": batch.tp.topic, "partition": batch.tp.partition}
        error = response.broker_error(result.error_code, result.error_message, **evidence)
        has_new_leader = False
        if error.code.refresh_metadata:
            leader = result.current_leader
            metadata = self._client.metadata
            has_new_leader = metadata.update_leader(batch.tp, leader.leader_id, leader.leader_epoch, nodes)
            metadata.request_update(at_once=True)
        self._finish_attempt(batch, error, result, at_once=has_new_leader)

    def _finish_attempt(
        self,
        batch: ProducerBatch,
        error: KcliError | None,
        result: PartitionProduceResponse | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """Complete, retry or split a batch; with `at_once` a retry is not delayed."""
        action = action_after(batch, error, max_retries=self._config.retries)
        batch.may_be_stored = batch.may_be_stored or leaves_doubt(error, -1 if result is None else result.base_offset)
        if self.transactions is not None:
            action = self._action_in_transaction(self.transactions, action, batch)
        if action == STORED:
            self._warnings.ended(self._client.clock.now_ms(), f"records for {batch.tp} are stored again", batch.tp)
            self._complete(batch, None if error else result)
            return
        assert error is not None
        batch.last_error = error
        if action == FAILED:
            self._accumulator.complete(batch)
            self._fail(batch, error, _record_errors(error, result))
        elif action == SPLIT:
            self._give_up_sequence(batch)
            self._client.metrics.sensor(_SPLIT).record(1, self._client.clock.now_ms())
            self._accumulator.requeue_split(batch)
        else:
            if action == RETRY_RENEWED and self._sequences is not None:
                batch.identity = None
                self._sequences.renew()
            now_ms = self._client.clock.now_ms()
            if not at_once:
                text = f"{batch.record_count} records for {batch.tp} are sent again (attempt {batch.attempts}): {error}"
                self._warnings.warn(batch.tp, now_ms, text)
            wait_ms = 0.0 if at_once else self._backoff.after(batch.attempts)
            batch.retry_at_ms = now_ms + wait_ms
            self._accumulator.requeue(batch)

    def _action_in_transaction(self, transactions: Transactions, action: str, batch: ProducerBatch) -> str:
        """Return the action in a transaction: it is aborted rather than continued under other sequence numbers."""
        if action == RETRY_RENEWED or (action == SPLIT and batch.may_be_stored):
            return FAILED
        return FAILED if action != STORED and transactions.error() is not None else action

    def _complete(self, batch: ProducerBatch, result: PartitionProduceResponse | None) -> None:
        if self._sequences is not None:
            self._sequences.stored(batch)
        self._accumulator.complete(batch)
        if result is None:
            batch.stored(-1, -1)
        else:
            batch.stored(result.base_offset, result.log_append_time_ms)

    def _fail(self, batch: ProducerBatch, error: KcliError, record_errors: dict[int, KcliError] | None = None) -> None:
        if self.transactions is not None:
            self.transactions.batch_failed(batch, error)
        self._give_up_sequence(batch)
        self._client.metrics.sensor(_FAILED).record(batch.record_count, self._client.clock.now_ms())
        self.unstored.add(batch.record_count, error, possibly_stored=batch.may_be_stored)
        batch.failed(error, record_errors)

    def _give_up_sequence(self, batch: ProducerBatch) -> None:
        if self._sequences is not None and self.transactions is None:
            self._sequences.failed(batch)

    def _delivery_timeout(self, batch: ProducerBatch) -> KcliError:
        node = self._client.metadata.leader(batch.tp).node
        if node is None or batch.last_error is None or self._client.is_unavailable(node):
            awaited = f"leader of {batch.tp}" if node is None else "acknowledgement"
            reason = self._client.timed_out(awaited, node).message
        else:
            reason = batch.last_error.message
        seconds = self._config.delivery_timeout_ms / 1000
        return TimeoutExpired(f"not acknowledged within {seconds:g} s (delivery.timeout.ms): {reason}")

    # Producer id

    def _has_producer_id(self, now_ms: float) -> bool:
        """Return whether batches can get sequence numbers, or need none. If not, request a producer id."""
        if self._sequences is None or self._sequences.is_ready:
            return True
        if self._id_future is None and now_ms >= self._id_retry_at_ms:
            node = self._client.least_loaded_node()
            if node is None:
                self._id_retry_at_ms = now_ms + self._backoff.after(1)
            else:
                from kcli.protocol.messages.init_producer_id import InitProducerIdRequest

                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
                self._id_future = self._client.send(node, request)
                self._id_future.add_done_callback(self._take_producer_id)
        self._block(self._id_retry_at_ms if self._id_future is None else _NEVER_MS)
        return False

    def _take_producer_id(self, future: RequestFuture[Any]) -> None:
        self._id_future = None
        error = future.error
        if error is None and future.value().error_code:
            error = future.value().broker_error(future.value().error_code, api="InitProducerId")
        if error is None:
            assert self._sequences is not None
            self._id_failures = 0
            self._sequences.begin(future.value().producer_id, future.value().producer_epoch)
        elif error.retriable:
            self._id_failures += 1
            self._id_retry_at_ms = self._client.clock.now_ms() + self._backoff.after(self._id_failures)
        else:
            self._fail_all(error)

    def _fail_all(self, error: KcliError) -> None:
        """Fail the batches that wait to be sent, because no broker takes them."""
        for batch in self._accumulator.take_all():
            self._fail(batch, error)


class Unstored:
    """The records of a producer that failed, with the first error, for the log line of `Producer.close`."""

    def __init__(self) -> None:
        self.count = 0
        self.possibly_stored = 0
        self.first_error: KcliError | None = None

    def add(self, count: int, error: KcliError, *, possibly_stored: bool = False) -> None:
        self.count += count
        self.possibly_stored += count * possibly_stored
        self.first_error = self.first_error or error

    def log(self, event: str) -> None:
        """Log the sum, if a record failed."""
        if self.count:
            doubt = f" ({self.possibly_stored} of them possibly are)" if self.possibly_stored else ""
            text = "%s: %d %s not stored%s; the first error: %s"
            verb = "record is" if self.count == 1 else "records are"
            logs.warning("kcli.producer", text, event, self.count, verb, doubt, self.first_error)


def action_after(batch: ProducerBatch, error: KcliError | None, *, max_retries: int) -> str:
    """Return the action after an attempt that ended with `error` (None: with success). Pure."""
    if error is None:
        return STORED
    code = error.code if isinstance(error, BrokerError) else None
    if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return STORED  # in an earlier attempt, whose offset the broker no longer knows
    if code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
        return SPLIT
    if batch.attempts > max_retries:
        return FAILED
    if code in _LOST_SEQUENCE and batch.identity is not None:
        return RETRY_RENEWED
    return RETRY if error.retriable else FAILED


def leaves_doubt(error: KcliError | None, base_offset: int = -1) -> bool:
    """Return whether a broker may have stored a batch although the attempt ended with `error`. Pure.

    `base_offset` is that of the response. A leader that loses its leadership while it waits for replicas answers
    NOT_LEADER_OR_FOLLOWER with the offset of the records that it has appended, which the new leader may have.
    """
    if isinstance(error, BrokerError):
        moved = error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER and base_offset >= 0
        return moved or error.code in _MAY_BE_STORED
    if isinstance(error, DisconnectedError):
        return error.was_sent
    return isinstance(error, IncompleteResponse)


def _abandoned(batch: ProducerBatch) -> KcliError:
    if batch.may_be_stored:
        return KcliError("closed before the acknowledgement")
    return KcliError("closed before they were sent")


def _record_errors(error: KcliError, result: PartitionProduceResponse | None) -> dict[int, KcliError]:
    """The errors of single records, where a broker names the records that made it refuse the batch (KIP-467)."""
    if result is None or not result.record_errors or not isinstance(error, BrokerError):
        return {}
    is_single = len(result.record_errors) == 1
    code = error.code if is_single else ErrorCode.INVALID_RECORD
    return {
        record.batch_index: BrokerError(
            code, record.batch_index_error_message or result.error_message, **error.evidence
        )
        for record in result.record_errors
    }
