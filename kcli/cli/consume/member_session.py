"""One read as a member of a group: join, print, commit what was printed, and leave, however it ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kcli.cli import exit_status
from kcli.cli.consume.committer import Committer, undisturbed
from kcli.cli.consume.interrupt import STOPPING, Interrupt
from kcli.cli.consume.member_source import MemberSource
from kcli.cli.consume.member_words import member_footer, member_items
from kcli.cli.consume.printed_rows import rows_within
from kcli.cli.consume.pump import INTERRUPTED, pump
from kcli.cli.consume.sink import Sink
from kcli.cli.consume.tally import Tally
from kcli.errors import KcliError, WakeupError

if TYPE_CHECKING:
    from kcli.cli.consume.output import Output, Renderer
    from kcli.cli.consume.session import Manner
    from kcli.cli.environment import Environment
    from kcli.client.consumer_network_client import ConsumerNetworkClient
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
