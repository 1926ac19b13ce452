"""`Producer`: records in, one by one or in bulk, and the outcome of each in a future or a callback."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from kcli import forks
from kcli.arguments import checked
from kcli.client.backoff import uniform
from kcli.client.metadata import check_partitions
from kcli.client.metrics import MetricGroups, merged
from kcli.client.request_future import RequestFuture
from kcli.errors import ConfigError, KcliError, TransactionFailed, WakeupError
from kcli.producer.batches import (
    RECORD_OVERHEAD_BYTES,
    CallbackReceiver,
    OnOutcome,
    Outcome,
    RecordMetadata,
    SizedRecords,
    header_bytes,
)
from kcli.producer.callables import (
    NO_CALLABLES,
    OnAck,
    OnSend,
    Partitioner,
    ProducerRecord,
    SendCallables,
    Serializer,
)
from kcli.producer.intake import SentMany
from kcli.producer.record_checks import as_bytes, check_timestamp, checked_headers, checked_records
from kcli.producer.record_future import RecordFuture
from kcli.producer.send_loop import SendLoop
from kcli.protocol.records.record import NewRecords
from kcli.structs import GroupMetadata, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from kcli.client.config import ProducerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.keyword_types import ProducerSettings
    from kcli.client.metadata import TopicInfo
    from kcli.producer.transaction_manager import Transactions
    from kcli.structs import OffsetAndMetadata

_NO_DEADLINE_MS = float("inf")
# The longest time that `close` without a flush takes to abort an open transaction.
_ABORT_AT_CLOSE_MS = 5_000.0


@checked(unchecked=("send", "send_many", "partitions"))  # they run for each record, and check what they get
class Producer:
    """Writes records to topics that exist.

    >>> from kcli import Producer
    >>> with Producer(bootstrap_servers=bootstrap, linger_ms=10) as producer:
    ...     future = producer.send("orders", b'{"amount": 3}', key=b"customer-7")
    ...     producer.flush()
    >>> future.result().topic
    'orders'

    Settings are Kafka's producer properties with underscores: `bootstrap_servers`, `acks`, `linger_ms`,
    `compression_type` and so on; an unknown name raises ConfigError. Keys, values and header values are bytes or None.

    `send` returns a future. A thread of the producer sends the record after linger.ms at the latest. `future.result()`
    waits, and returns a `RecordMetadata` (topic, partition, offset, timestamp_ms) or raises the error of the record:
    BrokerError for an unknown topic or partition and for a record that is too large, TimeoutExpired after
    delivery.timeout.ms. After an error the record is not stored, unless the error's `possibly_stored` is True: then an
    answer was lost, and it is unknown whether the record is stored (`kcli.producer` lists the cases). Sending it again
    may store it twice.

    The records of a partition are stored in the order in which they were sent. With enable.idempotence (the default
    with acks=all) a retry never stores a record twice; without it, a lost response may.

    With `transactional_id`, records are sent in transactions, and readers with isolation.level=read_committed see those
    of committed transactions only: all records of a transaction, or none. See `transaction`.

    Python callables take the place of Java's serializers, partitioners and interceptors. `send` calls them; `send_many`
    takes bytes and reports to its own callback.

    - `key_serializer` and `value_serializer` return the bytes of a key and a value; None stays null. After an exception
      `send` raises SerializationError, and nothing is sent.
    - `partitioner` gets the `ProducerRecord` after it was serialized, and the number of partitions. It returns a
      partition, or None for the default: the hash of the key. It is not called for a record with a partition.
    - `on_send` gets the `ProducerRecord` before it is serialized. A record that it returns takes its place.
    - `on_ack` gets the `RecordMetadata` and None of a stored record, or that of a failed one (offset -1) and its error,
      before the future is done.

    An exception of `on_send` and `on_ack` is logged and otherwise ignored, as Java does.

    >>> import json
    >>> with Producer(bootstrap_servers=bootstrap, value_serializer=lambda it: json.dumps(it).encode()) as producer:
    ...     future = producer.send("orders", {"amount": 3})
    >>> future.value().topic
    'orders'

    Any number of threads may share a producer. Callbacks (of futures, of `send_many`, `on_ack`) run in the thread of
    the producer, and must not wait for it. Leaving the `with` block flushes and closes; after an exception it closes
    only. `close` raises no error of a record: it logs the number of the records that are not stored and their first
    error, with the level WARNING. So does the end of a program that has not closed its producer; it sends nothing.

    A forked process makes a producer of its own: there the methods raise `kcli.ForkedClient`, and `close` does nothing.
    """

    def __init__(
        self,
        *unexpected: object,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        on_send: OnSend | None = None,
        on_ack: OnAck | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """Make a client from settings. No connection is made before the first record, except in a transaction."""
        from kcli.client.config import ProducerConfig, check_callables, not_settings

        for given in unexpected:
            advice = "keywords, Producer(**properties), or Producer.from_config(ProducerConfig.from_properties(...))"
            raise not_settings(given, "a keyword", advice)
        callables = {
            "key_serializer": key_serializer,
            "value_serializer": value_serializer,
            "partitioner": partitioner,
            "on_send": on_send,
            "on_ack": on_ack,
        }
        check_callables(**callables)
        given_callables = SendCallables(key_serializer, value_serializer, partitioner, on_send, on_ack)
        self._callables = NO_CALLABLES if given_callables == NO_CALLABLES else given_callables
        self._start(ProducerConfig.from_keywords(settings), None, None, in_background=True)

    @classmethod
    def from_config(
        cls,
        config: ProducerConfig,
        client: ConsumerNetworkClient | None = None,
        *,
        callables: SendCallables = NO_CALLABLES,
        choose: Callable[[int], int] | None = None,
        in_background: bool = True,
    ) -> Producer:
        """Return a producer for a parsed configuration. It does not close a `client` of the caller.

        `choose(n)` selects one of n partitions for the first batch of records without a key; by default at random. With
        `in_background` False there is no thread: records are sent while `send`, `send_many`, `poll`, `flush` or `close`
        runs, and the calls of several threads must not overlap.
        """
        producer = cls.__new__(cls)
        producer._callables = callables
        producer._start(config, client, choose, in_background=in_background)
        return producer

    def _start(
        self,
        config: ProducerConfig,
        client: ConsumerNetworkClient | None,
        choose: Callable[[int], int] | None,
        *,
        in_background: bool,
    ) -> None:
        from kcli.client.connect import connect

        self._owns_client = client is None
        self._client = client or connect(config)
        try:
            self._config = config
            self._clock = self._client.clock
            self._wall_ms = self._client.clock.wall_ms
            self._closed = False
            self._may_wait = True  # False: the caller of `send` has waited for the topic and for room
            self._loop = SendLoop(
                config,
                self._client,
                choose or (lambda n: int(uniform(0, n)) % n),
                self._callables.on_ack,
                in_background=in_background,
            )
            self._intake = self._loop.intake
            self._transactions = self._loop.sender.transactions
        except BaseException:
            if self._owns_client:
                self._client.close()
            raise
        _open_producers.add(self)
        forks.call_in_child(self._close_in_child)

    def __repr__(self) -> str:
        return f"<Producer {len(self._intake)} new records, {self._loop.accumulator!r}>"

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            with suppress(KcliError):  # which would hide the exception of the block
                self.close(flush=False)

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
        if self._closed or self._transactions is not None:
            self._require_open()
        if self._callables is not NO_CALLABLES:
            given = ProducerRecord(topic, value, key, partition, headers, timestamp_ms)
            topic, value, key, partition, headers, timestamp_ms = self._callables.prepared(given, self._known)
        size = RECORD_OVERHEAD_BYTES
        if type(value) is not bytes and value is not None:
            value = as_bytes("value", value)
        if type(key) is not bytes and key is not None:
            key = as_bytes("key", key)
        if value:
            size += len(value)
        if key:
            size += len(key)
        if timestamp_ms is None:
            timestamp_ms = self._wall_ms()
        else:
            check_timestamp(timestamp_ms)
        if headers:
            headers = checked_headers(headers)
            size += header_bytes(headers)
        loop, intake = self._loop, self._intake
        future = _new_future(RecordFuture)
        future.producer = self
        is_ready = type(topic) is str and topic in intake.ready_topics and intake.size_bytes < intake.room_bytes
        if not is_ready or partition is not None:
            try:
                self._prepare(topic, partition)
            except WakeupError:
                raise
            except KcliError as error:
                return self._refused(topic, partition, timestamp_ms, error)
        record = (topic, partition, value, key, timestamp_ms, headers or None, future)
        if self._transactions is None:
            intake.add(record, size)
        else:
            with intake.lock:  # so that a commit of another thread has all records or refuses this one
                self._transactions.require_open()
                intake.add(record, size)
        if loop.has_work_after_add:
            loop.after_add()
        return future

    def _refused(self, topic: str, partition: int | None, timestamp_ms: int, error: KcliError) -> RecordFuture:
        """Return the failed future of a record that is not accepted."""
        self._loop.record_failed(1, error)
        future = _new_future(RecordFuture)
        future.producer = self
        metadata = RecordMetadata(topic, -1 if partition is None else partition, -1, timestamp_ms)
        self._callables.acknowledged(metadata, error)
        future.fail(error)
        return future

    def _require_open(self) -> None:
        """Raise KcliError after `close`, and outside a transaction if there is a transactional id.

        Raise ForkedClient in a forked process, where the producer is closed (`_close_in_child`).
        """
        if self._closed:
            self._client.require_own_process()
            raise KcliError("the producer is closed")
        if self._transactions is not None:
            self._transactions.require_open()

    def _prepare(self, topic: str, partition: int | None) -> None:
        """Wait for the metadata of a topic and for room, and check the partition."""
        info = self._known(topic)
        if partition is not None:
            if not isinstance(partition, int):
                raise TypeError(f"the partition of a record is an int or None, not {type(partition).__name__}")
            check_partitions(info, (partition,))
        if self._may_wait:
            self._wait_for_room()

    def send_many(
        self,
        topic: str,
        records: NewRecords | Sequence[bytes | None],
        on_outcome: OnOutcome | None = None,
        *,
        partition: int | None = None,
        checked: bool = False,
    ) -> None:
        """Add many records: columns, or a list of values, which get the present time and no key.

        `on_outcome` is called with the outcomes of runs of records, each record once, in the thread that sends; its
        exceptions are logged. Without it, `close` logs the number of failed records.

        All records are accepted, or none and an error is raised: TypeError or ValueError if one of them is not valid
        (see `send`), KcliError for an unknown topic or partition, or without room for max.block.ms. Records that are
        too large are reported at once. The records of one call may exceed buffer.memory. `checked` omits the check of
        types and timestamps; then an invalid record makes later calls fail.
        """
        self._client.require_own_process()
        if not isinstance(records, NewRecords):
            records = NewRecords(records, self._wall_ms())
        if not checked:
            records = checked_records(records)
        self._require_open()
        self._prepare(topic, partition)
        loop, sized = self._loop, SizedRecords(records, CallbackReceiver(on_outcome or _ignore))
        with self._intake.lock:  # see `send`
            self._require_open()
            self._intake.add(SentMany(topic, partition, sized), sized.total_bytes)
        if loop.has_work_after_add:
            loop.after_add(many=True)

    def poll(self, timeout_ms: float = 0) -> None:
        """Return after the next event of the network, or after `timeout_ms`.

        It is not needed, except for a producer without a background thread: that one sends and receives here.
        """
        self._client.require_own_process()
        self._loop.wait_for_event(timeout_ms)

    def flush(self, timeout_ms: float | None = None) -> None:
        """Send all records at once that were added before, and return when each of them is stored or failed.

        Raise TimeoutExpired after `timeout_ms`; the records stay queued. None: until delivery.timeout.ms has ended the
        last record. An error of a record is in its future. KcliError in a callback of the producer.
        """
        self._client.require_own_process()
        self._flush(_NO_DEADLINE_MS if timeout_ms is None else self._clock.now_ms() + timeout_ms)

    def _flush(self, deadline_ms: float) -> None:
        self._loop.wait(self._loop.flushed(), deadline_ms, "acknowledgements")

    def wait_for(self, future: RequestFuture[Any], timeout_ms: float | None) -> None:
        """Return when the future of a record is done. TimeoutExpired after `timeout_ms`."""
        self._client.require_own_process()
        deadline_ms = _NO_DEADLINE_MS if timeout_ms is None else self._clock.now_ms() + timeout_ms
        self._loop.wait_for(future, deadline_ms)

    def close(self, timeout_ms: float | None = None, *, flush: bool = True) -> None:
        """Flush, at most for `timeout_ms` (default: delivery.timeout.ms), and close the producer's own connections.

        Without `flush` the futures of records without an acknowledgement fail, and so do those that the timeout leaves.
        An open transaction is aborted, without `flush` in at most 5 s; otherwise its coordinator aborts it after
        transaction.timeout.ms. No wakeup interrupts this. Safe to call twice.
        """
        if self._closed or self._client.is_forked:
            return
        self._closed = True
        loop = self._loop
        try:
            with self._client.without_wakeups():
                if self._transactions is not None and self._transactions.is_open:
                    with suppress(KcliError):
                        self.abort_transaction(timeout_ms if flush else _ABORT_AT_CLOSE_MS)
                elif flush:
                    with suppress(KcliError):  # the records are counted below
                        self.flush(timeout_ms)
        finally:
            loop.stop()
            loop.abandon()
            if self._transactions is None:  # otherwise the commit has raised the error
                loop.sender.unstored.log("the producer is closed")
            if self._owns_client:
                self._client.close()
            _open_producers.discard(self)

    def _close_in_child(self) -> None:
        """Close the copy of a forked process, and report none of its records: they are the parent's."""
        self._closed = True
        _open_producers.discard(self)

    def _warn_at_exit(self) -> None:
        """Log the records that are lost because the program ends."""
        unstored = self._loop.sender.unstored
        if count := self._loop.record_count:
            unstored.add(count, KcliError("not acknowledged when the program ended; call flush or close before"))
        unstored.log("the program ends, and its producer was not closed")

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
        transaction after transaction.timeout.ms: then this producer can only be closed. Readers may see the records
        some ms after the commit: see `Consumer.columns`.
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
        transactions = self._required("init_transactions")
        with self._loop.driving():
            transactions.initialize(self._block_deadline_ms(timeout_ms))

    def begin_transaction(self, timeout_ms: float | None = None) -> None:
        """Begin a transaction, to which the records belong that are sent until its end."""
        transactions, deadline_ms = self._required("begin_transaction"), self._block_deadline_ms(timeout_ms)
        with self._loop.driving():
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
            with self._loop.driving():
                transactions.add_offsets(offsets, metadata, self._block_deadline_ms(timeout_ms))

    def commit_transaction(self, timeout_ms: float | None = None) -> None:
        """Wait for the records of the transaction and commit it, at most for max.block.ms. See `transaction`.

        After TimeoutExpired and OutcomeUnknown, another call goes on where this one ended.
        """
        transactions, deadline_ms = self._required("commit_transaction"), self._block_deadline_ms(timeout_ms)
        while True:
            self._flush(deadline_ms)
            with self._loop.driving():
                with self._intake.lock:
                    if self._loop.record_count:
                        continue  # another thread has sent a record since the flush
                    transactions.start_commit()
                transactions.end(deadline_ms)
                return

    def abort_transaction(self, timeout_ms: float | None = None) -> None:
        """Give up the records that are not sent, and abort the transaction, at most for max.block.ms.

        After TimeoutExpired, another call goes on; without one, the coordinator aborts the transaction after
        transaction.timeout.ms. Raise OutcomeUnknown if it may be committed.
        """
        transactions, deadline_ms = self._required("abort_transaction"), self._block_deadline_ms(timeout_ms)
        with self._loop.driving(), self._intake.lock:
            transactions.start_abort()
        self._flush(deadline_ms)  # the loop fails what is not sent
        with self._loop.driving():
            transactions.end(deadline_ms)

    @property
    def awaits_transaction_end(self) -> bool:
        """True while a transaction with records or offsets has no confirmed end, also after `close`.

        Its coordinator aborts it after transaction.timeout.ms; until then readers with read_committed stop before it.
        """
        return self._transactions is not None and self._transactions.awaits_end

    def _required(self, call: str) -> Transactions:
        self._client.require_own_process()
        if self._transactions is None:
            raise ConfigError(f"{call} requires transactional.id")
        return self._transactions

    def _block_deadline_ms(self, timeout_ms: float | None) -> float:
        return self._clock.now_ms() + (self._config.max_block_ms if timeout_ms is None else timeout_ms)

    def metrics(self) -> MetricGroups:
        """Return the metrics of this producer: Kafka's group -> Kafka's name -> value, now. Any thread may call it.

        Averages, maxima and rates are those of the last 30 to 60 seconds; NaN: no value in that time. Times are in ms.
        """
        self._client.require_own_process()
        now_ms = self._clock.now_ms()
        buffered = self._loop.buffered_bytes
        own = {
            **self._loop.sender.metrics(now_ms),
            "buffer-total-bytes": float(self._config.buffer_memory),
            "buffer-available-bytes": float(max(0, self._config.buffer_memory - buffered)),
        }
        return merged(self._client.metrics.snapshot("producer", now_ms), {"producer-metrics": own})

    def partitions(self, topic: str) -> TopicInfo:
        """Return the topic from metadata; at its first use, or if it is unknown, wait for it at most max.block.ms.

        Raise BrokerError (UNKNOWN_TOPIC_OR_PARTITION among others) for a topic that cannot be written to.
        """
        self._client.require_own_process()
        return self._loop.partitions(topic)

    def _known(self, topic: str) -> TopicInfo:
        """Return the topic as the last record for it found it, and wait for a new one."""
        ready = self._intake.ready_topics if self._may_wait else self._loop.topics
        return self._loop.topics[topic] if isinstance(topic, str) and topic in ready else self.partitions(topic)

    def _wait_for_room(self) -> None:
        loop, limit = self._loop, self._config.buffer_memory
        if loop.has_room() or loop.is_driving:  # a callback must not wait for other records
            return
        deadline_ms = self._clock.now_ms() + self._config.max_block_ms
        loop.wait(loop.room(), deadline_ms, f"room among {limit} bytes (buffer.memory)")


# A future without `__init__`: all its attributes have defaults.
_new_future: Callable[[type[RecordFuture]], RecordFuture] = object.__new__
_open_producers: WeakSet[Producer] = WeakSet()


def _ignore(_: Outcome) -> None:
    """Receive the outcomes of records whose caller does not ask for them."""


@atexit.register
def _warn_of_open_producers() -> None:
    for producer in list(_open_producers):
        producer._warn_at_exit()
