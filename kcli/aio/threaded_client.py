"""`ThreadedClient`: the base of the clients for asyncio, and the coroutines that it makes of a client's methods."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeGuard, TypeVar

from kcli.aio.client_thread import ClientThread
from kcli.arguments import add_names_elsewhere

if TYPE_CHECKING:
    from types import TracebackType


class Client(Protocol):
    """The part of `Admin`, `Consumer` and `Producer` that this module uses."""

    def close(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> object: ...


class Waits(Protocol):
    """The part of a client whose waits `wakeup` ends."""

    def wakeup(self) -> None: ...
    def forget_wakeup(self) -> None: ...


P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=Client)
C_co = TypeVar("C_co", bound=Client, covariant=True)
T = TypeVar("T", bound="ThreadedClient[Any]")


class ThreadedClient(Generic[C_co]):
    """A client whose calls run in a thread of their own, in their order, while tasks of one event loop wait for them.

    `async with` closes it, and so does `close`.
    """

    def __init_subclass__(cls) -> None:
        add_names_elsewhere(cls)

    def __init__(self, client: C_co, waits: Waits) -> None:
        self._client = client
        self._thread = ClientThread(f"kcli-{type(self).__name__}", waits.wakeup, waits.forget_wakeup)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._client!r}>"

    async def __aenter__(self: T) -> T:
        try:
            await self._started()
        except BaseException:
            await self._thread.close(self._client.close)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._thread.close(lambda: self._exit(kind, error, traceback))

    async def _started(self) -> None:
        """Do what precedes the first call."""

    def _in_client(self, function: Callable[[], R]) -> Callable[[], R]:
        """Return what the thread runs for a call of the client."""
        return function

    def _exit(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.__exit__(kind, error, traceback)

    def __del__(self) -> None:
        thread = getattr(self, "_thread", None)  # None after a constructor that has failed
        if thread is None or thread.is_closed:
            return
        if thread.is_running:
            text = f"unclosed {self!r}; use `async with`, or await close()"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)
        thread.abandon(self._client.close)


def reading(
    method: Callable[Concatenate[C, P], R],
) -> Callable[Concatenate[ThreadedClient[C], P], Coroutine[Any, Any, R]]:
    """Return a coroutine method that runs this method of the client in its thread.

    A cancellation of the task ends the call in the thread, too.
    """
    return _coroutine(method, wakes=True)


def changing(
    method: Callable[Concatenate[C, P], R],
) -> Callable[Concatenate[ThreadedClient[C], P], Coroutine[Any, Any, R]]:
    """Return a coroutine method as `reading`, but a call that has begun goes on after a cancellation of its task.

    A change is not left half done so. The next call waits for it.
    """
    return _coroutine(method, wakes=False)


def _coroutine(
    method: Callable[Concatenate[C, P], R], *, wakes: bool
) -> Callable[Concatenate[ThreadedClient[C], P], Coroutine[Any, Any, R]]:
    @functools.wraps(method)
    async def call(self: ThreadedClient[C], /, *arguments: P.args, **named: P.kwargs) -> R:
        await self._started()
        function = functools.partial(method, self._client, *arguments, **named)
        return await self._thread.run(self._in_client(function), wakes=wakes)

    return call


def is_coroutine_function(function: object) -> TypeGuard[Callable[..., Awaitable[object]]]:
    """Return whether a call of this object returns a coroutine."""
    return callable(function) and any(map(inspect.iscoroutinefunction, (function, function.__call__)))


def refuse_coroutine_functions(arguments: Mapping[str, object], *names: str) -> None:
    """Raise TypeError for a coroutine function among the arguments of these names: nobody would await it."""
    for name in names:
        if is_coroutine_function(arguments.get(name)):
            raise TypeError(f"{name} must be a function, not a coroutine function")


def with_parameters_of(
    make: Callable[P, object],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Declare for type checkers that a constructor takes the parameters of `make`."""

    def declared(constructor: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        return constructor

    return declared
