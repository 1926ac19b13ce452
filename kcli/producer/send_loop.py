"""`SendLoop`: the way of records from the intake to the brokers, one pass after another.

One thread at a time drives it: it makes the passes, and it alone touches batches and polls the network. That is the
background thread of the producer; a thread that ends a transaction takes its turn for that time. All other threads add
to the intake, and wait for a condition, which the driving thread evaluates in each pass. So a signal that interrupts
them, such as Ctrl-C, finds no batch half changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kcli import logs
from kcli.client.poll_permit import FairLock
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired, WakeupError
from kcli.producer.accumulator import Accumulator
from kcli.producer.batches import HEADER_BYTES, Outcome, SizedRecords
from kcli.producer.intake import Intake, SentMany, SentRecord
from kcli.producer.partitioner import StickyPartitioner, partition_for_key, rows_by_partition
from kcli.producer.record_future import RecordRun
from kcli.producer.sender import Sender
from kcli.protocol.records.record import NewRecords
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ProducerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import TopicInfo
    from kcli.client.request_future import RequestFuture
    from kcli.producer.callables import OnAck

_NEVER_MS = float("inf")
# The size up to which a batch grows while it waits, unless the user has set batch.size.
_GROWN_BATCH_BYTES = 256 << 10
# A thread that adds records pauses when there are as many bytes, so that the background thread gets Python's lock and
# takes them while they are in the cache of the processor. Without that it gets the lock every 5 ms.
_PAUSE_BYTES, _PAUSE_S = 128 << 10, 0.000_05
# Kafka's limit, because the name is part of the name of a folder.
_LONGEST_TOPIC = 249
# The longest time without a pass while records are added, so that requests are written and responses are read.
_LONGEST_PAUSE_MS = 5


class _Condition(NamedTuple):
    """A condition that a thread or a task waits for. `notify` is called when it is met."""

    is_met: Callable[[], bool]
    notify: Callable[[], object]


class SendLoop:
    """Takes records from the intake, makes batches of them, and sends these."""

    def __init__(
        self,
        config: ProducerConfig,
        client: ConsumerNetworkClient,
        choose: Callable[[int], int],
        on_ack: OnAck | None,
        *,
        in_background: bool,
    ) -> None:
        self._config = config
        self._client = client
        self._clock = client.clock
        self._on_ack = on_ack
        self._buffer_bytes = config.buffer_memory
        grown_bytes = config.batch_size if "batch.size" in config.given else _GROWN_BATCH_BYTES
        self.accumulator = Accumulator(
            batch_bytes=config.batch_size,
            limit_bytes=max(config.batch_size, grown_bytes),
            linger_ms=config.linger_ms,
            delivery_timeout_ms=config.delivery_timeout_ms,
        )
        self.sender = Sender(config, client, self.accumulator)
        self.intake = Intake(full_bytes=config.batch_size, now_ms=client.clock.now_ms, attend=self._attend)
        self._sticky = StickyPartitioner(choose)
        #: The topics of records, with their last partitions that are known.
        self.topics: dict[str, TopicInfo] = {}
        self._used_ms: dict[str, float] = {}  # the time of the last use of the topics in the metadata requests
        self._expired_in: object = None  # the metadata after which idle topics were dropped
        self._last_pass_ms = 0.0
        self._pass_count = 0
        self._turn = FairLock(client.interrupt)
        self._driver: int | None = None
        self._conditions: list[_Condition] = []
        #: The error that has ended the background thread.
        self.failure: KcliError | None = None
        self._is_stopping = self._has_ended = False  # the background thread
        self._is_abandoned = False
        #: `after_add` is to be called after each record.
        self.has_work_after_add = not in_background
        self._update_room()
        self._is_woken = False
        self._thread: threading.Thread | None = None
        if in_background:
            self._thread = threading.Thread(target=self._run, name=f"kcli producer {config.client_id}", daemon=True)
            self._thread.start()

    # Threads

    @contextmanager
    def driving(self) -> Iterator[None]:
        """Let only this thread touch batches and connections. Reentrant."""
        me = threading.get_ident()
        if self._driver == me:
            yield
            return
        with self._turn:
            self._driver = me
            try:
                yield
            finally:
                self._driver = None

    @property
    def is_driving(self) -> bool:
        """The calling thread drives the loop: it is inside a callback, or inside a call with `driving`."""
        return self._driver == threading.get_ident()

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                with self.driving():
                    self.run_pass(_NEVER_MS)
        except BaseException as error:
            if self._is_stopping:  # a callback has closed the producer
                return
            logs.warning("kcli.producer", "the thread of the producer has failed", with_traceback=True)
            self.failure = KcliError(f"the thread of the producer has failed: {type(error).__name__}: {error}")
            self.abandon()
        finally:
            self._has_ended = True
            for condition in list(self._conditions):
                condition.notify()

    def abandon(self) -> None:
        """Fail all records. A thread that adds one all the same calls this again (`after_add`)."""
        self._is_abandoned = self.has_work_after_add = True
        with self.driving():
            self.take_in()
            self.sender.abandon()

    def stop(self) -> None:
        """End the background thread after its current pass."""
        self._is_stopping = True
        if self._thread is not None and self._thread is not threading.current_thread():
            self._client.interrupt()
            self._thread.join()

    def _attend(self) -> None:
        """Let the background thread look at the records of the intake. Called by the thread that adds one."""
        if self._thread is None or self.is_driving:
            return
        self._client.interrupt()
        if self.intake.size_bytes >= _PAUSE_BYTES:
            time.sleep(_PAUSE_S)

    def wait(self, is_met: Callable[[], bool], deadline_ms: float, awaited: str) -> None:
        """Return when the condition is met, which the driving thread evaluates. TimeoutExpired names what is awaited.

        Without a background thread this thread makes the passes.
        """
        self._refuse_in_callback()
        if self._thread is None:
            self._make_passes(is_met, deadline_ms, awaited)
            return
        met = threading.Event()
        with self.noticing(is_met, met.set):
            self._wait_for_event(met, deadline_ms, awaited)
        if self.failure is not None:
            raise self.failure

    @contextmanager
    def noticing(self, is_met: Callable[[], bool], notify: Callable[[], object]) -> Iterator[None]:
        """Call `notify` in each pass of the background thread that finds the condition met, and after its end."""
        condition = _Condition(is_met, notify)
        self._conditions.append(condition)
        try:
            if self._has_ended:
                notify()
            else:
                self._client.interrupt()  # the next pass evaluates it
            yield
        finally:
            self._conditions.remove(condition)

    def wakeup(self) -> None:
        """Make the calls that `wait` now, or else the next one, raise WakeupError. May be called by any thread."""
        self._is_woken = True
        for condition in list(self._conditions):
            condition.notify()

    def forget_wakeup(self) -> None:
        """Withdraw a `wakeup` that has not interrupted a call."""
        self._is_woken = False

    def wait_for(self, future: RequestFuture[Any], deadline_ms: float) -> None:
        """Return when a future of this loop is done. Like `wait`, without a look at each pass."""
        self._refuse_in_callback()
        if self._thread is None:
            self._make_passes(lambda: future.done, deadline_ms, future.label)
            return
        is_done = threading.Event()
        future.add_done_callback(lambda _: is_done.set())
        self._wait_for_event(is_done, deadline_ms, future.label)

    def wait_for_event(self, timeout_ms: float) -> None:
        """Return after the next event of the network, or after `timeout_ms`."""
        if self._thread is None:
            with self.driving():
                self.run_pass(timeout_ms)
        elif timeout_ms > 0:
            before = self._pass_count
            with suppress(TimeoutExpired):
                self.wait(lambda: self._pass_count > before + 1, self._clock.now_ms() + timeout_ms, "event")

    def _refuse_in_callback(self) -> None:
        if self.is_driving:
            raise KcliError("a callback of the producer must not wait for the producer: it would wait for itself")

    def _wait_for_event(self, event: threading.Event, deadline_ms: float, awaited: str) -> None:
        left_ms = 0.0 if self._is_woken else deadline_ms - self._clock.now_ms()
        is_in_time = event.wait(None if left_ms == _NEVER_MS else max(left_ms, 0) / 1000)
        if self._is_woken:
            self._is_woken = False
            raise WakeupError("the wait was interrupted by wakeup")
        if not is_in_time:
            raise self._client.timed_out(awaited)

    def _make_passes(self, is_met: Callable[[], bool], deadline_ms: float, awaited: str) -> None:
        while True:
            with self.driving():
                if is_met():
                    return
                left_ms = deadline_ms - self._clock.now_ms()
                if left_ms <= 0:
                    raise self._client.timed_out(awaited)
                self.run_pass(left_ms)

    # One pass

    def run_pass(self, timeout_ms: float) -> None:
        """Send due records and take responses. Return after the next event, or after `timeout_ms`."""
        linger_ms = self._config.linger_ms
        self._release()
        if self.intake.due_ms(linger_ms) <= self._clock.now_ms():
            self.take_in()
        self.sender.run()
        if waiting := self.accumulator.next_full():
            self._client.poll(timeout_ms=0)  # write the requests, so that the brokers work on them in the meantime
            self.sender.encode(waiting)
            self.sender.run()  # that poll may have taken the responses for which batches wait
        self._release()
        lingering_ms = max(0.0, self.intake.due_ms(linger_ms) - self._clock.now_ms())
        self._client.poll(timeout_ms=min(timeout_ms, lingering_ms, self.sender.wait_ms()))
        self.sender.run()
        self._last_pass_ms = self._clock.now_ms()
        self._drop_idle_topics(self._last_pass_ms)
        self._pass_count += 1
        self._update_room()
        self._release()

    def _release(self) -> None:
        """Let the threads go on whose conditions are met."""
        for condition in list(self._conditions):
            if condition.is_met():
                condition.notify()

    def flushed(self) -> Callable[[], bool]:
        """Return the condition that the records of now are stored or have failed. Its first evaluation sends them."""
        generation: int | None = None

        def is_met() -> bool:
            nonlocal generation
            if generation is None:
                self.take_in()
                generation = self.accumulator.close_batches()
            return not self.accumulator.has_batches(generation)

        return is_met

    def room(self) -> Callable[[], bool]:
        """Return the condition that there is room in buffer.memory. Its first evaluation sends all records."""
        is_flushed = self.flushed()
        return lambda: self.has_room() or is_flushed() or self.has_room()

    def after_add(self, *, many: bool = False) -> None:
        """Do what a producer without a thread, or one that is closed, has to do after a record was added."""
        if self._is_abandoned:
            self.abandon()
        elif self._thread is None:
            with self.driving():
                if many:  # they make batches at once
                    self.take_in()
                self._run_if_due()

    def _run_if_due(self) -> None:
        """Make a pass if records are due or the last pass is some time ago."""
        now_ms = self._clock.now_ms()
        due_ms = min(self.intake.due_ms(self._config.linger_ms), self.accumulator.next_due_ms())
        pause_ms = min(self._config.linger_ms, _LONGEST_PAUSE_MS)
        if due_ms <= now_ms or now_ms - self._last_pass_ms >= pause_ms or self.accumulator.next_full():
            self.run_pass(0)

    def _drop_idle_topics(self, now_ms: float) -> None:
        """Request metadata no longer of topics that were not used for metadata.max.idle.ms, once per new metadata."""
        cluster = self._client.metadata.cluster
        if self._expired_in is cluster:
            return
        self._expired_in = cluster
        latest_ms = now_ms - self._config.metadata_max_idle_ms
        used_ms = dict(self._used_ms)  # other threads add to it
        idle = {topic for topic, last_ms in used_ms.items() if last_ms <= latest_ms} - self.accumulator.topics
        if idle:
            self._client.metadata.drop_topics(idle)
            self.intake.ready_topics -= idle
            for topic in idle:
                self._used_ms.pop(topic, None)

    # Records

    def partitions(self, topic: str) -> TopicInfo:
        """Return the topic from metadata; at its first use, or if it is unknown, wait for it at most max.block.ms.

        Raise BrokerError (UNKNOWN_TOPIC_OR_PARTITION among others) for a topic that cannot be written to.
        """
        if not isinstance(topic, str):
            raise TypeError(f"the topic of a record is a str, not {type(topic).__name__}")
        if len(topic) > _LONGEST_TOPIC or not topic.isascii():  # it would make each request for metadata invalid
            text = f"the name of a topic has at most {_LONGEST_TOPIC} characters: letters, digits, dots, _ and -"
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
        self._use(topic)
        info = self._client.metadata.cluster.topics.get(topic)
        if info is None or info.error:
            deadline_ms = self._clock.now_ms() + self._config.max_block_ms
            cluster = self._client.topics_metadata([topic], deadline_ms, self._await_metadata)
            if (error := cluster.topic_error(topic)) is not None:
                raise error
            info = cluster.topics[topic]
        self.topics[topic] = info
        self.intake.ready_topics.add(topic)
        return info

    def _use(self, topic: str) -> None:
        if topic not in self._used_ms:  # another user of the client may have requested it only once
            self._client.metadata.add_topics([topic])
        self._used_ms[topic] = self._clock.now_ms()

    def _await_metadata(self, ticket: int, deadline_ms: float) -> None:
        """Wait for a metadata response while the loop goes on for other topics."""
        client, metadata = self._client, self._client.metadata

        def is_over() -> bool:
            failure = None if metadata.is_answered(ticket) else metadata.failure_of(ticket)
            is_refused = client.authentication_error() is not None or (failure is not None and not failure.retriable)
            return is_refused or metadata.is_answered(ticket)

        self.wait(is_over, deadline_ms, "metadata")
        if not metadata.is_answered(ticket):
            client.raise_authentication_error()
            if (failure := metadata.failure_of(ticket)) is not None:
                raise failure

    def take_in(self) -> None:
        """Put the records of the intake into batches. Only for the driving thread."""
        since_ms, records = self.intake.take()
        topics = set(map(itemgetter(0), records))
        has_many = SentMany in set(map(type, records))
        for topic in topics:
            own = records if len(topics) == 1 else [record for record in records if record[0] == topic]
            info = self._last_known(topic)
            for kind, group in groupby(own, type) if has_many else [(tuple, own)]:
                if kind is SentMany:
                    for many in cast("Iterable[SentMany]", group):
                        self._append(info, many.partition, many.sized, since_ms)
                else:
                    self._take_in_topic(info, cast("Iterable[SentRecord]", group), since_ms)
        self._update_room()

    def _last_known(self, topic: str) -> TopicInfo:
        """Return the partitions of a topic. If it has an error now, the next `send` waits for it, or reports it."""
        self._use(topic)
        info = self._client.metadata.cluster.topics.get(topic)
        if info is None or info.error:
            self.intake.ready_topics.discard(topic)
        else:
            self.topics[topic] = info
        return self.topics[topic]

    def _take_in_topic(self, info: TopicInfo, records: Iterable[SentRecord], since_ms: float) -> None:
        _, partitions, values, keys, times_ms, headers, futures = zip(*records, strict=True)
        one_time = times_ms.count(times_ms[0]) == len(times_ms)
        columns = NewRecords(
            values,
            times_ms[0] if one_time else times_ms,
            None if keys.count(None) == len(keys) else keys,
            None if headers.count(None) == len(headers) else [row or () for row in headers],
        )
        receivers = RecordRun(futures, times_ms, self._on_ack).receivers()
        if partitions.count(None) == len(partitions):
            self._append(info, None, SizedRecords(columns, receivers), since_ms)
            return
        for partition, rows in self._rows_by_partition(info, partitions, columns).items():
            self._append(info, partition, SizedRecords(columns.select(rows), receivers.select(rows)), since_ms)

    def _rows_by_partition(
        self, info: TopicInfo, partitions: Sequence[int | None], columns: NewRecords
    ) -> dict[int, list[int]]:
        """Return the records of each partition, where the caller has chosen some of the partitions."""
        rows: dict[int, list[int]] = {}
        for row, (chosen, key) in enumerate(zip(partitions, columns.each_key(), strict=True)):
            if chosen is not None:
                partition = chosen
            elif key is None or self._config.partitioner_ignore_keys:
                partition = self._sticky.current(info.name, _available(info))
            else:
                partition = partition_for_key(key, len(info.partitions))
            rows.setdefault(partition, []).append(row)
        return rows

    def _append(self, info: TopicInfo, partition: int | None, sized: SizedRecords, now_ms: float) -> None:
        """Put records into batches; `partition` None: by their keys. Report those that are too large."""
        sized = self._without_too_large(info.name, partition, sized)
        if partition is not None:
            self.accumulator.append(TopicPartition(info.name, partition), sized, now_ms)
            return
        keys = sized.records.keys
        if keys is None or self._config.partitioner_ignore_keys or len(info.partitions) == 1:
            self._append_sticky(info.name, _available(info), sized, now_ms)
            return
        null_partition = self._sticky.current(info.name, _available(info))
        for number, rows in rows_by_partition(keys, len(info.partitions), null_partition).items():
            tp = TopicPartition(info.name, number)
            self.accumulator.append(tp, sized if len(rows) == sized.count else sized.select(rows), now_ms)
            if number == null_partition and self.accumulator.is_full(tp):
                self._sticky.batch_is_full(info.name)

    def _append_sticky(self, topic: str, available: Sequence[int], sized: SizedRecords, now_ms: float) -> None:
        start = 0
        while start < sized.count:
            tp = TopicPartition(topic, self._sticky.current(topic, available))
            start = self.accumulator.append(tp, sized, now_ms, start=start, one_batch=len(available) > 1)
            if self.accumulator.is_full(tp):
                self._sticky.batch_is_full(topic)

    def _without_too_large(self, topic: str, partition: int | None, sized: SizedRecords) -> SizedRecords:
        limit = self._config.max_request_size
        if sized.all_fit(limit - HEADER_BYTES):
            return sized
        are_too_large = sized.larger_than(limit - HEADER_BYTES)
        refused = [row for row, is_too_large in enumerate(are_too_large) if is_too_large]
        problem = f"a record is larger than max.request.size, {limit} bytes; set a larger max.request.size"
        error = BrokerError(ErrorCode.MESSAGE_TOO_LARGE, problem)
        self.record_failed(len(refused), error)
        tp = TopicPartition(topic, -1 if partition is None else partition)
        sized.receivers.select(refused).report(0, Outcome(tp, len(refused), error=error))
        return sized.select([row for row, is_too_large in enumerate(are_too_large) if not is_too_large])

    def record_failed(self, count: int, error: KcliError) -> None:
        """Count records that were not accepted, and let their transaction fail."""
        if self.sender.transactions is not None:
            self.sender.transactions.record_failed(error)
        self.sender.unstored.add(count, error)

    @property
    def record_count(self) -> int:
        """The number of records that are neither stored nor failed."""
        with self.driving():
            return len(self.intake) + self.accumulator.record_count

    @property
    def buffered_bytes(self) -> int:
        """Estimated bytes of these records."""
        return self.accumulator.buffered_bytes + self.intake.size_bytes

    def has_room(self) -> bool:
        """Return whether these records leave room in buffer.memory."""
        self._update_room()
        return self.intake.size_bytes < self.intake.room_bytes

    def _update_room(self) -> None:
        self.intake.room_bytes = self._buffer_bytes - self.accumulator.buffered_bytes


def _available(info: TopicInfo) -> list[int]:
    """Return the partitions that have a leader, or all if none has."""
    return [p.partition for p in info.partitions.values() if p.leader >= 0] or list(info.partitions)
