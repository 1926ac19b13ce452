"""`Failures`: what an application's callbacks raise, kept until the rebalance that called them is over."""

from __future__ import annotations

from collections.abc import Callable


class Failures:
    """Of one rebalance. Partitions come and go whatever a callback raises, so that it is told only at the end."""

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    def __repr__(self) -> str:
        return f"<Failures {self._errors}>"

    def of(self, call: Callable[..., object], *arguments: object) -> None:
        """Call; what it raises is kept."""
        try:
            call(*arguments)
        except Exception as error:
            self._errors.append(error)

    def raise_first(self) -> None:
        """Raise the first error there was, if any."""
        if self._errors:
            raise self._errors[0]
