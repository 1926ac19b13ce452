"""`Producer`: records in, one by one or in bulk, and the outcome of each in a future or a callback."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from kcli.client.backoff import uniform
from kcli.client.metadata import check_partitions
from kcli.client.metrics import MetricGroups, merged
from kcli.client.request_future import RequestFuture
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, KcliError, TransactionFailed, WakeupError
from kcli.producer.accumulator import Accumulator
from kcli.producer.batches import HEADER_BYTES, OnOutcome, Outcome, RecordMetadata, SizedRecords
from kcli.producer.callables import OnAck, OnSend, ProducerRecord, SendCallables, Serializer
from kcli.producer.partitioner import StickyPartitioner, rows_by_partition
from kcli.producer.record_checks import checked_record, checked_records
from kcli.producer.sender import Sender
from kcli.structs import GroupMetadata, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from kcli.client.config import ProducerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.keyword_types import ProducerSettings
    from kcli.client.metadata import TopicInfo
    from kcli.producer.transaction_manager import Transactions
    from kcli.protocol.records.record import NewRecords
    from kcli.structs import OffsetAndMetadata

_NO_DEADLINE_MS = float("inf")
# The longest time that `close` without a flush takes to abort an open transaction.
_ABORT_AT_CLOSE_MS = 5_000.0
# The longest time without a poll while records are added, so that requests are written and responses are read.
_LONGEST_POLL_INTERVAL_MS = 5


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
    with acks=all) a retry never stores a record twice; without it, a lost response may.

    With `transactional_id`, records are sent in transactions, and readers with isolation.level=read_committed see those
    of committed transactions only: all records of a transaction, or none. See `transaction`.

    Python callables take the place of Java's serializers and interceptors. `send` calls them; `send_many` takes bytes
    and reports to its own callback.

    - `key_serializer` and `value_serializer` return the bytes of a key and a value; None stays null. After an exception
      `send` raises SerializationError, and nothing is sent.
    - `on_send` gets the `ProducerRecord` before it is serialized. A record that it returns takes its place.
    - `on_ack` gets the `RecordMetadata` and None of a stored record, or that of a failed one (offset -1) and its error,
      before the future is done.

    An exception of `on_send` and `on_ack` is logged and otherwise ignored, as Java does.

    >>> import json
    >>> with Producer(bootstrap_servers=bootstrap, value_serializer=lambda it: json.dumps(it).encode()) as producer:
    ...     future = producer.send("orders", {"amount": 3})
    >>> future.value().topic
    'orders'

    There is no thread: records are sent while `send`, `poll`, `flush` or `close` runs, so a batch that lingers is sent
    by the next of these calls after linger.ms. A producer belongs to one thread. Leaving the `with` block flushes and
    closes; after an exception it closes only. `close` raises no error of a record: it logs the number of the records
    that are not stored and their first error, with the level WARNING.
    """

    def __init__(
        self,
        config: ProducerConfig | None = None,
        client: ConsumerNetworkClient | None = None,
        *,
        choose: Callable[[int], int] | None = None,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        on_send: OnSend | None = None,
        on_ack: OnAck | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """Make a producer from settings. No connection is made before the first record.

        `config` is a ready configuration, which `settings` complete. `client` is a ready client that stays the
        caller's to close; by default the producer has its own. `choose(n)` selects one of n partitions for the first
        batch of records without a key; by default at random.
        """
        from kcli.client.config import ProducerConfig, check_callables, not_settings

        self._callables: SendCallables | None = None
        if any(given is not None for given in (key_serializer, value_serializer, on_send, on_ack)):
            check_callables(
                key_serializer=key_serializer, value_serializer=value_serializer, on_send=on_send, on_ack=on_ack
            )
            self._callables = SendCallables(key_serializer, value_serializer, on_send, on_ack)
        if config is not None and not isinstance(config, ProducerConfig):
            advice = "Producer(ProducerConfig.from_properties(...)) or keywords, Producer(bootstrap_servers=...)"
            raise not_settings(config, "a ProducerConfig", advice)
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
        self._transactions = self._sender.transactions
        self._sticky = StickyPartitioner(choose or (lambda n: int(uniform(0, n)) % n))
        self._topics: dict[str, float] = {}  # and the time of their last use
        self._expired_in: object = None  # the metadata after which idle topics were dropped
        self._poll_interval_ms = min(config.linger_ms, _LONGEST_POLL_INTERVAL_MS)
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
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> RequestFuture[RecordMetadata]:
        """Add one record and return the future of its `RecordMetadata`.

        The call waits only for the metadata of a new topic and for room in buffer.memory, at most max.block.ms.
        Without `partition`, the hash of the key selects the partition, as in Java; records without a key go to one
        partition until a batch is full. `headers` are (name, value) pairs. `timestamp_ms` is ms since the epoch;
        default: now. Raise TypeError or ValueError for arguments that cannot be encoded, and SerializationError if a
        serializer fails. The future fails with BrokerError for an unknown topic or partition and for a record larger
        than max.request.size (MESSAGE_TOO_LARGE), with AuthenticationError for refused credentials or certificates, and
        with TimeoutExpired after delivery.timeout.ms. With a transactional id, raise TransactionFailed after a failed
        record of the transaction, and KcliError without an open transaction.
        """
        if self._transactions is not None:
            self._transactions.require_open()
        callables = self._callables
        if callables is not None:
            given = ProducerRecord(topic, value, key, partition, headers, timestamp_ms)
            topic, value, key, partition, headers, timestamp_ms = callables.prepared(given)
        created_ms = self._clock.wall_ms() if timestamp_ms is None else timestamp_ms
        record = checked_record(value, key, headers, created_ms)
        future: RequestFuture[RecordMetadata] = RequestFuture(f"record for {topic}")

        def complete(outcome: Outcome) -> None:
            if outcome.error is not None:
                _fail(future, outcome.tp, created_ms, outcome.error, callables)
            else:
                stored_ms = created_ms if outcome.append_time_ms < 0 else outcome.append_time_ms
                metadata = RecordMetadata(topic, outcome.tp.partition, outcome.base_offset, stored_ms)
                if callables is not None:
                    callables.acknowledged(metadata, None)
                future.complete(metadata)

        try:
            self.send_many(topic, record, complete, partition=partition, checked=True)
        except WakeupError:
            raise
        except KcliError as error:
            if self._transactions is not None:
                self._transactions.record_failed(error)
            self._sender.unstored.add(1, error)
            tp = TopicPartition(topic, -1 if partition is None else partition)
            _fail(future, tp, created_ms, error, callables)
        return future

    def send_many(
        self,
        topic: str,
        records: NewRecords,
        on_outcome: OnOutcome,
        *,
        partition: int | None = None,
        checked: bool = False,
    ) -> None:
        """Add many records. `on_outcome` is called with the outcomes of runs of records, each record once.

        All records are accepted, or none and an error is raised: TypeError or ValueError if one of them is not valid
        (see `send`), KcliError for an unknown topic or partition, or without room for max.block.ms. Records that are
        too large are reported at once. The records of one call may exceed buffer.memory. `checked` omits the check of
        types and timestamps; then an invalid record makes later calls fail.
        """
        if not checked:
            records = checked_records(records)
        if self._transactions is not None:
            self._transactions.require_open()
        info = self.partitions(topic)
        if partition is not None:
            if not isinstance(partition, int):
                raise TypeError(f"the partition of a record is an int or None, not {type(partition).__name__}")
            check_partitions(info, (partition,))
        self._wait_for_room()
        sized = self._without_too_large(topic, partition, SizedRecords(records), on_outcome)
        now_ms = self._clock.now_ms()
        if partition is not None:
            self._accumulator.append(TopicPartition(topic, partition), sized, now_ms, on_outcome)
        else:
            self._append_by_key(info, sized, now_ms, on_outcome)
        is_due = self._accumulator.next_due_ms() <= now_ms or now_ms - self._last_poll_ms >= self._poll_interval_ms
        if is_due or self._accumulator.next_full():
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

        Without `flush` the futures of records without an acknowledgement fail. An open transaction is aborted, without
        `flush` in at most 5 s; otherwise its coordinator aborts it after transaction.timeout.ms. No wakeup interrupts
        this. Safe to call twice.
        """
        if self._closed:
            return
        self._closed = True
        try:
            with self._client.without_wakeups():
                if self._transactions is not None and self._transactions.is_open:
                    with suppress(KcliError):
                        self.abort_transaction(None if flush else _ABORT_AT_CLOSE_MS)
                elif flush:
                    self.flush()
        finally:
            self._sender.abandon()
            if self._transactions is None:  # otherwise the commit has raised the error
                self._sender.unstored.log()
            if self._owns_client:
                self._client.close()

    # Transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block in a transaction: commit it at the end of the block, abort it after an exception.

        >>> from kcli import Producer
        >>> with Producer(bootstrap_servers=bootstrap, transactional_id="orders-1") as producer:
        ...     with producer.transaction():
        ...         future = producer.send("orders", b'{"amount": 3}', key=b"customer-7")
        ...         _ = producer.send("orders", b'{"amount": -3}', key=b"customer-8")
        >>> future.value().topic
        'orders'

        The commit waits for all records of the transaction. Raise TransactionFailed if one of them is not stored: then
        the transaction is aborted, and the producer can begin another. Raise OutcomeUnknown if the response to the
        commit was lost and no other came in max.block.ms; `commit_transaction` then finds out. Raise BrokerError
        (PRODUCER_FENCED) if another producer with this transactional id has begun, or the coordinator has aborted the
        transaction after transaction.timeout.ms: then this producer can only be closed.
        """
        self.begin_transaction()
        try:
            yield
        except BaseException:
            with suppress(KcliError):
                self.abort_transaction()
            raise
        try:
            self.commit_transaction()
        except TransactionFailed:
            self.abort_transaction()
            raise

    def init_transactions(self, timeout_ms: float | None = None) -> None:
        """Fence older producers with this transactional id, and end their transaction. At most max.block.ms.

        The first `begin_transaction` does this if it was not done. Call it before the input of a transaction is read:
        afterwards, no older producer commits offsets of the input.
        """
        self._required("init_transactions").initialize(self._block_deadline_ms(timeout_ms))

    def begin_transaction(self, timeout_ms: float | None = None) -> None:
        """Begin a transaction, to which the records belong that are sent until its end."""
        transactions, deadline_ms = self._required("begin_transaction"), self._block_deadline_ms(timeout_ms)
        transactions.initialize(deadline_ms)
        transactions.begin(deadline_ms)

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata | str,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit offsets of a group with the transaction: both take effect, or neither.

        A loop that consumes, transforms and produces reads each record exactly once, over failures and rebalances:

            producer.init_transactions()
            consumer.subscribe(["orders"])
            while True:
                batch = consumer.poll(timeout_ms=1000)
                with producer.transaction():
                    for columns in batch.values():
                        for row in columns:
                            producer.send("invoices", invoice(row.value), key=row.key)
                    offsets = {tp: OffsetAndMetadata(consumer.position(tp)) for tp in batch}
                    producer.send_offsets(offsets, consumer.group_metadata())

        The consumer needs enable_auto_commit=False and isolation_level="read_committed". After an exception, seek to
        the committed offsets, or make a new consumer.

        `group` is `Consumer.group_metadata()`, so that a consumer that is no longer a member fails here; or the name of
        a group without members. `offsets` are those of the next records to read. Raise BrokerError (ILLEGAL_GENERATION,
        UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, GROUP_AUTHORIZATION_FAILED among others) or TimeoutExpired; then the
        transaction must be aborted. ValueError for a negative offset.
        """
        transactions = self._required("send_offsets")
        transactions.require_open()
        for tp, offset in offsets.items():
            if offset.offset < 0:
                raise ValueError(f"offset must not be negative; got {offset.offset} for {tp}")
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        if offsets:
            transactions.add_offsets(offsets, metadata, self._block_deadline_ms(timeout_ms))

    def commit_transaction(self, timeout_ms: float | None = None) -> None:
        """Wait for the records of the transaction and commit it, at most for max.block.ms. See `transaction`.

        After TimeoutExpired and OutcomeUnknown, another call goes on where this one ended.
        """
        transactions, deadline_ms = self._required("commit_transaction"), self._block_deadline_ms(timeout_ms)
        self.flush(deadline_ms)
        transactions.start_commit()
        transactions.end(deadline_ms)

    def abort_transaction(self, timeout_ms: float | None = None) -> None:
        """Give up the records that are not sent, and abort the transaction, at most for max.block.ms.

        After TimeoutExpired, another call goes on; without one, the coordinator aborts the transaction after
        transaction.timeout.ms. Raise OutcomeUnknown if it may be committed.
        """
        transactions, deadline_ms = self._required("abort_transaction"), self._block_deadline_ms(timeout_ms)
        transactions.start_abort()
        self._sender.run()
        self.flush(deadline_ms)
        transactions.end(deadline_ms)

    @property
    def awaits_transaction_end(self) -> bool:
        """True while a transaction with records or offsets has no confirmed end, also after `close`.

        Its coordinator aborts it after transaction.timeout.ms; until then readers with read_committed stop before it.
        """
        return self._transactions is not None and self._transactions.awaits_end

    def _required(self, call: str) -> Transactions:
        if self._transactions is None:
            raise ConfigError(f"{call} requires transactional.id")
        return self._transactions

    def _block_deadline_ms(self, timeout_ms: float | None) -> float:
        return self._clock.now_ms() + (self._config.max_block_ms if timeout_ms is None else timeout_ms)

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
        if self._accumulator.is_empty and (at_once or not timeout_ms):
            return
        if waiting := self._accumulator.next_full():
            self._client.poll(timeout_ms=0)  # write the requests, so that the brokers work on them in the meantime
            self._sender.encode(waiting)
            self._sender.run(at_once=at_once)  # that poll may have taken the responses for which batches wait
        self._client.poll(timeout_ms=min(timeout_ms, self._sender.wait_ms(at_once=at_once)))
        self._sender.run(at_once=at_once)
        self._last_poll_ms = self._clock.now_ms()
        self._drop_idle_topics(self._last_poll_ms)

    def _drop_idle_topics(self, now_ms: float) -> None:
        """Request metadata no longer of topics that were not used for metadata.max.idle.ms, once per new metadata."""
        cluster = self._client.metadata.cluster
        if self._expired_in is cluster:
            return
        self._expired_in = cluster
        latest_ms = now_ms - self._config.metadata_max_idle_ms
        idle = {topic for topic, used_ms in self._topics.items() if used_ms <= latest_ms}
        if idle:
            idle -= self._accumulator.topics
            self._client.metadata.drop_topics(idle)
            self._topics = {topic: used_ms for topic, used_ms in self._topics.items() if topic not in idle}

    def partitions(self, topic: str) -> TopicInfo:
        """Return the topic from metadata; at its first use, or if it is unknown, wait for it at most max.block.ms.

        Raise BrokerError (UNKNOWN_TOPIC_OR_PARTITION among others) for a topic that cannot be written to.
        """
        info = self._client.metadata.cluster.topics.get(topic)
        if not isinstance(topic, str):
            raise TypeError(f"the topic of a record is a str, not {type(topic).__name__}")
        if topic not in self._topics:  # another user of the client may have requested it only once
            self._client.metadata.add_topics([topic])
        self._topics[topic] = self._clock.now_ms()
        if info is None or info.error:
            deadline_ms = self._clock.now_ms() + self._config.max_block_ms
            cluster = self._client.topics_metadata([topic], deadline_ms)
            if (error := cluster.topic_error(topic)) is not None:
                raise error
            info = cluster.topics[topic]
        return info

    def _without_too_large(
        self, topic: str, partition: int | None, sized: SizedRecords, on_outcome: OnOutcome
    ) -> SizedRecords:
        limit = self._config.max_request_size
        if sized.all_fit(limit - HEADER_BYTES):
            return sized
        too_large = sized.larger_than(limit - HEADER_BYTES)
        accepted = sized.records.select([index for index, is_too_large in enumerate(too_large) if not is_too_large])
        tp = TopicPartition(topic, -1 if partition is None else partition)
        problem = f"a record is larger than max.request.size, {limit} bytes; set a larger max.request.size"
        error = BrokerError(ErrorCode.MESSAGE_TOO_LARGE, problem)
        if self._transactions is not None:
            self._transactions.record_failed(error)
        self._sender.unstored.add(sum(too_large), error)
        on_outcome(Outcome(tp, sum(too_large), error=error))
        return SizedRecords(accepted)

    def _append_by_key(self, info: TopicInfo, sized: SizedRecords, now_ms: float, on_outcome: OnOutcome) -> None:
        """Append records by key. Records without a key are appended to the current sticky partition."""
        available = [p.partition for p in info.partitions.values() if p.leader >= 0] or list(info.partitions)
        keys = sized.records.keys
        if keys is None or self._config.partitioner_ignore_keys or len(info.partitions) == 1:
            self._append_sticky(info.name, available, sized, now_ms, on_outcome)
            return
        null_partition = self._sticky.current(info.name, available)
        for partition, rows in rows_by_partition(keys, len(info.partitions), null_partition).items():
            tp = TopicPartition(info.name, partition)
            selected = sized if len(rows) == sized.count else SizedRecords(sized.records.select(rows))
            self._accumulator.append(tp, selected, now_ms, on_outcome)
            if partition == null_partition and self._accumulator.is_full(tp):
                self._sticky.batch_is_full(info.name)

    def _append_sticky(
        self, topic: str, available: Sequence[int], sized: SizedRecords, now_ms: float, on_outcome: OnOutcome
    ) -> None:
        start = 0
        while start < sized.count:
            tp = TopicPartition(topic, self._sticky.current(topic, available))
            start = self._accumulator.append(tp, sized, now_ms, on_outcome, start=start, one_batch=True)
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


def _fail(
    future: RequestFuture[RecordMetadata],
    tp: TopicPartition,
    created_ms: int,
    error: KcliError,
    callables: SendCallables | None,
) -> None:
    # Not a closure of `send`: each one more for every record makes the garbage collector slower.
    if callables is not None:
        callables.acknowledged(RecordMetadata(tp.topic, tp.partition, -1, created_ms), error)
    future.fail(error)
