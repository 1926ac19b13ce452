"""`AsyncProducer`: `Producer` for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from kcli.aio.threaded_client import ThreadedClient, changing, reading, refuse_coroutine_functions, with_parameters_of
from kcli.arguments import check_duration
from kcli.errors import KcliError, TimeoutExpired, TransactionFailed
from kcli.producer.producer import Producer

if TYPE_CHECKING:
    from types import TracebackType

    from kcli.client.metrics import MetricGroups
    from kcli.client.request_future import RequestFuture
    from kcli.producer.batches import OnOutcome, RecordMetadata
    from kcli.protocol.records.record import NewRecords

# The number of records that one task adds before it lets others run.
_RECORDS_PER_TURN = 100


class AsyncProducer(ThreadedClient[Producer]):
    """`Producer` for asyncio: the same parameters, methods, results and errors; methods that wait are coroutines.

    >>> import asyncio
    >>> from kcli import AsyncProducer, RecordMetadata
    >>> async def write() -> RecordMetadata:
    ...     async with AsyncProducer(bootstrap_servers=bootstrap, linger_ms=10) as producer:
    ...         future = await producer.send("orders", b'{"amount": 3}', key=b"customer-7")
    ...         return await future
    >>> asyncio.run(write()).topic
    'orders'

    `await producer.send(...)` returns when the record is accepted: at once, unless buffer.memory is used up or the
    metadata of a new topic is missing. Then only this task waits, at most max.block.ms. `await future` waits for the
    `RecordMetadata` or raises the error of the record. A record is accepted or not: a cancelled `send` has added none.

    The thread of the producer sends the records. Its callables run elsewhere than the event loop expects: serializers,
    the partitioner and `on_send` run in the event loop, `on_ack` and the callbacks of futures in that thread.

    A cancelled `flush` ends, and the records are sent all the same. A call of a transaction that has begun goes on to
    its end after a cancellation, and `transaction` waits for it. Leaving the `async with` block flushes; after an
    exception, and a cancellation, it fails the records without an acknowledgement.
    """

    @with_parameters_of(Producer)
    def __init__(self, *arguments: Any, **named: Any) -> None:
        refuse_coroutine_functions(named, "key_serializer", "value_serializer", "partitioner", "on_send", "on_ack")
        producer = Producer(*arguments, **named)
        super().__init__(producer, producer._loop)
        producer._may_wait = False  # tasks wait instead, in `_until_accepted`
        self._send_loop, self._intake = producer._loop, producer._loop.intake
        self._sending_task = 0
        self._sent_in_turn = 0  # by this task, since it has let others run
        self._turns = _Turns()
        self._waits: dict[str, _SharedWait] = {}

    # Records

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> RequestFuture[RecordMetadata]:
        """Add one record and return the future of its `RecordMetadata`, see `Producer.send`."""
        intake = self._intake
        task = id(asyncio.current_task())
        if task != self._sending_task:
            self._sending_task, self._sent_in_turn = task, 0
        elif self._sent_in_turn == _RECORDS_PER_TURN:
            self._sent_in_turn = 0
            await asyncio.sleep(0)
        self._sent_in_turn += 1
        if (
            intake.size_bytes >= intake.room_bytes
            or type(topic) is not str
            or topic not in intake.ready_topics
            or topic in self._turns.last
        ):
            self._client._require_open()
            self._thread.start()
            try:
                await self._until_accepted(topic)
            except KcliError as error:
                created_ms = self._client._wall_ms() if timestamp_ms is None else timestamp_ms
                return self._client._refused(topic, partition, created_ms, error)
        return self._client.send(topic, value, key, partition=partition, headers=headers, timestamp_ms=timestamp_ms)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Add one record and return its `RecordMetadata` when it is stored, or raise its error. See `Producer.send`."""
        future = await self.send(topic, value, key, partition=partition, headers=headers, timestamp_ms=timestamp_ms)
        return await future

    async def send_many(
        self,
        topic: str,
        records: NewRecords | Sequence[bytes | None],
        on_outcome: OnOutcome | None = None,
        *,
        partition: int | None = None,
        checked: bool = False,
    ) -> None:
        """Add many records, see `Producer.send_many`. `on_outcome` is called in the thread that sends."""
        self._client._require_open()
        await self._until_accepted(topic)
        send = partial(self._client.send_many, topic, records, on_outcome, partition=partition, checked=checked)
        await self._thread.run(send)

    async def _until_accepted(self, topic: str) -> None:
        """Wait until this task has its turn, the topic is known, and there is room; at most max.block.ms."""
        if not isinstance(topic, str):
            raise TypeError(f"the topic of a record is a str, not {type(topic).__name__}")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._client._config.max_block_ms / 1000
        previous, turn = self._turns.take(topic)
        try:
            if previous is not None:
                await asyncio.wait([previous], timeout=deadline - loop.time())
                if not previous.done():
                    raise self._client._client.timed_out("earlier records of the topic")
            while (wait := self._next_wait(topic)) is not None:
                left_s = deadline - loop.time()
                await wait.join(max(0.0, left_s))
                if left_s <= 0:
                    raise self._client._client.timed_out(wait.awaited)
        finally:
            self._turns.leave(topic, previous, turn)

    def _next_wait(self, topic: str) -> _SharedWait | None:
        if topic not in self._intake.ready_topics:
            return self._shared_wait(f"metadata of {topic}", lambda: self.partitions(topic))
        if not self._send_loop.has_room():
            limit = self._client._config.buffer_memory
            return self._shared_wait(f"room among {limit} bytes (buffer.memory)", self._until_room)
        return None

    def _shared_wait(self, awaited: str, start: Callable[[], Coroutine[Any, Any, object]]) -> _SharedWait:
        self._waits = {name: wait for name, wait in self._waits.items() if not wait.is_over}
        if awaited not in self._waits:
            self._waits[awaited] = _SharedWait(awaited, start())
        return self._waits[awaited]

    async def _until_room(self) -> None:
        await self._until(self._send_loop.room(), None, "room")

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Send all records at once, and return when each of them is stored or failed, see `Producer.flush`."""
        check_duration("timeout_ms", timeout_ms, owner="AsyncProducer.flush")
        is_met = await self._thread.run(self._send_loop.flushed, wakes=True)
        await self._until(is_met, timeout_ms, "acknowledgements")

    async def _until(self, is_met: Callable[[], bool], timeout_ms: float | None, awaited: str) -> None:
        """Wait for a condition that the thread of the producer evaluates."""
        loop, send_loop = asyncio.get_running_loop(), self._send_loop
        met: asyncio.Future[None] = loop.create_future()

        def end() -> None:
            if not met.done():
                met.set_result(None)

        def notify() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(end)

        with send_loop.noticing(is_met, notify):
            if send_loop.failure is None:
                await asyncio.wait([met], timeout=None if timeout_ms is None else timeout_ms / 1000)
        if send_loop.failure is not None:
            raise send_loop.failure
        if not met.done():
            raise self._client._client.timed_out(awaited)

    partitions = reading(Producer.partitions)

    def metrics(self) -> MetricGroups:
        """Return the metrics of this producer, see `Producer.metrics`. It does not wait."""
        return self._client.metrics()

    # Transactions

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Run a block in a transaction, see `Producer.transaction`; a cancellation aborts it, too.

        Its begin and its end are waited for also by a cancelled task. So a transaction whose task is cancelled during
        the commit may be committed.
        """
        producer, thread = self._client, self._thread
        cancelled = await thread.run_to_its_end(producer.begin_transaction)
        try:
            if cancelled is not None:
                raise cancelled
            yield
        except BaseException:
            with suppress(KcliError):
                await thread.run_to_its_end(producer.abort_transaction)
            raise
        try:
            cancelled = await thread.run_to_its_end(producer.commit_transaction)
        except TransactionFailed:
            await thread.run_to_its_end(producer.abort_transaction)
            raise
        if cancelled is not None:
            raise cancelled

    init_transactions = changing(Producer.init_transactions)
    begin_transaction = changing(Producer.begin_transaction)
    send_offsets = changing(Producer.send_offsets)
    commit_transaction = changing(Producer.commit_transaction)
    abort_transaction = changing(Producer.abort_transaction)

    @property
    def awaits_transaction_end(self) -> bool:
        """True while a transaction has no confirmed end, see `Producer.awaits_transaction_end`."""
        return self._client.awaits_transaction_end

    # The end

    async def close(self, timeout_ms: float | None = None, *, flush: bool = True) -> None:
        """Flush and close the connections, see `Producer.close`.

        A cancellation ends the flush, and the records without an acknowledgement fail.
        """
        check_duration("timeout_ms", timeout_ms, owner="AsyncProducer.close")
        cancelled: asyncio.CancelledError | None = None
        if flush and not self._thread.is_closed and self._client._transactions is None:
            try:
                await self.flush(timeout_ms)
            except TimeoutExpired:
                flush = False
            except asyncio.CancelledError as error:
                cancelled, flush = error, False
        await self._thread.close(partial(self._client.close, timeout_ms, flush=flush))
        if cancelled is not None:
            raise cancelled

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            await super().__aexit__(kind, error, traceback)


