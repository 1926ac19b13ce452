"""One read as a member of a share group: acquire, print, acknowledge the printed records (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.cli import exit_status
from kcli.cli.consume.printed_records import PrintedRecords
from kcli.cli.consume.read_loop import RecordPrinter, complete_document, print_records
from kcli.cli.consume.reports import partitions_text, reporter
from kcli.cli.consume.sink import Sink
from kcli.cli.environment import HURRIED_MS, StopSignals
from kcli.cli.options import check_choice
from kcli.cli.parser import given_options
from kcli.consumer.coverage import StopReason
from kcli.consumer.share.share_session import AcknowledgeType
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kcli.cli.consume.options import DecodeOptions, FilterOptions, MemberOptions, SourceOptions, TopicOptions
    from kcli.cli.consume.printing import PrintOptions
    from kcli.cli.environment import Environment
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.clock import Clock
    from kcli.consumer.share.share_consumer import AcquiredRecords, ShareConsumer
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

ACKNOWLEDGEMENTS = {
    "accept": AcknowledgeType.ACCEPT,
    "release": AcknowledgeType.RELEASE,
    "reject": AcknowledgeType.REJECT,
}


def acknowledge_type(text: str | None, *, max_records: int | None) -> AcknowledgeType:
    """Return the value of --ack. ConfigError if it is not valid, or releases without a limit."""
    check_choice("--ack", text := "accept" if text is None else text, ACKNOWLEDGEMENTS)
    if text == "release" and max_records is None:
        raise ConfigError(
            "--ack release requires -n: the brokers deliver a released record again, and count deliveries"
        )
    return ACKNOWLEDGEMENTS[text]


def refuse_with_share(
    topics: TopicOptions,
    filtering: FilterOptions,
    decode: DecodeOptions,
    source: SourceOptions,
    member: MemberOptions,
) -> None:
    """Raise ConfigError for options that cannot be combined with --share."""
    given = {
        "--group": member.group,
        "-o": topics.offset,
        "--from-beginning": topics.from_beginning,
        "-e": topics.exit_at_end,
        "-p": topics.partition,
        **{option: value for option, value in given_options(filtering).items() if option != "--invert"},
        "--where": decode.where,
        **given_options(source),
        "--topics": topics.topics,
    }
    for option, value in given.items():
        if value:
            reason = _REASONS.get(option, "the broker chooses the records of a share group")
            raise ConfigError(f"{option} cannot be combined with --share: {reason}")


_FILTERED = "a record that is not printed would have to be released, and the brokers archive it after some deliveries"
_REASONS = {
    **dict.fromkeys(("--grep", "--key", "--header", "--where"), _FILTERED),
    "-e": "a share group has no end offset; use -n or --idle-timeout",
    "--group": "a reader is a member of one group",
    "--isolation-level": "set share.isolation.level of the group",
}


def print_shared(
    env: Environment,
    client: ConsumerNetworkClient,
    consumer: ShareConsumer,
    options: PrintOptions,
    acknowledgement: AcknowledgeType,
    timeout_ms: float,
) -> int:
    """Print acquired records until there is a reason to stop, and return the exit status.

    A record is acknowledged after it was written; all others that this member holds are released at the end, for which
    there is a time limit.
    """
    printed, sink = PrintedRecords(), Sink(env.stdout_bytes)
    report = reporter(env, f"kcli: share group {consumer.group}", quiet=options.quiet)
    source = ShareSource(consumer, env.clock, acknowledgement, printed, options.limits.max_records, report)
    started_ms, close_ms = env.clock.now_ms(), timeout_ms

    def after_poll() -> None:
        source.acknowledge(printed.first_unprinted)
        sink.check()

    with StopSignals(client.wakeup) as interrupt:
        try:
            with complete_document(options.renderer, sink):
                sink.write(options.renderer.begin)
                printer = RecordPrinter(options, sink.write, printed, interrupt)
                stop = print_records(source, printer, env.clock, offsets_passed=source.progress, after_poll=after_poll)
                sink.write(options.renderer.end([]))
        except KeyboardInterrupt:  # a second signal
            close_ms = HURRIED_MS
            raise
        finally:
            try:
                consumer.close(close_ms)
            finally:
                for tp, offsets, error in consumer.failed:
                    env.report(
                        f"kcli: {offsets} records of {tp} were printed, and their acknowledgement failed, "
                        f"so they may be delivered again: {error.message}"
                    )
                options.report_stats(env, printed, started_ms)
    env.interrupted = interrupt.requested
    if consumer.failed:
        return options.status(exit_status.FAILED)
    report(f"{printed.total.records:,} records printed, acknowledgement: {acknowledgement.name.lower()}")
    return options.status(exit_status.INTERRUPTED if stop is StopReason.INTERRUPTED else exit_status.DONE)


class ShareSource:
    """A source of acquired records; never `done`."""

    done = False

    def __init__(
        self,
        consumer: ShareConsumer,
        clock: Clock,
        type: AcknowledgeType,
        printed: PrintedRecords,
        max_records: int | None,
        report: Callable[[str], None],
    ) -> None:
        self._acquired = 0
        self._consumer = consumer
        self._clock = clock
        self._type = type
        self._printed = printed
        self._max_records = max_records
        self._report = report
        self._held: list[AcquiredRecords] = []
        self._assigned: frozenset[TopicPartition] | None = None

    def poll(self, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]:
        """Return acquired records; with a limit no more than it needs, as far as the brokers know such a limit."""
        limit = None if self._max_records is None else self._max_records - self._printed.total.records
        self._held = self._consumer.poll(timeout_ms, limit)
        partitions = self._consumer.partitions
        if self._consumer.is_member and partitions and partitions != self._assigned:
            self._assigned = partitions
            self._report(f"assigned {partitions_text(partitions)}")
        self._acquired += sum(len(batch.columns) for batch in self._held)
        return [(batch.tp, batch.columns) for batch in self._held if len(batch.columns)]

    def progress(self) -> int:
        """Return a number that increases with acquired records, and with time before the first assignment."""
        return int(self._clock.now_ms()) if self._assigned is None else self._acquired

    def acknowledge(self, first_unprinted: Mapping[TopicPartition, int]) -> None:
        """Acknowledge the printed records of the last poll, and release the others."""
        for batch in self._held:
            self._consumer.acknowledge(batch, self._type, first_unprinted.get(batch.tp))
        self._held = []
