"""One read as a member of a group: join, print, commit what was printed, and leave, however it ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kcli.cli import exit_status
from kcli.cli.consume.committer import Committer, undisturbed
from kcli.cli.consume.coverage_report import member_footer, member_items, partition_words, reset_words
from kcli.cli.consume.read_loop import INTERRUPTED, STOPPING, Interrupt, Sink, Tally, pump
from kcli.errors import KcliError, WakeupError

if TYPE_CHECKING:
    from kcli.cli.consume.committer import Committer
    from kcli.cli.consume.range_session import Manner
    from kcli.cli.consume.renderer import Output, RenderBatch, Renderer
    from kcli.cli.environment import Environment
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.clock import Clock
    from kcli.consumer.consumer import Consumer
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

_HURRIED_MS = 500.0


class MemberPlan(NamedTuple):
    """How to take part. `commit_every_ms` None: commit nothing. `timeout_ms` is for the last commit and leaving."""

    group: str
    topics: list[str]
    commit_every_ms: float | None
    timeout_ms: float
    exit_at_end: bool = False


def print_as_member(
    env: Environment, client: ConsumerNetworkClient, consumer: Consumer, manner: Manner, plan: MemberPlan
) -> int:
    """Print what the group assigns to us until there is a reason to stop; returns the exit status.

    However it ends, what was printed is committed, behind the last write, and the group is left.
    """
    tally, sink = Tally(), Sink(env.stdout_bytes)
    say = _sayer(env, manner, plan.group)
    warn = _sayer(env, None, plan.group)
    committer = Committer(consumer, env.clock, warn, interval_ms=plan.commit_every_ms, timeout_ms=plan.timeout_ms)
    source = MemberSource(consumer, committer, env.clock, say, warn=warn, exit_at_end=plan.exit_at_end)
    started_ms, leave_ms = env.clock.now_ms(), plan.timeout_ms
    with Interrupt(client.wakeup, STOPPING, same_wish_s=1.0) as interrupt:
        try:
            source.subscribe(plan.topics)
            why = _print_records(env, interrupt, source, committer, manner, tally, sink)
        except (KcliError, OSError):
            with suppress(KcliError):
                committer.finish()
            raise
        except BaseException:  # in a hurry, or a bug: what was printed is not known
            leave_ms = _HURRIED_MS
            raise
        else:
            committer.finish()
        finally:
            source.closing = True
            with suppress(WakeupError):  # Ctrl-C's, if no poll has met it: leaving is not to be disturbed
                client.poll(timeout_ms=0)
            undisturbed(lambda: consumer.close(timeout_ms=leave_ms))
    env.interrupted = interrupt.asked
    if plan.exit_at_end and not manner.quiet:
        items = member_items(source.ends, source.positions, tally.counts)
        env.say(member_footer(items, committer.stored))
    if manner.stats:
        env.say(tally.stats(env.clock.now_ms() - started_ms))
    return exit_status.INTERRUPTED if why == INTERRUPTED else exit_status.DONE


def _print_records(
    env: Environment,
    interrupt: Interrupt,
    source: MemberSource,
    committer: Committer,
    manner: Manner,
    tally: Tally,
    sink: Sink,
) -> str:
    """Everything that goes to standard output; returns why it ended."""
    printer = Printer(manner.renderer, sink, committer)

    def tick() -> None:
        committer.end(tally.left)
        committer.tick()
        sink.check()

    sink.write(manner.renderer.begin)
    why = pump(
        source,
        printer.render,
        printer.write,
        passed=source.passed,
        tally=tally,
        clock=env.clock,
        interrupt=interrupt,
        limits=manner.limits,
        filters=manner.filters,
        tick=tick,
    )
    source.note_positions()
    sink.write(manner.renderer.end(member_items(source.ends, source.positions, tally.counts)))
    return why


class Printer:
    """Renders and writes batches, and tells the committer what is written: of a batch that fails, the rows before."""

    def __init__(self, renderer: Renderer, sink: Sink, committer: Committer) -> None:
        self._renderer = renderer
        self._sink = sink
        self._committer = committer
        self._batch: tuple[TopicPartition, RecordColumns] | None = None

    def render(self, tp: TopicPartition, columns: RecordColumns) -> Output:
        """The bytes of a batch."""
        self._batch = tp, columns
        return self._renderer.render(tp, columns)

    def write(self, data: Output) -> None:
        """Write what was rendered last."""
        assert self._batch is not None
        tp, columns = self._batch
        before = self._sink.written
        try:
            self._sink.write(data)
        except BrokenPipeError:
            raise  # what the pipe had taken of this batch, nobody reads any more
        except OSError:
            rows = rows_within(self._renderer.render, tp, columns, self._sink.written - before, len(data))
            self._committer.hold(tp, int(columns.offsets[rows]))
            raise
        self._committer.wrote(tp)


def _sayer(env: Environment, manner: Manner | None, group: str) -> Callable[[str], None]:
    def say(sentence: str) -> None:
        if manner is None or not manner.quiet:
            env.say(f"kcli: group {group}: {sentence}")

    return say


# A member that joins while others still own everything first gets nothing, and a moment later its share.
_NOTHING_YET_MS = 10_000.0
_STILL_WAITING_MS = 5_000.0
_WAITS_FOR = {
    "preparing": "the group waits for its other members to join again",
    "completing": "the member that leads the group has not shared out its partitions yet",
    "unjoined": "the group cannot be joined yet",
    "joining": "the broker has not let this member in yet",
}


class MemberSource:
    """Reads what the group assigns; `done` when `exit_at_end` and all that is owned is read.

    The end of a partition is where its log ended when it was first assigned. What was printed of a partition is
    committed before it goes.
    """

    def __init__(
        self,
        consumer: Consumer,
        committer: Committer,
        clock: Clock,
        say: Callable[[str], None],
        *,
        warn: Callable[[str], None] | None = None,
        exit_at_end: bool = False,
    ) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self.positions: dict[TopicPartition, int] = {}
        self.closing = False
        self._in_range: set[TopicPartition] = set()
        self._consumer = consumer
        self._committer = committer
        self._clock = clock
        self._say = say
        self._warn = warn or say
        self._exit_at_end = exit_at_end
        self._rebalances = 0
        self._since_ms = clock.now_ms()
        self._told_waiting = False

    def subscribe(self, topics: list[str]) -> None:
        """Join for these topics, with the next polls."""
        self._consumer.subscribe(
            topics, on_assigned=self._on_assigned, on_revoked=self._on_revoked, on_lost=self._on_lost
        )

    # --- being read from

    @property
    def done(self) -> bool:
        """Whether all that is owned is read up to the end it had (never without `exit_at_end`)."""
        if not self._exit_at_end or not self._rebalances:
            return False
        subscription = self._consumer.subscription
        owned = subscription.partitions()
        if not owned:
            return self._clock.now_ms() - self._since_ms >= _NOTHING_YET_MS
        for tp in owned:
            position = subscription.state(tp).position
            end = self.ends.get(tp)
            if position is None or end is None or position.offset < end:
                return False
            if position.offset > end and tp not in self._in_range:
                return False
        return True

    def passed(self) -> int:
        """Grows whenever there is progress: offsets passed, a rebalance, and any time before the first one is over."""
        if not self._rebalances:
            return int(self._clock.now_ms())
        self.note_positions()
        return sum(self.positions.values()) + self._rebalances

    def poll(self, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]:
        """Records of partitions that are ours, as soon as there are some."""
        self._tell_waiting()
        self._check_range()
        batches = list(self._consumer.poll(timeout_ms).items())
        self._committer.begin(batches)
        for tp, reset in self._consumer.take_resets().items():
            self._warn(reset_words(tp, reset))
        return batches

    def _check_range(self) -> None:
        """Of what begins behind the end where we are to stop, nothing is fetched; so nobody would notice."""
        subscription = self._consumer.subscription
        news = [tp for tp in subscription.partitions() if tp in self.ends and tp not in self._in_range]
        positions = {tp: state.position for tp in news if (state := subscription.get(tp)) is not None}
        known = {tp: position.offset for tp, position in positions.items() if position is not None}
        beyond = [tp for tp, offset in known.items() if offset > self.ends[tp]]
        if beyond:
            self._consumer.check_range(beyond)
        self._in_range.update(known)

    def note_positions(self) -> None:
        """Remember how far each partition is, beyond the time that it is ours."""
        self.positions.update((tp, it.offset) for tp, it in self._committer.printed().items())

    def _tell_waiting(self) -> None:
        waited_ms = self._clock.now_ms() - self._since_ms
        if not self._rebalances and not self._told_waiting and waited_ms >= _STILL_WAITING_MS:
            self._told_waiting = True
            membership = self._consumer.membership
            state = "unjoined" if membership is None else membership.state
            self._say(f"still waiting for an assignment: {_WAITS_FOR.get(state, state)}")

    # --- rebalances

    def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        self._rebalances += 1
        self._since_ms = self._clock.now_ms()
        self._committer.hurry()
        if partitions:
            self._say(f"assigned {partition_words(partitions)}")
        elif not self._consumer.subscription.partitions():
            self._say("no partition is assigned to this member")
        if self._exit_at_end:
            self._find_ends(partitions)

    def _find_ends(self, partitions: list[TopicPartition]) -> None:
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
        self.note_positions()
        self._committer.store(partitions)
        self._committer.forget(partitions)
        self._say(f"revoked {partition_words(partitions)}")

    def _on_lost(self, partitions: list[TopicPartition]) -> None:
        self.note_positions()
        self._committer.forget(partitions)
        if not self.closing:
            self._say(
                f"lost {partition_words(partitions)}: the group has put this member out; "
                "what was printed and not committed will be printed again"
            )


def rows_within(render: RenderBatch, tp: TopicPartition, columns: RecordColumns, written: int, size: int) -> int:
    """How many of the first records lie within the first `written` of the `size` bytes that the batch came to.

    Found by rendering parts of the batch again. 0 for a renderer that renders it otherwise the second time.
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
