"""An answer that may come later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from kcli.broker.serving.request_context import RequestContext

T = TypeVar("T")
R = TypeVar("R")

_UNSET: Any = object()


class Repeatable(Protocol):
    """A request that its client is expected to send again."""

    def resume(self, frame: bytearray, now_ms: float, now_wall_ms: int) -> tuple[Pending[Any], RequestContext] | None:
        """Handle the next frame of the connection without decoding it; None if it must be decoded."""


class Pending(Generic[T]):
    """The answer of a request that waits. A handler returns it; it is completed exactly once.

    It may be a CloseConnection, where the protocol has no answer for an error of the whole request.

    `repeatable` recognises the request if its client sends it again. It is set before the answer is completed.
    """

    def __init__(self) -> None:
        self.repeatable: Repeatable | None = None
        self._value: T = _UNSET
        self._callbacks: list[Callable[[T], None]] = []

    def __repr__(self) -> str:
        return f"<Pending {self._value!r}>" if self.is_done else "<Pending>"

    @property
    def is_done(self) -> bool:
        return self._value is not _UNSET

    @property
    def value(self) -> T:
        """The answer. ValueError before it is complete."""
        if not self.is_done:
            raise ValueError("the answer is not complete yet")
        return self._value

    def complete(self, value: T) -> None:
        """Set the answer and run the callbacks. ValueError if it is already complete."""
        if self.is_done:
            raise ValueError("the answer is already complete")
        self._value = value
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(value)

    def on_done(self, callback: Callable[[T], None]) -> None:
        """Call `callback` with the answer, immediately if it is complete."""
        if self.is_done:
            callback(self._value)
        else:
            self._callbacks.append(callback)

    def then(self, make: Callable[[T], R]) -> Pending[R]:
        """Return the answer that `make` makes of this one."""
        made: Pending[R] = Pending()
        self.on_done(lambda value: made.complete(make(value)))
        return made


def completed(value: T) -> Pending[T]:
    """Return an answer that does not wait."""
    pending: Pending[T] = Pending()
    pending.complete(value)
    return pending


def gathered(answers: Sequence[Pending[T]]) -> Pending[list[T]]:
    """Return the values of all answers, in their order, when the last one is complete."""
    values: Pending[list[T]] = Pending()
    remaining = len(answers)

    def on_done(_: T) -> None:
        nonlocal remaining
        remaining -= 1
        if not remaining:
            values.complete([answer.value for answer in answers])

    for answer in answers:
        answer.on_done(on_done)
    return values if answers else completed([])
