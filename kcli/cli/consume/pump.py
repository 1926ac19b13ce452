"""The loop of a read: poll, choose, render, write, until there is a reason to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli.errors import WakeupError

if TYPE_CHECKING:
    from kcli.cli.consume.filters import Filters
    from kcli.cli.consume.interrupt import Interrupt
    from kcli.cli.consume.output import Output, RenderBatch
    from kcli.cli.consume.tally import Tally
    from kcli.clock import Clock
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

DONE, ENOUGH, QUIET, INTERRUPTED = "done", "enough", "quiet", "interrupted"
"""Why a read stopped: all ranges read, `-n` reached, nothing came for too long, Ctrl-C."""

_POLL_MS = 500.0


class Source(Protocol):
    """What is read from: a RangeReader."""

    @property
    def done(self) -> bool: ...

    def poll(self, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]: ...


class Limits(NamedTuple):
    """When to stop before the end: after so many records, after so long without progress; None: never."""

    max_records: int | None = None
    quiet_ms: float | None = None


UNLIMITED = Limits()


def pump(
    source: Source,
    render: RenderBatch,
    write: Callable[[Output], None],
    *,
    passed: Callable[[], int],
    tally: Tally,
    clock: Clock,
    interrupt: Interrupt,
    limits: Limits = UNLIMITED,
    filters: Filters | None = None,
    tick: Callable[[], None] = lambda: None,
) -> str:
    """Print records until there is a reason to stop, and say which. Every poll's records are written before the next.

    `passed` tells how many offsets are behind us: that it grows is progress too. `tick` is called after each poll.
    The time of the first poll is not counted as quiet: it is when the reader gets ready.
    """
    quiet_since, progress = clock.now_ms(), -1
    while not source.done:
        if interrupt.asked:
            return INTERRUPTED
        if limits.max_records is not None and tally.total.records >= limits.max_records:
            return ENOUGH
        batches = _poll(source, _poll_ms(limits, clock.now_ms() - quiet_since))
        for tp, columns in batches:
            _print(tp, columns, render, write, tally, limits, filters)
        tick()
        if batches:
            quiet_since = clock.now_ms()
        elif limits.quiet_ms is not None:
            now_ms, before, progress = clock.now_ms(), progress, passed()
            if progress != before:
                quiet_since = now_ms
            elif now_ms - quiet_since >= limits.quiet_ms:
                return QUIET
    return ENOUGH if tally.left else DONE


def _poll_ms(limits: Limits, quiet_ms: float) -> float:
    return _POLL_MS if limits.quiet_ms is None else max(0.0, min(_POLL_MS, limits.quiet_ms - quiet_ms))


def _poll(source: Source, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]:
    try:
        return source.poll(timeout_ms)
    except WakeupError:  # Ctrl-C: the flag says so
        return []


def _print(
    tp: TopicPartition,
    columns: RecordColumns,
    render: RenderBatch,
    write: Callable[[Output], None],
    tally: Tally,
    limits: Limits,
    filters: Filters | None,
) -> None:
    if filters is not None:
        from kcli.cli.consume.filters import choose

        columns = columns.take(choose(filters, columns))
    if limits.max_records is not None and len(columns) > (room := limits.max_records - tally.total.records):
        tally.leave(tp, int(columns.offsets[room]))
        columns = columns.take(slice(0, room))
    if len(columns):
        write(render(tp, columns))
        tally.add(tp, columns)
