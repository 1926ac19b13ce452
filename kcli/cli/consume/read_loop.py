"""The loop of a read: poll, choose, render, write, until there is a reason to stop."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kcli.errors import WakeupError

if TYPE_CHECKING:
    from typing import BinaryIO

    from kcli.cli.consume.filters import Filters
    from kcli.cli.consume.renderer import Output, RenderBatch
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


class Count(NamedTuple):
    """Records, and the bytes of their keys and values."""

    records: int = 0
    bytes: int = 0

    def plus(self, other: Count) -> Count:
        return Count(self.records + other.records, self.bytes + other.bytes)


class Tally:
    """Counts by partition, in the order in which the partitions came up.

    `left` has the partitions of which wanted records came that were not printed, and the offset of the first of them.
    """

    def __init__(self, partitions: Iterable[TopicPartition] = ()) -> None:
        self.counts: dict[TopicPartition, Count] = {tp: Count() for tp in partitions}
        self.total = Count()
        self.left: dict[TopicPartition, int] = {}

    def add(self, tp: TopicPartition, columns: RecordColumns) -> None:
        """Count what was printed."""
        count = Count(len(columns), columns.payload_bytes)
        self.counts[tp] = self.counts.get(tp, Count()).plus(count)
        self.total = self.total.plus(count)

    def leave(self, tp: TopicPartition, offset: int) -> None:
        """From this record on nothing of the partition will be printed."""
        self.left.setdefault(tp, offset)

    def stats(self, elapsed_ms: float) -> str:
        """A line per partition, and their sum: records, bytes, and both per second over `elapsed_ms`."""
        seconds = max(elapsed_ms, 1.0) / 1000
        rows = [["TOPIC", "PARTITION", "RECORDS", "BYTES", "RECORDS/S", "BYTES/S"]]
        for tp, count in self.counts.items():
            rows.append([tp.topic, str(tp.partition), *_numbers(count, seconds)])
        rows.append(["total", "-", *_numbers(self.total, seconds)])
        return f"{align(rows)}\nin {seconds:.3f} s"


def _numbers(count: Count, seconds: float) -> list[str]:
    records, size = count
    return [str(records), str(size), f"{records / seconds:.0f}", f"{size / seconds:.0f}"]


def align(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines with columns of even width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")
"""What asks a process to end: Ctrl-C, `kill`, and the terminal that was closed."""


class Interrupt:
    """While active, the first Ctrl-C sets `asked` and calls `wakeup`; the second is a KeyboardInterrupt at once.

    So what was begun is printed whole. `signals` may name others to be taken the same way; SIGHUP stays ignored where
    it was, as under nohup. A second signal within `same_wish_s` counts as the first: `timeout` and shells send to the
    process and to its group. Outside the main thread nothing can be caught, and nothing is.
    """

    def __init__(
        self, wakeup: Callable[[], None], signals: tuple[str, ...] = ("SIGINT",), *, same_wish_s: float = 0.0
    ) -> None:
        self.asked = False
        self._asked_s = 0.0
        self._wakeup = wakeup
        self._signals = signals
        self._same_wish_s = same_wish_s
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        for name in self._signals:
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is None or (name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN):
                continue
            try:
                self._before[number] = signal.signal(number, self._caught)
            except ValueError:
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        now_s = monotonic()
        if self.asked:
            if now_s - self._asked_s < self._same_wish_s:
                return
            raise KeyboardInterrupt
        self.asked, self._asked_s = True, now_s
        self._wakeup()


class Sink:
    """Writes buffers whole, in order, at once. `BrokenPipeError` passes through when the reader has gone.

    `written` counts the bytes that the system has taken, those of a buffer that failed half-way too.
    """

    def __init__(self, stream: BinaryIO) -> None:
        stream.flush()
        self._stream = stream
        self.written = 0
        try:
            self._fd: int | None = stream.fileno()
        except (io.UnsupportedOperation, AttributeError):
            self._fd = None

    def write(self, data: bytes | memoryview) -> None:
        """Write all of `data`, however many calls that takes; a full non-blocking pipe is waited for."""
        if self._fd is None:
            self._stream.write(data)
            self.written += len(data)
            return
        rest = memoryview(data)
        while len(rest):
            try:
                taken = os.write(self._fd, rest)
                self.written += taken
                rest = rest[taken:]
            except BlockingIOError:
                _wait_until_writable(self._fd)

    def check(self) -> None:
        """BrokenPipeError if the reader has gone, for the time when there is nothing to write that would tell."""
        if self._fd is not None and _is_hung_up(self._fd):
            raise BrokenPipeError


def _is_hung_up(fd: int) -> bool:
    import select

    poll = select.poll()
    poll.register(fd, 0)  # errors and hang-ups are told unasked
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _wait_until_writable(fd: int) -> None:
    import select

    select.select([], [fd], [])
