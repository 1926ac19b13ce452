"""The source of the records of a read without a group, as the options describe it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Protocol

from kcli.cli.consume.options import compile_topics
from kcli.errors import NotFound
from kcli.structs import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from kcli.cli.consume.checkpointer import Checkpointer
    from kcli.cli.consume.options import OffsetSpecs, SourceOptions
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
def open_checkpoint(env: Environment, path: str | None, report: Callable[[str], None]) -> Iterator[Checkpointer | None]:
    """Open the checkpoint, and unlock it at the end; None without one."""
    if path is None:
        yield None
        return
    from kcli.cli.consume.checkpointer import Checkpointer

    with closing(Checkpointer(path, env.stdout_bytes, env.clock, report)) as checkpoint:
        yield checkpoint


def selection_of(
    expression: str | None,
    wanted: Mapping[str, list[int] | None],
    specs: OffsetSpecs,
    ranges: Iterable[TopicPartition],
    *,
    control: bool,
) -> Selection:
    """Return the topics of a read, with their partitions unless all of a topic are read."""
    from kcli.consumer.read_checkpoint import Selection

    numbers = numbers_by_topic(ranges)
    return Selection(
        {
            name: None if given is None and not specs.names_only_partitions() else tuple(numbers.get(name, ()))
            for name, given in wanted.items()
        },
        expression,
        control,
    )


def make_source(
    client: ConsumerNetworkClient,
    ranges: Mapping[TopicPartition, ReadRange],
    config: ConsumerConfig,
    options: SourceOptions,
    *,
    deadline_ms: float,
    follow_new: Collection[str] = (),
    follow_pattern: str | None = None,
    epochs: Mapping[TopicPartition, int] | None = None,
) -> RangeSource:
    """Return the source of these ranges, or of their last records.

    `follow_pattern`: topics that are created later and match it are read too. `epochs`: the ranges go on from a
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
        follow_pattern=None if follow_pattern is None else compile_topics(follow_pattern),
        decode=decode,
        epochs=epochs,
    )
    if not (options.merge or is_tail):
        return reader
    from kcli.consumer.merged_reader import WAIT_MS, MergedReader

    return MergedReader(reader, client.clock, wait_ms=WAIT_MS if options.merge else 0.0)