class _Turns:
    """The order of the tasks that wait for a topic: each waits for the end of the previous turn."""

    def __init__(self) -> None:
        self.last: dict[str, asyncio.Future[None]] = {}

    def take(self, topic: str) -> tuple[asyncio.Future[None] | None, asyncio.Future[None]]:
        """Return the end of the previous turn, and that of the new one."""
        previous, turn = self.last.get(topic), asyncio.get_running_loop().create_future()
        self.last[topic] = turn
        return previous, turn

    def leave(self, topic: str, previous: asyncio.Future[None] | None, turn: asyncio.Future[None]) -> None:
        """End a turn; if the previous one has not ended, with that."""
        if previous is not None and not previous.done():
            previous.add_done_callback(lambda _: self._end(topic, turn))
        else:
            self._end(topic, turn)

    def _end(self, topic: str, turn: asyncio.Future[None]) -> None:
        turn.set_result(None)
        if self.last[topic] is turn:
            del self.last[topic]


class _SharedWait:
    """One wait for many tasks. It is cancelled when the last of them has left it."""

    def __init__(self, awaited: str, wait: Coroutine[Any, Any, object]) -> None:
        self.awaited = awaited
        self._task = asyncio.ensure_future(wait)
        self._count = 0
        self._is_left = False

    @property
    def is_over(self) -> bool:
        return self._is_left or self._task.done()

    async def join(self, timeout_s: float) -> None:
        """Return at the end of the wait, or at the timeout. Raise its error."""
        self._count += 1
        try:
            await asyncio.wait([self._task], timeout=timeout_s)
        finally:
            self._count -= 1
            if not self._count:
                self._is_left = True
                self._task.cancel()
        if self._task.done() and not self._task.cancelled():
            self._task.result()
