"""`Producer`: records in, one by one or in bulk, and the outcome of each in a future or a callback."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from kcli.client.backoff import uniform
from kcli.client.metadata import check_partitions
from kcli.client.metrics import MetricGroups, merged
from kcli.client.request_future import RequestFuture
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, WakeupError
from kcli.producer.accumulator import Accumulator
from kcli.producer.batches import HEADER_BYTES, OnOutcome, Outcome, RecordMetadata, record_bytes
from kcli.producer.partitioner import StickyPartitioner, partition_for_key
from kcli.producer.sender import Sender
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ProducerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import TopicInfo
    from kcli.protocol.records.record import NewRecord
    from kcli.settings import Value

_NO_DEADLINE_MS = float("inf")


class Producer:
    """Writes records to topics that exist.

    >>> from kcli import Producer
    >>> with Producer(bootstrap_servers=bootstrap, linger_ms=10) as producer:
    ...     future = producer.send("orders", b'{"amount": 3}', key=b"customer-7")
    ...     producer.flush()
    >>> future.value().topic
    'orders'

    Settings are Kafka's producer properties with underscores: `bootstrap_servers`, `acks`, `linger_ms`,
    `compression_type` and so on; an unknown name raises ConfigError. Keys, values and header values are bytes or None.

    `send` returns a future. It is done after `flush`, or after enough calls of `poll`; then `future.value()` returns a
    `RecordMetadata` (topic, partition, offset, timestamp_ms) or raises the error of the record: BrokerError for an
    unknown topic or partition and for a record that is too large, TimeoutExpired after delivery.timeout.ms. After an
    error the record is not stored, unless the error's `possibly_stored` is True: then an answer was lost, and it is
    unknown whether the record is stored (`kcli.producer` lists the cases). Sending it again may store it twice.

    The records of a partition are stored in the order in which they were sent. With enable.idempotence (the default
    with acks=all) a retry never stores a record twice; without it, a lost response may. There are no transactions.

    There is no thread: records are sent while `send`, `poll`, `flush` or `close` runs, so a batch that lingers is sent
    by the next of these calls after linger.ms. A producer belongs to one thread. Leaving the `with` block flushes and
    closes; after an exception it closes only.
    """

    def __init__(
        self,
        config: ProducerConfig | None = None,
        client: ConsumerNetworkClient | None = None,
        *,
        choose: Callable[[int], int] | None = None,
        **settings: Value | None,
    ) -> None:
        """Make a producer from settings. No connection is made before the first record.

        `config` is a ready configuration, which `settings` complete. `client` is a ready client that stays the
        caller's to close; by default the producer has its own. `choose(n)` selects one of n partitions for the first
        batch of records without a key; by default at random.
        """
        from kcli.client.config import ProducerConfig

        if config is None or settings:
            config = ProducerConfig.from_keywords(settings, base=config)
        self._owns_client = client is None
        if client is None:
            from kcli.client.connect import connect

            client = connect(config)
        try:
            self._start(config, client, choose)
        except BaseException:
            if self._owns_client:
                client.close()
            raise

    def _start(
        self, config: ProducerConfig, client: ConsumerNetworkClient, choose: Callable[[int], int] | None
    ) -> None:
        self._config = config
        self._client = client
        self._clock = client.clock
        self._closed = False
        self._accumulator = Accumulator(
            batch_bytes=config.batch_size,
            linger_ms=config.linger_ms,
            delivery_timeout_ms=config.delivery_timeout_ms,
        )
        self._sender = Sender(config, client, self._accumulator)
        self._sticky = StickyPartitioner(choose or (lambda n: int(uniform(0, n)) % n))
        self._topics: set[str] = set()
        self._last_poll_ms = 0.0

    def __repr__(self) -> str:
        return f"<Producer {self._accumulator!r}>"

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(flush=kind is None)

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> RequestFuture[RecordMetadata]:
        """Add one record and return the future of its `RecordMetadata`.

        The call waits only for the metadata of a new topic and for room in buffer.memory, at most max.block.ms.
        Without `partition`, the hash of the key selects the partition, as in Java; records without a key go to one
        partition until a batch is full. `headers` are (name, value) pairs. `timestamp_ms` is ms since the epoch;
        default: now. The future fails with BrokerError for an unknown topic or partition and for a record larger than
        max.request.size (MESSAGE_TOO_LARGE), with AuthenticationError for refused credentials or certificates, and with
        TimeoutExpired after delivery.timeout.ms.
        """
        from kcli.protocol.records.record import NewRecord

        for name, data in (("value", value), ("key", key)):
            if isinstance(data, str):
                raise TypeError(f"the {name} of a record is bytes or None, not str; encode it first")
        record = NewRecord(key, value, self._clock.wall_ms() if timestamp_ms is None else timestamp_ms, headers)
        future: RequestFuture[RecordMetadata] = RequestFuture(f"record for {topic}")

        def complete(outcome: Outcome) -> None:
            if outcome.error is not None:
                future.fail(outcome.error)
            else:
                stored_ms = record.timestamp_ms if outcome.append_time_ms < 0 else outcome.append_time_ms
                future.complete(RecordMetadata(topic, outcome.tp.partition, outcome.base_offset, stored_ms))

        try:
            self.send_many(topic, [record], complete, partition=partition)
        except WakeupError:
            raise
        except KcliError as error:
            future.fail(error)
        return future

    def send_many(
        self, topic: str, records: Sequence[NewRecord], on_outcome: OnOutcome, *, partition: int | None = None
    ) -> None:
        """Add many records. `on_outcome` is called with the outcomes of runs of records, each record once.

        All records are accepted, or none and an error is raised (unknown topic or partition, no room for max.block.ms).
        Records that are too large are reported at once. The records of one call may exceed buffer.memory.
        """
        info = self.partitions(topic)
        check_partitions(info, () if partition is None else (partition,))
        self._wait_for_room()
        records = self._without_too_large(topic, partition, records, on_outcome)
        now_ms = self._clock.now_ms()
        if partition is not None:
            self._accumulator.append(TopicPartition(topic, partition), records, now_ms, on_outcome)
        else:
            self._append_by_key(info, records, now_ms, on_outcome)
        if self._accumulator.next_due_ms() <= now_ms or now_ms - self._last_poll_ms >= self._config.linger_ms:
            self.poll(0)

    def poll(self, timeout_ms: float = 0) -> None:
        """Send due batches and take responses. Return after the next event, or after `timeout_ms`."""
        self._poll_once(timeout_ms, at_once=False)

    def flush(self, deadline_ms: float = _NO_DEADLINE_MS) -> None:
        """Send all batches at once and return when each record is stored or failed.

        `deadline_ms` is a time of the client's clock. Raise TimeoutExpired when it passes; the records stay queued.
        """
        while not self._accumulator.is_empty:
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                raise self._client.timed_out("acknowledgements")
            self._poll_once(left_ms, at_once=True)

    def close(self, *, flush: bool = True) -> None:
        """Flush (at most for delivery.timeout.ms) and close the producer's own connections.

        Without `flush` the futures of records without an acknowledgement fail. No wakeup interrupts this. Safe to call
        twice.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if flush:
                with self._client.without_wakeups():
                    self.flush()
        finally:
            self._sender.abandon()
            if self._owns_client:
                self._client.close()

    def metrics(self) -> MetricGroups:
        """Return the metrics of this producer: Kafka's group -> Kafka's name -> value, now. Any thread may call it.

        Averages, maxima and rates are those of the last 30 to 60 seconds; NaN: no value in that time. Times are in ms.
        """
        now_ms = self._clock.now_ms()
        buffered = self._accumulator.buffered_bytes
        own = {
            **self._sender.metrics(now_ms),
            "buffer-total-bytes": float(self._config.buffer_memory),
            "buffer-available-bytes": float(max(0, self._config.buffer_memory - buffered)),
        }
        return merged(self._client.metrics.snapshot("producer", now_ms), {"producer-metrics": own})

    def _poll_once(self, timeout_ms: float, *, at_once: bool) -> None:
        self._sender.run(at_once=at_once)
        if self._accumulator.is_empty and not timeout_ms:
            return
        self._client.poll(timeout_ms=min(timeout_ms, self._sender.wait_ms(at_once=at_once)))
        self._sender.run(at_once=at_once)
        self._last_poll_ms = self._clock.now_ms()

    def partitions(self, topic: str) -> TopicInfo:
        """Return the topic from metadata; at its first use, or if it is unknown, wait for it at most max.block.ms.

        Raise BrokerError (UNKNOWN_TOPIC_OR_PARTITION among others) for a topic that cannot be written to.
        """
        info = self._client.metadata.cluster.topics.get(topic)
        if info is None or info.error:
            deadline_ms = self._clock.now_ms() + self._config.max_block_ms
            info = self._client.topics_metadata([topic], deadline_ms).topics.get(topic)
            if info is None or info.error:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if info is None else info.error
                raise BrokerError(code, request="Metadata", topic=topic)
        if topic not in self._topics:  # another user of the client may have requested it only once
            self._client.metadata.add_topics([topic])
            self._topics.add(topic)
        return info

    def _without_too_large(
        self, topic: str, partition: int | None, records: Sequence[NewRecord], on_outcome: OnOutcome
    ) -> Sequence[NewRecord]:
        limit = self._config.max_request_size
        if max(map(record_bytes, records), default=0) + HEADER_BYTES <= limit:
            return records
        accepted = [record for record in records if record_bytes(record) + HEADER_BYTES <= limit]
        tp = TopicPartition(topic, -1 if partition is None else partition)
        error = BrokerError(ErrorCode.MESSAGE_TOO_LARGE, f"a record is larger than max.request.size, {limit} bytes")
        on_outcome(Outcome(tp, len(records) - len(accepted), error=error))
        return accepted

    def _append_by_key(
        self, info: TopicInfo, records: Sequence[NewRecord], now_ms: float, on_outcome: OnOutcome
    ) -> None:
        """Append records by key, or sticky without a key; in runs, so that the order in a partition is kept."""
        available = [p.partition for p in info.partitions.values() if p.leader >= 0] or list(info.partitions)
        ignore_keys = self._config.partitioner_ignore_keys
        for is_keyed, run in groupby(records, key=lambda record: record.key is not None and not ignore_keys):
            if is_keyed:
                self._append_keyed(info, run, now_ms, on_outcome)
            else:
                self._append_sticky(info.name, available, list(run), now_ms, on_outcome)

    def _append_keyed(
        self, info: TopicInfo, records: Iterable[NewRecord], now_ms: float, on_outcome: OnOutcome
    ) -> None:
        count = len(info.partitions)
        by_partition: dict[int, list[NewRecord]] = {}
        for record in records:
            by_partition.setdefault(partition_for_key(record.key or b"", count), []).append(record)
        for partition, keyed in by_partition.items():
            self._accumulator.append(TopicPartition(info.name, partition), keyed, now_ms, on_outcome)

    def _append_sticky(
        self, topic: str, available: Sequence[int], records: Sequence[NewRecord], now_ms: float, on_outcome: OnOutcome
    ) -> None:
        start = 0
        while start < len(records):
            tp = TopicPartition(topic, self._sticky.current(topic, available))
            start = self._accumulator.append(tp, records, now_ms, on_outcome, start=start, one_batch=True)
            if self._accumulator.is_full(tp):
                self._sticky.batch_is_full(topic)

    def _wait_for_room(self) -> None:
        if self._accumulator.buffered_bytes < self._config.buffer_memory:
            return
        deadline_ms = self._clock.now_ms() + self._config.max_block_ms
        while self._accumulator.buffered_bytes >= self._config.buffer_memory:
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                raise self._client.timed_out(f"room among {self._config.buffer_memory} bytes (buffer.memory)")
            self._poll_once(left_ms, at_once=True)
