"""An answer that may come later: set once, told to whoever asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_UNSET: Any = object()


class Pending(Generic[T]):
    """What a handler returns when it cannot answer now. Completed exactly once, by whoever gets there first."""

    def __init__(self) -> None:
        self._value: T = _UNSET
        self._callbacks: list[Callable[[T], None]] = []

    def __repr__(self) -> str:
        return f"<Pending {self._value!r}>" if self.is_done else "<Pending>"

    @property
    def is_done(self) -> bool:
        return self._value is not _UNSET

    @property
    def value(self) -> T:
        """The answer. ValueError while there is none."""
        if not self.is_done:
            raise ValueError("there is no answer yet")
        return self._value

    def complete(self, value: T) -> None:
        """Set the answer and tell everyone. ValueError when it was set before."""
        if self.is_done:
            raise ValueError("answered before")
        self._value = value
        callbacks, self._callbacks = self._callbacks, []
        for tell in callbacks:
            tell(value)

    def on_done(self, tell: Callable[[T], None]) -> None:
        """Call `tell` with the answer, at once if there is one."""
        if self.is_done:
            tell(self._value)
        else:
            self._callbacks.append(tell)
