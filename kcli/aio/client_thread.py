"""`ClientThread`: the one thread that runs the calls of a client, for the tasks of one asyncio loop.

    waiting --the thread takes it--> running --returns or raises--> done
    waiting --its task is cancelled--> done, without a run

The thread takes the calls in their order. A call says what the cancellation of its task does: nothing (the call goes
on, and the next one waits for it), or `wakeup` of the client, so that a network wait ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from kcli import forks
from kcli.errors import KcliError, WakeupError

R = TypeVar("R")
_Calls = queue.SimpleQueue["Call[Any] | None"]


class Call(Generic[R]):
    """A function that the thread runs, and the future of its task.

    `wakes`: `wakeup` may end it. `gives_way`: it also ends if another call waits. `keep_error` gets the error of a call
    whose task was cancelled.
    """

    __slots__ = ("function", "future", "gives_way", "is_woken", "keep_error", "wakes")

    def __init__(
        self,
        function: Callable[[], R],
        future: asyncio.Future[R],
        *,
        wakes: bool = False,
        gives_way: bool = False,
        keep_error: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.function = function
        self.future = future
        self.wakes = wakes
        self.gives_way = gives_way
        self.keep_error = keep_error
        self.is_woken = False

    def run(self) -> Callable[[], None]:
        """Run the function; return what the loop does with its result."""
        try:
            result = self.function()
        except BaseException as error:  # also an exit of a callback: its task gets it
            return _partial(self._fail, error)
        return _partial(self._complete, result)

    def _complete(self, result: R) -> None:
        if not self.future.done():  # the task may be cancelled
            self.future.set_result(result)

    def _fail(self, error: BaseException) -> None:
        if not self.future.done():
            if isinstance(error, StopIteration):  # a future cannot carry it
                error = RuntimeError(f"{type(error).__name__}: {error}")
            self.future.set_exception(error)
        elif self.keep_error is not None and not isinstance(error, WakeupError):
            self.keep_error(error)


def _partial(function: Callable[[Any], None], argument: object) -> Callable[[], None]:
    return lambda: function(argument)


class Callback:
    """A coroutine function of the user that runs in the loop while the thread waits, and the calls that it makes."""

    def __init__(self) -> None:
        self.calls: _Calls = queue.SimpleQueue()
        self.is_over = False


# The callback that the running task belongs to.
_callback: contextvars.ContextVar[Callback | None] = contextvars.ContextVar("kcli.aio.callback", default=None)


class ClientThread:
    """Runs calls in order. `wakeup` ends the network wait of the client, `forget_wakeup` withdraws it.

    The thread starts with the first call, and belongs to the loop of that call from then on. It is a daemon: a program
    that ends without `close` does not wait for it.
    """

    def __init__(self, name: str, wakeup: Callable[[], None], forget_wakeup: Callable[[], None]) -> None:
        self.name = name
        self._made_in = forks.pid
        self._wakeup = wakeup
        self._forget_wakeup = forget_wakeup
        self._calls: _Calls = queue.SimpleQueue()
        self._callback: Callback | None = None
        self._lock = threading.RLock()  # for the next two attributes; a collected client calls `abandon` anywhere
        self._running: Call[Any] | None = None
        self._waiting = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Future[None] | None = None
        self._last: Callable[[], object] | None = None

    @property
    def is_running(self) -> bool:
        """True from the first call until `close` or `abandon`."""
        return self._loop is not None and self._closing is None

    @property
    def is_closed(self) -> bool:
        """True after the first call of `close`. Also True in a forked process: the thread did not come with it."""
        return self._closing is not None or self._made_in != forks.pid

    async def run(
        self,
        function: Callable[[], R],
        *,
        wakes: bool = False,
        gives_way: bool = False,
        keep_error: Callable[[BaseException], None] | None = None,
    ) -> R:
        """Run a function in the thread, after the calls before it, and return its result. See `Call`.

        Raise KcliError in another loop than that of the first call, and after `close`; ForkedClient in a child.
        """
        self.start()
        if self._closing is not None and self._current_callback() is None:
            raise KcliError(f"{self.name} is closed")
        assert self._loop is not None
        future: asyncio.Future[R] = self._loop.create_future()
        call = Call(function, future, wakes=wakes, gives_way=gives_way, keep_error=keep_error)
        self._put(call)
        try:
            return await future
        except asyncio.CancelledError:
            self._cancelled(call)
            raise

    async def run_to_its_end(self, function: Callable[[], object]) -> asyncio.CancelledError | None:
        """Run a function as `run`, wait for its end, and return a cancellation of the task in the meantime."""
        return await _until_done(asyncio.ensure_future(self.run(function)))

    async def close(self, function: Callable[[], None]) -> None:
        """Run the last function, and end the thread. A cancellation is raised after that. Safe to call twice.

        It does nothing in a forked process.
        """
        if self._made_in != forks.pid:
            return
        self.start()
        self.refuse_in_callback("close")
        assert self._loop is not None
        if self._closing is None:
            self._closing = self._loop.create_future()
            self._put(Call(function, self._closing))
            self._calls.put(None)
        if (cancelled := await _until_done(self._closing)) is not None:
            raise cancelled

    def abandon(self, function: Callable[[], object]) -> None:
        """Run the last function without a loop, and end the thread. For a client that nobody can close any more."""
        if self._loop is None:
            function()
            return
        self._last = function
        with self._lock:
            self._calls.put(None)
            if self._running is not None and self._running.wakes:
                self._wake(self._running)

    def start(self) -> None:
        """Start the thread for the running loop. KcliError if it belongs to another, ForkedClient in a child."""
        forks.require_own_process(self._made_in)
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            threading.Thread(target=self._serve, name=self.name, daemon=True).start()
        elif self._loop is not loop:
            raise KcliError(f"{self.name} belongs to the event loop of its first call; make one for each loop")

    def refuse_in_callback(self, action: str) -> None:
        """Raise KcliError in a callback, which an action would wait for in vain."""
        if self._current_callback() is not None:
            raise KcliError(f"a callback of {self.name} must not {action} it")

    def _current_callback(self) -> Callback | None:
        """Return the callback that the running task belongs to, while the thread waits for its end."""
        callback = _callback.get()
        return callback if callback is not None and callback is self._callback and not callback.is_over else None

    def _put(self, call: Call[Any]) -> None:
        callback = self._current_callback()
        if callback is not None:
            callback.calls.put(call)
            return
        with self._lock:
            self._calls.put(call)
            self._waiting += 1
            if self._running is not None and self._running.gives_way:
                self._wake(self._running)

    def _cancelled(self, call: Call[Any]) -> None:
        with self._lock:
            if call is self._running and call.wakes:
                self._wake(call)

    def _wake(self, call: Call[Any]) -> None:
        call.is_woken = True
        self._wakeup()

    # --- in the thread

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            self._serve_call(call)
            del call  # with all that it refers to, while the thread waits for the next one
        if self._last is not None:
            with contextlib.suppress(KcliError):
                self._last()

    def _serve_call(self, call: Call[Any]) -> None:
        with self._lock:
            self._waiting -= 1
            if call.future.cancelled():
                return
            self._running = call
            if call.gives_way and self._waiting:
                self._wake(call)
        settle = call.run()
        with self._lock:
            self._running = None
        if call.is_woken:
            self._forget_wakeup()
        self._call_loop(settle)

    def _call_loop(self, function: Callable[[], None]) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function)

    def call_back(self, function: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Run a coroutine function in the loop, wait for its end, and run its calls of this client in the meantime.

        Only for the thread. Raise the exception of the function; KcliError if its task was cancelled or the loop is
        closed.
        """
        callback, outer = Callback(), self._callback

        async def run() -> None:
            _callback.set(callback)
            await function(*arguments)

        def end(_: object) -> None:
            callback.is_over = True
            callback.calls.put(None)

        assert self._loop is not None
        coroutine, self._callback = run(), callback
        try:
            done = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            done.add_done_callback(end)  # in the loop, also if the task was cancelled before its start
            while (call := callback.calls.get()) is not None:
                if not call.future.cancelled():
                    self._call_loop(call.run())
        except RuntimeError as error:
            coroutine.close()
            raise KcliError("the event loop of the callback is closed") from error
        finally:
            self._callback = outer
        if done.cancelled():
            raise KcliError("the task of the callback was cancelled")
        if (failure := done.exception()) is not None:
            raise failure


async def _until_done(future: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Wait for a future, and raise its error. Return a cancellation of the task in the meantime."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None and future.exception() is not None:
        raise cancelled from future.exception()
    future.result()
    return cancelled
