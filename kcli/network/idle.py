"""Which connection has been quiet for longest. Pure: time comes in as a number."""

from __future__ import annotations

from collections.abc import Iterator


class IdleTimes:
    """Connections in the order of their last activity. Every operation is O(1).

    `limit_ms` negative: nothing ever expires.
    """

    def __init__(self, limit_ms: float) -> None:
        self.limit_ms = limit_ms
        self._last_ms: dict[str, float] = {}

    def touch(self, id: str, now_ms: float) -> None:
        """`id` did something: it is the youngest now."""
        self._last_ms.pop(id, None)
        self._last_ms[id] = now_ms

    def forget(self, id: str) -> None:
        self._last_ms.pop(id, None)

    def by_age(self) -> Iterator[tuple[str, float]]:
        """Ids with the time of their last activity, quietest first."""
        return iter(self._last_ms.items())

    def next_expiry_ms(self) -> float | None:
        """When the quietest connection reaches the limit; None when none ever will."""
        if self.limit_ms < 0 or not self._last_ms:
            return None
        return next(iter(self._last_ms.values())) + self.limit_ms

    def take_expired(self, now_ms: float) -> list[str]:
        """Those over the limit, quietest first; they are forgotten here and the caller closes them."""
        expired: list[str] = []
        while (expiry := self.next_expiry_ms()) is not None and expiry <= now_ms:
            oldest = next(iter(self._last_ms))
            del self._last_ms[oldest]
            expired.append(oldest)
        return expired
