"""The future of a response: a value or an error, later. It neither waits nor uses threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from kcli.errors import KcliError

T = TypeVar("T")
U = TypeVar("U")

_PENDING: Any = object()


class RequestFuture(Generic[T]):
    """A value or an error, set once by the thread that polls the network, which then calls the listeners.

    A function passed to `then` or `recover` that raises a KcliError fails the derived future. Any other exception is a
    bug and propagates to the poll.
    """

    __slots__ = ("_error", "_listeners", "_value", "label")

    def __init__(self, label: str = "") -> None:
        self.label = label
        self._value: T = _PENDING
        self._error: KcliError | None = None
        self._listeners: list[Callable[[RequestFuture[T]], object]] = []

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
        self._call_listeners()

    def fail(self, error: KcliError) -> None:
        self._require_pending()
        self._error = error
        self._call_listeners()

    def on_done(self, listener: Callable[[RequestFuture[T]], object]) -> None:
        """Call `listener` with this future when it is done; at once if it already is."""
        if self.done:
            listener(self)
        else:
            self._listeners.append(listener)

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
        self.on_done(lambda done: target.fail(done._error) if done._error is not None else target.complete(done._value))

    def _derive(self, run: Callable[[RequestFuture[T], RequestFuture[U]], None]) -> RequestFuture[U]:
        derived: RequestFuture[U] = RequestFuture(self.label)
        self.on_done(lambda source: run(source, derived))
        return derived

    def _call_listeners(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(self)

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
