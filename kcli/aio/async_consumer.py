"""`AsyncConsumer`: `Consumer` for asyncio."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from kcli.aio.received import Received
from kcli.aio.threaded_client import (
    ThreadedClient,
    changing,
    is_coroutine_function,
    reading,
    refuse_coroutine_functions,
    with_parameters_of,
)
from kcli.consumer.consumer import Consumer, ConsumerRecord
from kcli.errors import WakeupError

if TYPE_CHECKING:
    from types import TracebackType

    from kcli.client.metrics import MetricGroups
    from kcli.consumer.consumer import Records
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

_LONGEST_POLL_MS = 60_000.0
_POLL_TO_END_MS = 500.0
_FOREVER = float("inf")

Item = TypeVar("Item")
P = ParamSpec("P")
Ends = dict["TopicPartition", int]
#: A function, which runs in the thread, or a coroutine function, which runs in the event loop.
RebalanceCallback = Callable[[list["TopicPartition"]], object]


class ThreadConsumer(Consumer):
    """The consumer in the thread of an `AsyncConsumer`. `received` has the records between the thread and the tasks."""

    def __init__(self, *topics: str, **settings: Any) -> None:
        self._named: tuple[str, ...] = ()
        self._is_in_call = False
        super().__init__(*topics, **settings)
        self.received = Received(self._deserialized if self._deserializers != (None, None) else None)

    @property
    def has_begun(self) -> bool:
        return not self._named

    def _begin(self, topics: Iterable[str]) -> None:
        self._named = tuple(topics)  # a constructor runs in the event loop, which must not wait

    def begin(self) -> None:
        """Read the topics that the constructor got."""
        if self._named:
            super()._begin(self._named)
            self._named = ()

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Let a call see the positions of the records that were returned; a call in a callback sees those of its outer.

        The tasks may get more records in the meantime.
        """
        if self._is_in_call:
            yield
            return
        self._is_in_call, progress = True, self.received.begin_call(self.subscription)
        try:
            yield
        finally:
            self.received.end_call(self.subscription, progress)
            self._is_in_call = False

    def run(self, function: Callable[[], Item]) -> Item:
        """Run a function that calls a method of `Consumer`."""
        with self._call():
            return function()

    def fill(self, timeout_ms: float, ends: Ends | None) -> bool:
        """Poll, unless there are records already. Return True if all partitions were read to their `ends` before.

        A wakeup ends the wait. Records that have arrived by then are taken all the same, so that polls which end early
        make progress.
        """
        if self.received.has_unread:
            return False
        without_wakeups = self._client.without_wakeups
        with self._call(), self._stopping_at(ends):
            if ends is not None:
                with without_wakeups():
                    if self._is_at_end(ends):
                        return True
            try:
                records = self.poll(timeout_ms)
            except WakeupError:
                with without_wakeups():
                    records = self.poll(0)
        self.received.put(records)
        return False

    @contextmanager
    def _stopping_at(self, ends: Ends | None) -> Iterator[None]:
        """Fetch nothing from these offsets on; only in this call, because a task may leave its iteration unfinished."""
        try:
            for tp, end in (ends or {}).items():
                if self.subscription.get(tp) is not None:
                    self.subscription.stop_at(tp, end)
            yield
        finally:
            for tp in ends or ():
                if self.subscription.get(tp) is not None:
                    self.subscription.stop_at(tp, None)

    def close(self, timeout_ms: float | None = None) -> None:
        with self._call():
            super().close(timeout_ms)

    def __exit__(self, *raised: Any) -> None:
        with self._call():
            super().__exit__(*raised)


def _moving(
    method: Callable[Concatenate[Consumer, P], None],
) -> Callable[Concatenate[AsyncConsumer, P], Coroutine[Any, Any, None]]:
    """Return a coroutine method for a call that moves positions. No task gets a record until its end.

    A cancellation is raised after that.
    """

    @functools.wraps(method)
    async def call(self: AsyncConsumer, /, *arguments: P.args, **named: P.kwargs) -> None:
        await self._started()
        with self._received.held():
            function = functools.partial(method, self._client, *arguments, **named)
            cancelled = await self._thread.run_to_its_end(self._in_client(function))
        if cancelled is not None:
            raise cancelled

    return call


