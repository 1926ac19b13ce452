"""Backoff before the next attempt: exponential, capped, with jitter. Pure: the source of randomness is an argument."""

from __future__ import annotations

import os
from collections.abc import Callable

# Jitter spreads the clients that lost the same broker at the same moment (KIP-144, KIP-580).
JITTER = 0.2


def uniform(low: float, high: float) -> float:
    """Return a random number between `low` and `high`. The module `random` would take a millisecond to import."""
    return low + (high - low) * int.from_bytes(os.urandom(6), "big") / 2**48


class Backoff:
    """A pause of `initial_ms` that doubles with each failure up to `max_ms`, with a jitter of up to 20 %."""

    def __init__(self, initial_ms: float, max_ms: float, *, uniform: Callable[[float, float], float] = uniform) -> None:
        self._initial_ms = initial_ms
        self._max_ms = max(max_ms, initial_ms)
        self._uniform = uniform

    def after(self, failures: int) -> float:
        """Return the pause in ms after this number of consecutive failures; 0 after none."""
        if failures <= 0 or not self._initial_ms:
            return 0.0
        # The exponent is bounded too, because a float overflows after a thousand doublings.
        wait_ms = min(self._initial_ms * 2.0 ** min(failures - 1, 60), self._max_ms)
        return min(wait_ms * self._uniform(1 - JITTER, 1 + JITTER), float(self._max_ms))
