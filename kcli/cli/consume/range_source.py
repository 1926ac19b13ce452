"""The options of a read without a group that choose and order its records, and the source of records they describe."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli.errors import ConfigError, NotFound
from kcli.structs import TopicPartition, numbers_by_topic
from kcli.text import compile_regex, parse_topics

if TYPE_CHECKING:
    from kcli.cli.consume.checkpointer import Checkpointer
    from kcli.cli.consume.options import OffsetSpecs
    from kcli.cli.environment import Environment
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.requests import Results
    from kcli.consumer.coverage import PartitionCoverage
    from kcli.consumer.read_checkpoint import Selection
    from kcli.consumer.read_range import ReadRange, ResolvedRange
    from kcli.consumer.retry_backoff import RetryState
    from kcli.consumer.subscription import FetchPosition
    from kcli.protocol.records.columns import RecordColumns


class RangeSource(Protocol):
    """Records of ranges with their coverage: a `RangeReader`, or one that returns its records in another order."""

    @property
    def ranges(self) -> Mapping[TopicPartition, ReadRange]: ...
    @property
    def done(self) -> bool: ...
    def resolve(self, deadline_ms: float) -> Results[TopicPartition, ResolvedRange]: ...
    def poll(self, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]: ...
    def coverage(self) -> list[PartitionCoverage]: ...
    def positions(self) -> dict[TopicPartition, FetchPosition]: ...
    def followed(self) -> dict[TopicPartition, bool]: ...
    def retry_states(self) -> dict[TopicPartition, RetryState]: ...
    def close(self) -> None: ...


class SourceOptions(NamedTuple):
    """The options as given."""

    merge: bool = False
    tail: int | None = None
    checkpoint: str | None = None
    control: bool = False
    topics: str | None = None

    @property
    def given(self) -> dict[str, object]:
        """The values by the names of the options."""
        return {
            "--merge": self.merge,
            "--tail": self.tail,
            "--control": self.control,
            "--checkpoint": self.checkpoint,
            "--topics": self.topics,
        }


def refuse_with_group(options: SourceOptions, group: str | None) -> None:
    """Raise ConfigError for an option that needs the partitions of a whole topic, in a read as a member of a group."""
    if group is None:
        return
    if options.checkpoint is not None:
        raise ConfigError("--checkpoint cannot be combined with --group: a member goes on at the committed offsets")
    for option, is_given in options.given.items():
        if is_given and option != "--topics":
            raise ConfigError(f"{option} cannot be combined with --group: a member reads only its assigned partitions")


def refuse_with_output(options: SourceOptions, output: str | None) -> None:
    """Raise ConfigError for a checkpoint of output that cannot be continued."""
    if options.checkpoint is not None and output == "json":
        raise ConfigError(
            "--checkpoint cannot be combined with --output json: its document ends with the read; use --output jsonl"
        )


def choose_topics(
    options: SourceOptions, topics: Sequence[str], partitions: Sequence[str]
) -> dict[str, list[int] | None]:
    """Return the partitions of each topic on the command line, None for all; no topic for --topics. ConfigError."""
    if options.topics is None:
        if not topics:
            raise ConfigError("the topic is missing; use TOPIC or --topics REGEX (see kcli consume topic --help)")
        return parse_topics(topics, partitions)
    for other, is_given in ((f"topic {topics[0] if topics else ''}", topics), ("-p", partitions)):
        if is_given:
            raise ConfigError(f"--topics cannot be combined with {other}")
    compile_topics(options.topics)
    return {}


def compile_topics(expression: str) -> re.Pattern[str]:
    """Return the expression of --topics. Raise ConfigError if it is not valid."""
    if not expression:
        raise ConfigError("--topics: the regular expression must not be empty: no topic has an empty name")
    try:
        return compile_regex(expression)
    except re.error as error:
        raise ConfigError(f"--topics: {expression!r} is not a valid regular expression: {error}") from error


def find_topics(
    client: ConsumerNetworkClient, expression: str, config: ConsumerConfig, deadline_ms: float, *, may_wait: bool
) -> dict[str, list[int] | None]:
    """Return the topics whose whole name matches. Raise NotFound if there are none, unless the read waits for them."""
    from kcli.client.metadata import matching_topics

    cluster, pattern = client.topics_metadata(None, deadline_ms), compile_topics(expression)
    names = matching_topics(cluster, pattern, with_internal=not config.exclude_internal_topics)
    if not names and not may_wait:
        raise NotFound(f"--topics: no topic matches {expression!r}")
    return dict.fromkeys(sorted(names))


@contextmanager
def open_checkpoint(
    env: Environment, options: SourceOptions, report: Callable[[str], None]
) -> Iterator[Checkpointer | None]:
    """Open the checkpoint, and unlock it at the end; None without one."""
    if options.checkpoint is None:
        yield None
        return
    from kcli.cli.consume.checkpointer import Checkpointer

    with closing(Checkpointer(options.checkpoint, env.stdout_bytes, env.clock, report)) as checkpoint:
        yield checkpoint


def selection_of(
    options: SourceOptions,
    wanted: Mapping[str, list[int] | None],
    specs: OffsetSpecs,
    ranges: Iterable[TopicPartition],
) -> Selection:
    """Return the topics of a read, with their partitions unless all of a topic are read."""
    from kcli.consumer.read_checkpoint import Selection

    numbers = numbers_by_topic(ranges)
    return Selection(
        {
            name: None if given is None and not specs.names_only_partitions() else tuple(numbers.get(name, ()))
            for name, given in wanted.items()
        },
        options.topics,
        options.control,
    )


def make_source(
    client: ConsumerNetworkClient,
    ranges: Mapping[TopicPartition, ReadRange],
    config: ConsumerConfig,
    options: SourceOptions,
    *,
    deadline_ms: float,
    follows: bool,
    follow_new: Collection[str] = (),
    epochs: Mapping[TopicPartition, int] | None = None,
) -> RangeSource:
    """Return the source of these ranges, or of their last records.

    `follows`: topics that are created later and match --topics are read too. `epochs`: the ranges go on from a
    checkpoint.
    """
    from kcli.consumer.range_reader import RangeReader

    decode = None
    if options.control:
        from kcli.protocol.records.control_records import decode_control

        decode = decode_control
    is_tail = options.tail is not None and epochs is None
    if options.tail is not None and is_tail:
        from kcli.consumer.tail import find_tail

        ranges = find_tail(client, ranges, config, options.tail, deadline_ms, decode=decode)
    reader = RangeReader(
        client,
        ranges,
        config,
        follow_new=follow_new,
        follow_pattern=compile_topics(options.topics) if follows and options.topics is not None else None,
        decode=decode,
        epochs=epochs,
    )
    if not (options.merge or is_tail):
        return reader
    from kcli.consumer.merged_reader import WAIT_MS, MergedReader

    return MergedReader(reader, client.clock, wait_ms=WAIT_MS if options.merge else 0.0)