class AsyncConsumer(ThreadedClient[ThreadConsumer]):
    """`Consumer` for asyncio: the same parameters, methods, results and errors; methods that wait are coroutines.

    >>> import asyncio
    >>> from kcli import AsyncConsumer
    >>> async def read() -> list[tuple[bytes, bytes]]:
    ...     async with AsyncConsumer("orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
    ...         return [(record.key, record.value) async for record in consumer.records(to_end=True)]
    >>> sorted(asyncio.run(read()))
    [(b'a', b'1'), (b'b', b'2'), (b'c', b'3')]

    `async for record in consumer:` never ends. A task waits only when the records of a poll are used up, and nothing is
    polled before a task asks for it, except the one fetch that a `Consumer` has in flight.

    One thread runs the calls of all tasks in their order; a poll that waits gives way to other calls. The heartbeats of
    a member have a thread of their own, so that it stays in its group while the event loop is busy.

    The cancellation of a task, for example by `asyncio.wait_for`, loses no record and doubles none: records that a
    cancelled `poll` has received, or a cancelled step of an `async for`, are returned by the next one of any task. Only
    returned records count for `position` and `commit`. A cancelled commit may be stored or not; the next call waits for
    its end. `close`, and the end of `async with`, are finished before they raise the cancellation.

    A step or a poll returns each record to one task only. Deserializers run in the event loop, `on_consume` and
    `on_commit` in the thread.
    """

    @with_parameters_of(Consumer)
    def __init__(self, *arguments: Any, **named: Any) -> None:
        refuse_coroutine_functions(named, "on_consume", "on_commit", "key_deserializer", "value_deserializer")
        consumer = ThreadConsumer(*arguments, **named)
        super().__init__(consumer, consumer._client)
        self._received = consumer.received
        self._filling: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None

    def _in_client(self, function: Callable[[], Item]) -> Callable[[], Item]:
        return functools.partial(self._client.run, function)

    async def _started(self) -> None:
        if not self._client.has_begun:
            await self._thread.run(self._client.begin, wakes=True)

    # --- reading

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self.records()

    def records(self, *, to_end: bool = False) -> AsyncIterator[ConsumerRecord]:
        """Iterate over the records, see `Consumer.records`."""
        return _RecordIterator(self, to_end=to_end)

    def columns(self, *, to_end: bool = False) -> AsyncIterator[tuple[TopicPartition, RecordColumns]]:
        """Iterate over the records as columns, see `Consumer.columns`."""
        return _ColumnIterator(self, to_end=to_end)

    async def poll(self, timeout_ms: float | None = None) -> Records:
        """Return the records of each partition as columns, see `Consumer.poll`; {} at the timeout. None: no timeout.

        Records that an `async for` or a cancelled poll has not returned are returned at once.
        """
        if timeout_ms is not None and not timeout_ms >= 0:
            raise ValueError(f"timeout_ms must not be negative; got {timeout_ms}")
        await self._fill(_FOREVER if timeout_ms is None else timeout_ms)
        return self._received.take()

    async def _fill(self, timeout_ms: float, ends: Ends | None = None) -> bool:
        """Wait until there are records. Return False at the timeout, and when all partitions were read to `ends`."""
        await self._started()
        self._thread.refuse_in_callback("poll")
        loop, received = asyncio.get_running_loop(), self._received
        received.ask()
        deadline = loop.time() + timeout_ms / 1000
        left_ms, is_at_end = timeout_ms, False
        while not received.is_ready and not is_at_end:
            if self._filling is None:
                is_at_end = await self._poll_once(min(left_ms, _LONGEST_POLL_MS), ends)
            else:
                await asyncio.wait([self._filling], timeout=min(left_ms, _LONGEST_POLL_MS) / 1000)
            if left_ms <= 0:
                break
            left_ms = max(0.0, (deadline - loop.time()) * 1000)
        return received.is_ready

    async def _poll_once(self, timeout_ms: float, ends: Ends | None) -> bool:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        fill = functools.partial(self._client.fill, timeout_ms if ends is None else _POLL_TO_END_MS, ends)
        self._filling = asyncio.get_running_loop().create_future()
        try:
            return await self._thread.run(fill, wakes=True, gives_way=True, keep_error=self._keep)
        finally:
            self._filling.set_result(None)
            self._filling = None

    def _keep(self, error: BaseException) -> None:
        self._failure = error

    # --- partitions and positions

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now, see `Consumer.assignment`."""
        return self._client.assignment

    async def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Read topics as a member of the group, see `Consumer.subscribe`.

        A callback that is a function runs in the thread of the consumer, and must not wait for the event loop. A
        coroutine function runs in the event loop while the thread waits for it; it may await the methods of this
        consumer except `poll` and `close`, for example `commit`. A cancellation of the poll does not interrupt it.
        """
        callbacks = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
        called = {name: self._in_its_place(callback) for name, callback in callbacks.items() if callback is not None}
        await self._subscribe(topics, pattern=pattern, **called)

    def _in_its_place(self, callback: RebalanceCallback) -> Callable[[list[TopicPartition]], None]:
        """Return a function for the thread that runs a callback where it belongs. No wakeup interrupts its calls."""
        thread, without_wakeups = self._thread, self._client._client.without_wakeups

        def call(partitions: list[TopicPartition]) -> None:
            with without_wakeups():
                if is_coroutine_function(callback):
                    thread.call_back(callback, partitions)
                else:
                    callback(partitions)

        return call

    _subscribe = _moving(Consumer.subscribe)
    unsubscribe = _moving(Consumer.unsubscribe)
    assign = _moving(Consumer.assign)
    seek = _moving(Consumer.seek)
    seek_to_beginning = _moving(Consumer.seek_to_beginning)
    seek_to_end = _moving(Consumer.seek_to_end)
    pause = _moving(Consumer.pause)
    resume = changing(Consumer.resume)
    position = reading(Consumer.position)
    take_resets = changing(Consumer.take_resets)
    retry_states = reading(Consumer.retry_states)
    check_range = reading(Consumer.check_range)

    # --- the group

    commit = changing(Consumer.commit)
    committed = reading(Consumer.committed)
    group_metadata = reading(Consumer.group_metadata)

    # --- offsets of the log

    offsets_for_times = reading(Consumer.offsets_for_times)
    beginning_offsets = reading(Consumer.beginning_offsets)
    end_offsets = reading(Consumer.end_offsets)

    def metrics(self) -> MetricGroups:
        """Return the metrics of this consumer, see `Consumer.metrics`. It does not wait."""
        return self._client.metrics()

    # --- the end

    async def close(self, timeout_ms: float | None = None) -> None:
        """Commit what is due, leave the group and close the connections, see `Consumer.close`.

        It comes after the calls of other tasks. A cancellation is raised at its end.
        """
        self._received.hold()
        await self._thread.close(functools.partial(self._client.close, timeout_ms))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._received.hold()
        await super().__aexit__(kind, error, traceback)


class _Iterator(AsyncIterator[Item], Generic[Item]):
    """An iteration that goes on after the cancellation of a step: no generator, which would have ended."""

    def __init__(self, consumer: AsyncConsumer, *, to_end: bool) -> None:
        self._consumer = consumer
        self._received = consumer._received
        self._ends: Ends | None = {} if to_end else None

    def _fill(self) -> Awaitable[bool]:
        return self._consumer._fill(_FOREVER, self._ends)


class _RecordIterator(_Iterator[ConsumerRecord]):
    async def __anext__(self) -> ConsumerRecord:
        for record in self._received.records:
            return record
        while await self._fill():
            for record in self._received.records:
                return record
        raise StopAsyncIteration


class _ColumnIterator(_Iterator["tuple[TopicPartition, RecordColumns]"]):
    async def __anext__(self) -> tuple[TopicPartition, RecordColumns]:
        while await self._fill():
            for part in self._received.take(1).items():
                return part
        raise StopAsyncIteration
