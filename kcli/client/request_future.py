"""The future of a response or of a record: a value or an error, later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from weakref import WeakKeyDictionary, ref

from kcli.arguments import checked
from kcli.errors import KcliError, TimeoutExpired

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
U = TypeVar("U")

_PENDING: Any = object()


# Those that run for each request or record have no check.
_UNCHECKED = ["add_done_callback", "chain", "complete", "fail", "failure", "recover", "success", "then", "value"]


@checked(unchecked=_UNCHECKED)
class RequestFuture(Generic[T]):
    """A value or an error, set once by the thread that polls the network, which then calls the callbacks.

    `value` looks at once; `result` and `exception` wait for the thread that polls; `await future` waits in an asyncio
    loop. Any thread may call these methods. A function passed to `then` or `recover` that raises a KcliError fails the
    derived future. Any other exception is a bug and propagates to the poll.
    """

    # Defaults of all instances: a producer makes a future per record, which sets only what differs.
    label = ""
    _value: T = _PENDING
    _error: KcliError | None = None
    _callbacks: list[Callable[[RequestFuture[T]], object]] | None = None

    def __init__(self, label: str = "") -> None:
        self.label = label

    @classmethod
    def success(cls, value: T) -> RequestFuture[T]:
        """Return a future that has succeeded."""
        future = cls()
        future.complete(value)
        return future

    @classmethod
    def failure(cls, error: KcliError) -> RequestFuture[T]:
        """Return a future that has failed."""
        future = cls()
        future.fail(error)
        return future

    def __repr__(self) -> str:
        state = "pending" if not self.done else f"failed: {self._error}" if self.failed else "succeeded"
        return f"<RequestFuture {self.label + ' ' if self.label else ''}{state}>"

    @property
    def done(self) -> bool:
        return self._value is not _PENDING or self._error is not None

    @property
    def succeeded(self) -> bool:
        return self._value is not _PENDING

    @property
    def failed(self) -> bool:
        return self._error is not None

    @property
    def error(self) -> KcliError | None:
        """The error of a failed future; None while pending and after success."""
        return self._error

    @property
    def retriable(self) -> bool:
        return self._error is not None and self._error.retriable

    def result(self, timeout_ms: float | None = None) -> T:
        """Wait for the value and return it, or raise the error. None: without limit.

        Raise TimeoutExpired after `timeout_ms` milliseconds; the future stays pending.
        """
        if not self.done:
            self._wait(timeout_ms)
        return self.value()

    def exception(self, timeout_ms: float | None = None) -> KcliError | None:
        """Wait like `result`; return the error, and None after success."""
        if not self.done:
            self._wait(timeout_ms)
        return self.error

    def __await__(self) -> Generator[Any, None, T]:
        """Wait in the running asyncio loop while another thread polls. Return the value or raise the error."""
        if not self.done:
            yield from _waiter(self).__await__()
        return self.value()

    def value(self) -> T:
        """Return the value. Raise the error of a failed future, and RuntimeError while pending."""
        if self._error is not None:
            raise self._error
        if self._value is _PENDING:
            raise RuntimeError(f"{self!r} is pending and has no value")
        return self._value

    def complete(self, value: T) -> None:
        self._require_pending()
        self._value = value
        if self._callbacks:
            self._call_back()

    def fail(self, error: KcliError) -> None:
        self._require_pending()
        self._error = error
        if self._callbacks:
            self._call_back()

    def add_done_callback(self, callback: Callable[[RequestFuture[T]], object]) -> None:
        """Call `callback` with this future when it is done, in the thread that polls; at once if it already is."""
        if not self.done:
            if self._callbacks is None:
                self.__dict__.setdefault("_callbacks", [])
            assert self._callbacks is not None
            self._callbacks.append(callback)
            if not self.done:
                return
            # Another thread has set the value meanwhile. It calls this callback too, unless it is removed first.
            try:
                self._callbacks.remove(callback)
            except ValueError:
                return
        callback(self)

    def then(self, function: Callable[[T], U | RequestFuture[U]]) -> RequestFuture[U]:
        """Return the future of `function(value)`, which may return a future itself. An error skips `function`."""

        def run(source: RequestFuture[T], target: RequestFuture[U]) -> None:
            if source._error is not None:
                target.fail(source._error)
            else:
                _complete_from(target, function, source._value)

        return self._derive(run)

    def recover(self, function: Callable[[KcliError], T | RequestFuture[T]]) -> RequestFuture[T]:
        """Return the future of the same value, or of `function(error)`, which may raise."""

        def run(source: RequestFuture[T], target: RequestFuture[T]) -> None:
            if source._error is None:
                target.complete(source._value)
            else:
                _complete_from(target, function, source._error)

        return self._derive(run)

    def chain(self, target: RequestFuture[T]) -> None:
        """Complete `target` with the value or the error of this future."""
        self.add_done_callback(
            lambda done: target.fail(done._error) if done._error is not None else target.complete(done._value)
        )

    def _derive(self, run: Callable[[RequestFuture[T], RequestFuture[U]], None]) -> RequestFuture[U]:
        derived: RequestFuture[U] = RequestFuture(self.label)
        self.add_done_callback(lambda source: run(source, derived))
        return derived

    def _call_back(self) -> None:
        callbacks = self._callbacks
        while callbacks:
            try:
                callback = callbacks.pop(0)
            except IndexError:  # another thread has removed the last one
                return
            callback(self)

    def _wait(self, timeout_ms: float | None) -> None:
        """Wait until another thread has set the value or the error."""
        is_done = threading.Event()
        self.add_done_callback(lambda _: is_done.set())
        if not is_done.wait(None if timeout_ms is None else max(timeout_ms, 0) / 1000):
            raise TimeoutExpired(f"no result in {timeout_ms:g} ms", awaited=self.label or None)

    def _require_pending(self) -> None:
        if self.done:
            raise RuntimeError(f"{self!r} is already done")


def _complete_from(target: RequestFuture[U], function: Callable[[Any], U | RequestFuture[U]], argument: Any) -> None:
    try:
        result = function(argument)
    except KcliError as error:
        target.fail(error)
        return
    if isinstance(result, RequestFuture):
        cast("RequestFuture[U]", result).chain(target)
    else:
        target.complete(result)


class _LoopWaiters:
    """The awaiting tasks of one asyncio loop whose futures are done: the loop is woken once for many."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)
        self._released: list[asyncio.Future[None]] = []
        self._lock = threading.Lock()

    def release(self, waiter: asyncio.Future[None]) -> None:
        """Let the task of `waiter` go on. Any thread may call it."""
        with self._lock:
            self._released.append(waiter)
            is_first = len(self._released) == 1
        if is_first and (loop := self._loop()) is not None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        with self._lock:
            released, self._released = self._released, []
        for waiter in released:
            if not waiter.done():  # the task may be cancelled
                waiter.set_result(None)


_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopWaiters] = WeakKeyDictionary()


def _waiter(future: RequestFuture[Any]) -> asyncio.Future[None]:
    """Return a future of the running loop that is done when `future` is."""
    import asyncio

    loop = asyncio.get_running_loop()
    if loop not in _loops:
        _loops[loop] = _LoopWaiters(loop)
    waiters, waiter = _loops[loop], loop.create_future()
    future.add_done_callback(lambda _: waiters.release(waiter))
    return waiter
