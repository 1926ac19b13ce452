"""One read as a member of a group: join, print, commit the printed records, leave the group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.cli import exit_status
from kcli.cli.consume.committer import Committer
from kcli.cli.consume.printed_records import PrintedRecords
from kcli.cli.consume.read_loop import RecordPrinter, complete_document, print_records
from kcli.cli.consume.reports import (
    FollowReports,
    member_items,
    member_table,
    partitions_text,
    reporter,
    reset_text,
    unreadable,
)
from kcli.cli.consume.sink import Sink
from kcli.cli.environment import HURRIED_MS, StopSignals
from kcli.consumer.coverage import StopReason
from kcli.errors import KcliError, TimeoutExpired

if TYPE_CHECKING:
    from kcli.cli.consume.printing import PrintOptions
    from kcli.cli.consume.renderer import RenderBatch
    from kcli.cli.environment import Environment
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.clock import Clock
    from kcli.consumer.consumer import Consumer
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition


class MemberPlan(NamedTuple):
    """The membership to take up.

    `commit_every_ms` None: never commit. `timeout_ms` limits the last commit and leaving together, and with
    `exit_at_end` the time for which a partition may fail.
    """

    group: str
    topics: list[str]
    commit_every_ms: float | None
    timeout_ms: float
    exit_at_end: bool = False
    read_committed: bool = False
    pattern: str | None = None


def print_as_member(
    env: Environment, client: ConsumerNetworkClient, consumer: Consumer, options: PrintOptions, plan: MemberPlan
) -> int:
    """Print the records of the assigned partitions until there is a reason to stop, and return the exit status.

    However it ends, the printed records are committed after the last write, and the group is left. A second signal ends
    that too; the positions and committed offsets are reported all the same.
    """
    printed, sink = PrintedRecords(), Sink(env.stdout_bytes)
    prefix = f"kcli: group {plan.group}"
    report, warn = (reporter(env, prefix, quiet=quiet) for quiet in (options.quiet, False))
    committer = Committer(consumer, env.clock, warn, interval_ms=plan.commit_every_ms, timeout_ms=plan.timeout_ms)
    source = MemberSource(consumer, committer, env.clock, plan, report, warn)
    started_ms, is_hurried, is_known = env.clock.now_ms(), False, False
    with StopSignals(client.wakeup) as interrupt, _reported_log(warn):
        try:
            try:
                source.subscribe()
                follow = FollowReports(env, prefix, source.followed, consumer.retry_states, printed, options)
                stop = _print_records(env, interrupt, source, committer, options, printed, sink, follow)
                failing = consumer.retry_states() if stop is StopReason.IDLE else {}
            except (KcliError, OSError):
                is_known = True
                committer.end()
                committer.commit_or_report()
                raise
            is_known = True
            committer.end()
            committer.finish()
        except BaseException as error:
            # A second signal, or a bug. While records are printed it leaves unknown which of them are.
            is_hurried = not isinstance(error, (KcliError, OSError))
            raise
        finally:
            source.save_positions()
            source.closing = True
            try:
                consumer.close(timeout_ms=HURRIED_MS if is_hurried else committer.left_ms())  # no wakeup interrupts it
            finally:
                if is_known:
                    items = member_items(source.log_ends | source.ends, source.positions, printed.counts)
                    if items and not options.quiet:  # also of a read that failed
                        env.report_lines(member_table(items, committer.committed).split("\n"))
                    options.report_stats(env, printed, started_ms)
    env.interrupted = interrupt.requested
    for sentence in unreadable(failing):  # no record arrived because none could
        warn(sentence)
    if failing:
        return options.status(exit_status.INCOMPLETE)
    return options.status(exit_status.INTERRUPTED if stop is StopReason.INTERRUPTED else exit_status.DONE)


@contextmanager
def _reported_log(report: Callable[[str], None]) -> Iterator[None]:
    """Report what the library logs meanwhile, such as a deleted topic; Python would print it without a name."""
    import logging

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == logger.name:  # those below it have reports of their own here
                report(record.getMessage())

    logger, handler = logging.getLogger("kcli.consumer"), Handler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _print_records(
    env: Environment,
    interrupt: StopSignals,
    source: MemberSource,
    committer: Committer,
    options: PrintOptions,
    printed: PrintedRecords,
    sink: Sink,
    follow: FollowReports,
) -> StopReason:
    """Write everything that goes to standard output, and return the reason for the end."""
    printer = MemberPrinter(options, sink, committer, printed, interrupt)

    def after_poll() -> None:
        committer.finish_batches(printed.first_unprinted)
        committer.tick()
        follow.tick()
        sink.check()

    def items() -> list[dict[str, Any]]:
        source.save_positions()
        return member_items(source.ends, source.positions, printed.counts)

    with complete_document(options.renderer, sink, items):
        sink.write(options.renderer.begin)
        stop = print_records(source, printer, env.clock, offsets_passed=source.progress, after_poll=after_poll)
        sink.write(options.renderer.end(items()))
    return stop


class MemberPrinter(RecordPrinter):
    """Reports the written records to the committer.

    Of a failed batch it reports the complete rows, and counts them as printed.
    """

    def __init__(
        self,
        options: PrintOptions,
        sink: Sink,
        committer: Committer,
        printed: PrintedRecords,
        interrupt: StopSignals,
    ) -> None:
        super().__init__(options, sink.write, printed, interrupt, committer.hold)
        self._sink = sink
        self._committer = committer

    def write_batch(self, tp: TopicPartition, columns: RecordColumns) -> None:
        """Render and write these records of a partition."""
        data, before = self.options.renderer.render(tp, columns), self._sink.written
        try:
            self._sink.write(data)
        except BrokenPipeError:
            raise  # no process reads the written part of this batch
        except OSError:
            written = self._sink.written - before
            rows = complete_rows(self.options.renderer.render, tp, columns, written, len(data))
            self._committer.hold(tp, int(columns.offsets[rows]))
            self.printed.add(tp, columns.take(slice(0, rows)))
            raise
        self._committer.written(tp)


# A member that joins while others own all partitions gets none at first, and its share in the next rebalance.
_UNASSIGNED_TIMEOUT_MS = 10_000.0
_WAITING_REPORT_MS = 5_000.0
_WAITING_FOR = {
    "preparing": "the group waits for its other members to join again",
    "completing": "the group leader has not assigned partitions yet",
    "unjoined": "the group cannot be joined yet",
    "joining": "the broker has not accepted this member yet",
}


class MemberSource:
    """A source of the records that the group assigns; `done` when `exit_at_end` and all assigned partitions are read.

    The end of a partition is its end offset when it was first assigned. The printed records of a partition are
    committed before it is revoked.
    """

    def __init__(
        self,
        consumer: Consumer,
        committer: Committer,
        clock: Clock,
        plan: MemberPlan,
        report: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self.log_ends: dict[TopicPartition, int] = {}
        self.positions: dict[TopicPartition, int] = {}
        self.closing = False
        self._in_range: set[TopicPartition] = set()
        self._consumer = consumer
        self._committer = committer
        self._clock = clock
        self._plan = plan
        self._report = report
        self._warn = warn
        self._rebalances = 0
        self._since_ms = clock.now_ms()
        self._reported_waiting = False

    def subscribe(self) -> None:
        """Join the group for the topics of the plan, or for all that match, in the next polls."""
        self._consumer.subscribe(
            self._plan.topics,
            pattern=self._plan.pattern,
            on_assigned=self._on_assigned,
            on_revoked=self._on_revoked,
            on_lost=self._on_lost,
        )

    # --- reading

    @property
    def done(self) -> bool:
        """True if all assigned partitions are read to their ends; always False without `exit_at_end`."""
        if not self._plan.exit_at_end or not self._rebalances:
            return False
        subscription = self._consumer.subscription
        owned = subscription.partitions()
        if not owned:
            return self._clock.now_ms() - self._since_ms >= _UNASSIGNED_TIMEOUT_MS
        for tp in owned:
            position = subscription.state(tp).position
            end = self.ends.get(tp)
            if position is None or end is None or position.offset < end:
                return False
            if position.offset > end and tp not in self._in_range:
                return False
        return True

    def progress(self) -> int:
        """Return a number that increases with offsets read, with rebalances, and with time before the first one."""
        if not self._rebalances:
            return int(self._clock.now_ms())
        self.save_positions()
        return sum(self.positions.values()) + self._rebalances

    def poll(self, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]:
        """Return records of assigned partitions as soon as there are some."""
        self._report_waiting()
        self._check_range()
        batches = list(self._consumer.poll(timeout_ms).items())
        self._committer.start_batches(batches)
        for tp, reset in self._consumer.take_resets().items():
            self._warn(reset_text(tp, reset))
        self._report_starts()
        if self._plan.exit_at_end and not batches:
            self._check_failures()
        return batches

    def _check_failures(self) -> None:
        """Raise TimeoutExpired if a partition could not be read for too long: a read with an end must end."""
        for tp, state in self._consumer.retry_states().items():
            silent_ms = self._clock.now_ms() - state.since_ms
            if silent_ms >= self._plan.timeout_ms:
                seconds, name = silent_ms / 1000, partitions_text([tp])
                raise TimeoutExpired(f"no record of {name} arrived for {seconds:.3g} s: {state.error.message}")

    def _report_starts(self) -> None:
        starts = self._consumer.subscription.policy_starts
        at_end = [tp for tp, policy in starts.items() if policy == "latest"]
        starts.clear()
        if at_end:
            self._report(
                f"no committed offset of {partitions_text(at_end)}: reading starts at the log end; "
                "use -o start to start at the log start"
            )

    def _check_range(self) -> None:
        """Check positions after the end at which to stop, because such a partition is not fetched."""
        subscription = self._consumer.subscription
        news = [tp for tp in subscription.partitions() if tp in self.ends and tp not in self._in_range]
        positions = {tp: state.position for tp in news if (state := subscription.get(tp)) is not None}
        known = {tp: position.offset for tp, position in positions.items() if position is not None}
        beyond = [tp for tp, offset in known.items() if offset > self.ends[tp]]
        if beyond:
            self._consumer.check_range(beyond)
        self._in_range.update(known)

    def followed(self) -> dict[TopicPartition, bool]:
        """Return the assigned partitions, each with whether it was read to the log end; none with `exit_at_end`."""
        if self._plan.exit_at_end:
            return {}
        subscription = self._consumer.subscription
        return {
            tp: subscription.state(tp).is_at_end(read_committed=self._plan.read_committed)
            for tp in subscription.partitions()
        }

    def save_positions(self) -> None:
        """Save position and log end of each partition, for the report after it is no longer assigned."""
        self.positions.update((tp, offset.offset) for tp, offset in self._committer.printed_offsets().items())
        subscription = self._consumer.subscription
        ends = {
            tp: subscription.state(tp).log_end(read_committed=self._plan.read_committed)
            for tp in self.positions
            if subscription.get(tp)
        }
        self.log_ends.update((tp, end) for tp, end in ends.items() if end >= 0)

    def _report_waiting(self) -> None:
        waited_ms = self._clock.now_ms() - self._since_ms
        if not self._rebalances and not self._reported_waiting and waited_ms >= _WAITING_REPORT_MS:
            self._reported_waiting = True
            membership = self._consumer.membership
            state = "unjoined" if membership is None else membership.state
            self._report(f"still waiting for an assignment: {_WAITING_FOR.get(state, state)}")

    # --- rebalances

    def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        self._rebalances += 1
        self._since_ms = self._clock.now_ms()
        self._committer.commit_soon()
        if partitions:
            self._report(f"assigned {partitions_text(partitions)}")
        elif not self._consumer.subscription.partitions():
            self._report("no partition is assigned to this member")
        if self._plan.exit_at_end:
            self._set_ends(partitions)

    def _set_ends(self, partitions: list[TopicPartition]) -> None:
        subscription = self._consumer.subscription
        self._in_range.difference_update(partitions)
        unknown = [tp for tp in partitions if tp not in self.ends]
        if unknown:
            self.ends.update(self._consumer.end_offsets(unknown))
        for tp in partitions:
            if subscription.get(tp) is not None:
                subscription.stop_at(tp, self.ends[tp])

    def _on_revoked(self, partitions: list[TopicPartition]) -> None:
        if self.closing:
            return
        self._since_ms = self._clock.now_ms()
        self.save_positions()
        self._committer.commit_or_report(partitions)
        self._committer.forget(partitions)
        self._report(f"revoked {partitions_text(partitions)}")

    def _on_lost(self, partitions: list[TopicPartition]) -> None:
        self._since_ms = self._clock.now_ms()
        self.save_positions()
        self._committer.forget(partitions)
        if not self.closing:
            self._report(
                f"lost {partitions_text(partitions)}: the group has removed this member; "
                "records printed but not committed will be printed again"
            )


def complete_rows(render: RenderBatch, tp: TopicPartition, columns: RecordColumns, written: int, size: int) -> int:
    """Return the number of first records that lie within the first `written` of the `size` bytes of the rendered batch.

    The number is found by rendering parts of the batch again; 0 for a renderer whose output differs the second time.
    """
    if len(render(tp, columns)) != size:
        return 0
    low, high = 0, len(columns) - 1  # not all of it was written
    while low < high:
        middle = (low + high + 1) // 2
        if len(render(tp, columns.take(slice(0, middle)))) <= written:
            low = middle
        else:
            high = middle - 1
    return low
