"""The cost of one tick of the broker's timer while fetches that are not due are parked."""

from __future__ import annotations

import gc
import statistics
import time

from kcli.broker.purgatory import DelayedOperation, Purgatory
from kcli.broker.serving.timer import Timer

TICKS = 5_000
ROUNDS = 5


class _Parked(DelayedOperation):
    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        pass


def per_tick_us(parked: int) -> float:
    """Return the microseconds to park one fetch, advance one millisecond and expire one with `parked` others."""
    gc.set_threshold(50_000)  # as kcli's own process has it
    timer = Timer()
    purgatory = Purgatory("Fetch", timer)
    far_ms = 10 * ROUNDS * TICKS
    for n in range(parked):
        purgatory.try_complete_else_watch(_Parked(far_ms + n % 60_000), [("orders", n % 1000)])
    now_ms, took = 0, []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(TICKS):
            now_ms += 1
            purgatory.try_complete_else_watch(_Parked(now_ms + 100), [("orders", now_ms % 1000)])
            timer.advance(now_ms)
        took.append((time.perf_counter() - began) / TICKS * 1e6)
    if not parked <= purgatory.delayed <= parked + 101:
        raise SystemExit(f"{purgatory!r} should hold about {parked}")
    return statistics.median(took)
