"""The read loop of `kcli consume`: poll, filter, render, write, until there is a reason to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kcli.cli.output.report import error_field
from kcli.consumer.coverage import StopReason
from kcli.errors import KcliError, WakeupError

if TYPE_CHECKING:
    from kcli.cli.consume.decoding import Decoding
    from kcli.cli.consume.filters import Filters
    from kcli.cli.consume.printed_records import Limits, PrintedRecords
    from kcli.cli.consume.printing import PrintOptions
    from kcli.cli.consume.renderer import Output, Renderer
    from kcli.cli.consume.sink import Sink
    from kcli.cli.environment import StopSignals
    from kcli.clock import Clock
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

T = TypeVar("T")

_POLL_MS = 500.0


class Source(Protocol):
    """A source of records: a `RangeSource`, `MemberSource` or `ShareSource`."""

    @property
    def done(self) -> bool: ...

    def poll(self, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]: ...


def print_records(
    source: Source,
    printer: RecordPrinter,
    clock: Clock,
    *,
    offsets_passed: Callable[[], int],
    after_poll: Callable[[], None] = lambda: None,
) -> StopReason:
    """Print records until there is a reason to stop, and return it. Records of one poll are written before the next.

    `offsets_passed` returns the number of offsets read; its increase is progress too. The first poll does not count as
    idle time: the reader prepares in it.
    """
    limits, printed = printer.options.limits, printer.printed
    idle_since, progress = clock.now_ms(), -1
    while not source.done:
        if printer.interrupt.requested:
            return StopReason.INTERRUPTED
        if limits.is_reached(printed.total.records):
            return StopReason.RECORD_LIMIT
        batches = _poll(source, _poll_ms(limits, clock.now_ms() - idle_since))
        for number, (tp, columns) in enumerate(batches):
            try:
                printer.print(tp, columns)
            except KcliError:
                for later in batches[number + 1 :]:
                    printer.stop_at(*later)
                raise
        after_poll()
        if batches:
            idle_since = clock.now_ms()
        elif limits.idle_ms is not None:
            now_ms, before, progress = clock.now_ms(), progress, offsets_passed()
            if progress != before:
                idle_since = now_ms
            elif now_ms - idle_since >= limits.idle_ms:
                return StopReason.IDLE
    if not printed.first_unprinted:
        return StopReason.END
    return StopReason.RECORD_LIMIT if limits.is_reached(printed.total.records) else StopReason.INTERRUPTED


def _poll_ms(limits: Limits, idle_ms: float) -> float:
    return _POLL_MS if limits.idle_ms is None else max(0.0, min(_POLL_MS, limits.idle_ms - idle_ms))


def _poll(source: Source, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]:
    try:
        return source.poll(timeout_ms)
    except WakeupError:  # by a signal: `interrupt.requested` is set
        return []


class RecordPrinter:
    """Filters, decodes, writes and counts batches of records, up to a limit or an interrupt.

    With decoding, the records of a batch are decoded and written in parts. An interrupt while a part is decoded ends
    it, and nothing of it is printed. `before_part` is called before each, with the first offset of a partition: no
    record from there on is written yet.
    """

    def __init__(
        self,
        options: PrintOptions,
        write: Callable[[Output], None],
        printed: PrintedRecords,
        interrupt: StopSignals,
        before_part: Callable[[TopicPartition, int], None] = lambda tp, offset: None,
    ) -> None:
        self.options = options
        self.printed = printed
        self.interrupt = interrupt
        self._write = write
        self._before_part = before_part

    def print(self, tp: TopicPartition, columns: RecordColumns) -> None:
        """Print the records that match."""
        if self.options.filters is not None:
            columns = self._matching(tp, columns, self.options.filters)
        if self.options.decoding is None:
            self._print(tp, columns)
        else:
            self._print_decoded(tp, columns, self.options.decoding)

    def write_batch(self, tp: TopicPartition, columns: RecordColumns) -> None:
        """Render and write these records of a partition, or merged ones."""
        self._write(self.options.renderer.render(tp, columns))

    def _matching(self, tp: TopicPartition, columns: RecordColumns, filters: Filters) -> RecordColumns:
        """Return the records that match; none after an interrupt."""
        from kcli.cli.consume.filters import matching_rows

        mask = self._until_signal(lambda: matching_rows(filters, columns))
        if mask is not None:
            return columns.take(mask)
        self.stop_at(tp, columns)
        return columns.take(slice(0, 0))

    def _until_signal(self, step: Callable[[], T]) -> T | None:
        """Return the result of a step with an expression of the user, which may take for ever.

        None after an interrupt.
        """
        try:
            with self.interrupt.raised():
                if not self.interrupt.requested:
                    return step()
        except KeyboardInterrupt:
            pass
        return None

    def stop_at(self, tp: TopicPartition, columns: RecordColumns) -> None:
        """Note that none of these records is printed."""
        for first_tp, offset in first_offsets(tp, columns).items():
            self.printed.stop_at(first_tp, offset)

    def _print_decoded(self, tp: TopicPartition, columns: RecordColumns, decoding: Decoding) -> None:
        for row in range(0, len(columns), decoding.part_rows):
            part = columns.take(slice(row, row + decoding.part_rows))
            decoded = None
            if not (self.interrupt.requested or self.options.limits.is_reached(self.printed.total.records)):
                for first_tp, offset in first_offsets(tp, part).items():
                    self._before_part(first_tp, offset)
                try:
                    decoded = self._until_signal(partial(decoding.apply, tp, part))
                except KcliError:
                    self.stop_at(tp, columns.take(slice(row, None)))
                    raise
            if decoded is None:
                self.stop_at(tp, columns.take(slice(row, None)))
                return
            self._print(tp, decoded)
            if decoding.late is not None:
                self._stop_before_late(tp, columns.take(slice(row + decoding.late[0], None)))
            decoding.count_failures(self.printed.first_unprinted)
            if decoding.late is not None and not self.options.limits.is_reached(self.printed.total.records):
                raise decoding.late[1]

    def _stop_before_late(self, tp: TopicPartition, columns: RecordColumns) -> None:
        """Note that none of these records is printed: an expression takes too long for the first."""
        for first_tp, offset in first_offsets(tp, columns).items():
            self._before_part(first_tp, offset)
        self.stop_at(tp, columns)

    def _print(self, tp: TopicPartition, columns: RecordColumns) -> None:
        most = self.options.limits.max_records
        if most is not None and len(columns) > (room := most - self.printed.total.records):
            self.stop_at(tp, columns.take(slice(room, None)))
            columns = columns.take(slice(0, room))
        if len(columns):
            self.write_batch(tp, columns)
            self.printed.add(tp, columns)


def first_offsets(tp: TopicPartition, columns: RecordColumns) -> dict[TopicPartition, int]:
    """Return the first offset of each partition of these records, which may be merged."""
    if columns.partitions is None:
        return {tp: int(columns.offsets[0])} if len(columns) else {}
    rows = zip(columns.partitions[::-1].tolist(), columns.offsets[::-1].tolist(), strict=True)
    return {tp._replace(partition=number): offset for number, offset in rows}  # the last of each is its first offset


@contextmanager
def complete_document(
    renderer: Renderer, sink: Sink, coverage: Callable[[], Sequence[dict[str, Any]]] = list
) -> Iterator[None]:
    """Write the rest of a document, with the error, if the block raises a KcliError. The error is raised again.

    Scripts that read a document get a whole one in any case.
    """
    try:
        yield
    except KcliError as error:
        rest = renderer.end_failed(coverage(), error_field(error))
        sink.write(rest if sink.written else renderer.begin + rest if rest else b"")
        raise
