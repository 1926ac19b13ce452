"""Reading of one task: ranges of one or several partitions, with `RangeReader`, as Arrow record batches.

Connections outlive a task: Spark reuses its workers, so the next task in the process does not connect again. Modules
do, too: `freeze_modules` spares PySpark's worker from looking through their objects after each task.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, LogTruncated, OffsetOutOfRange, TimeoutExpired
from kcli.spark.loss import decide_end, decide_gone, decide_skipped, timeout_error
from kcli.spark.task_ranges import TaskRange
from kcli.structs import TopicPartition
from kcli.visible import visible

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.coverage import PartitionCoverage
    from kcli.consumer.fetch_buffer import Decode
    from kcli.consumer.range_reader import RangeReader
    from kcli.spark.arrow import Batcher
    from kcli.spark.options import SourceOptions
    from kcli.structs import Node


def read_records(options: SourceOptions, ranges: Sequence[TaskRange]) -> Iterator[Any]:
    """Yield the records of the ranges as record batches; errors are those of `read_columns`."""
    batchers = {range_: _batcher(options, range_) for range_ in ranges}
    with closing(read_columns(options, ranges)) as chunks:
        for range_, records in chunks:
            yield from batchers[range_].batches(records)


def _batcher(options: SourceOptions, range_: TaskRange) -> Batcher:
    from kcli.spark.arrow import Batcher
    from kcli.spark.decoding.decode_plan import decoded_columns

    return Batcher(
        range_.tp,
        options.record_columns(),
        batch_rows=options.batch_rows,
        batch_bytes=options.batch_bytes,
        decoded=decoded_columns(options, range_.topic) if options.decodings else (),
    )


def read_columns(
    options: SourceOptions,
    ranges: Sequence[TaskRange],
    decode: Decode | None = None,
    on_coverage: Callable[[PartitionCoverage], object] = lambda _: None,
) -> Generator[tuple[TaskRange, Any], None, None]:
    """Yield the decoded records of each range, in columns made by `decode` (None: RecordColumns).

    Records of a range are in order; those of several ranges, of different partitions, arrive in turn. `on_coverage` is
    called with the coverage of a range before each of its columns, and at the end. DataLoss if records are missing and
    failOnDataLoss is true, otherwise a report on stderr; TimeoutExpired if nothing arrived for
    `kafkaConsumer.pollTimeoutMs`; other errors that end the read early.
    """
    from kcli.consumer.range_reader import RangeReader
    from kcli.consumer.read_range import ReadRange
    from kcli.log_place import Place

    config = task_config(options)
    asked = {range_.tp: ReadRange(Place.offset(range_.start), Place.offset(range_.end)) for range_ in ranges}
    with (
        borrowed_client(config, {range_.topic for range_ in ranges}) as client,
        closing(RangeReader(client, asked, config, decode=decode)) as reader,
    ):
        yield from _checked(options, ranges, reader, client, on_coverage)
    freeze_modules()


@cache
def freeze_modules() -> None:
    """Exclude all objects that exist now from Python's garbage collection. Later calls have no effect.

    PySpark's worker runs a full collection after each task. Nearly all objects that it looks through are
    functions and classes of PySpark, pandas, pyarrow, numpy and kcli, which stay until the process ends. At the end of
    the first task all of them are imported.
    """
    gc.freeze()


def _checked(
    options: SourceOptions,
    ranges: Sequence[TaskRange],
    reader: RangeReader,
    client: ConsumerNetworkClient,
    on_coverage: Callable[[PartitionCoverage], object],
) -> Iterator[tuple[TaskRange, Any]]:
    """Yield the columns of the reader, and check its coverage for data loss."""
    fail = options.fail_on_data_loss
    by_partition = {range_.tp: range_ for range_ in ranges}
    reported = dict.fromkeys(by_partition, 0)
    chunks, stopped = _polled(reader, client, options.poll_timeout_ms), None
    is_done = False
    while not is_done:
        read: Sequence[tuple[TopicPartition, Any]] = ()
        try:
            read = next(chunks, ())
        except KcliError as error:
            stopped = error
        is_done = not read
        covered = {part.tp: part for part in reader.coverage()}
        for tp, coverage in covered.items():
            log_reports(check_lost(by_partition[tp], coverage.lost[reported[tp] :], fail=fail))
            reported[tp] = len(coverage.lost)
        for tp, columns in read:
            on_coverage(covered[tp])
            yield by_partition[tp], columns
    for tp, coverage in covered.items():
        on_coverage(coverage)
        range_ = by_partition[tp]
        is_unexplained = coverage.error is None and (coverage.start < 0 or coverage.open)
        if is_unexplained:  # the coverage does not have the error that ended the read
            coverage = coverage._replace(error=stopped)
        if coverage.error is not None or coverage.position < range_.end:
            leader = client.metadata.leader(tp).node
            log_reports(check_end(range_, coverage, fail=fail, waited_ms=options.poll_timeout_ms, leader=leader))


def _polled(
    reader: RangeReader, client: ConsumerNetworkClient, timeout_ms: float
) -> Iterator[Sequence[tuple[TopicPartition, Any]]]:
    """Resolve the ranges, and yield what the polls of the reader return, without empty ones, until it is done."""
    reader.resolve(client.clock.now_ms() + timeout_ms)
    while not reader.done:
        read = reader.poll(_POLL_MS)
        if read:
            yield read


def task_config(options: SourceOptions) -> ConsumerConfig:
    """Return the client configuration of a task, in which `kafkaConsumer.pollTimeoutMs` is the timeout.

    Kafka's default receive buffer of 64 KiB holds almost nothing of the next response while one is decoded. The
    kernel's automatic buffer grows: the same records arrive in half to three quarters of the time.
    """
    from kcli.spark.client_options import client_config

    config = client_config(options.kafka)
    changes: dict[str, str | int] = {"default.api.timeout.ms": options.poll_timeout_ms}
    if "receive.buffer.bytes" not in config.given:
        changes["receive.buffer.bytes"] = -1
    return config.with_properties(changes)


def log_reports(reports: Iterable[str]) -> None:
    """Print one line per report to the standard error of the process, which Spark logs."""
    for report in reports:
        print(f"kcli: {visible(report)}", file=sys.stderr, flush=True)


_POLL_MS = 1_000.0
_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def check_lost(task: TaskRange, lost: tuple[tuple[int, int], ...], *, fail: bool) -> list[str]:
    """Return reports of offsets that were deleted before they were read; DataLoss if `fail`."""
    decisions = [decide_skipped(task.tp, first, log_start, log_start, task.end, fail=fail) for first, log_start in lost]
    return [decision.report for decision in decisions if decision.report is not None]


def check_end(
    task: TaskRange, covered: PartitionCoverage, *, fail: bool, waited_ms: int, leader: Node | None
) -> list[str]:
    """Return reports of a range that ended early, in addition to `check_lost`.

    DataLoss if `fail`; other errors are raised in both cases.
    """
    error = covered.error
    if isinstance(error, TimeoutExpired):
        raise _with_timeout(task, covered, error, waited_ms, leader) from error
    if isinstance(error, BrokerError) and error.code in _GONE:
        decision = decide_gone(task.tp, max(covered.position, task.start), fail=fail)
    elif error is not None and not isinstance(error, (OffsetOutOfRange, LogTruncated)):
        raise error
    else:
        decision = decide_end(task.tp, task.end, max(covered.position, task.start), fail=fail)
    return [] if decision.report is None else [f"{decision.report} ({covered.reason})"]


def _with_timeout(
    task: TaskRange, covered: PartitionCoverage, error: KcliError, waited_ms: int, leader: Node | None
) -> TimeoutExpired:
    timeout = timeout_error(task.tp, max(covered.position, task.start), task.end, waited_ms, leader)
    return TimeoutExpired(f"{timeout.message}: {error.message}", **timeout.evidence)


_MAX_IDLE = 4
# The key includes the process id: workers are forked, and a socket must not be shared with a child.
_idle: dict[tuple[int, frozenset[tuple[str, object]]], ConsumerNetworkClient] = {}


@contextmanager
def borrowed_client(config: ConsumerConfig, topics: Collection[str]) -> Iterator[ConsumerNetworkClient]:
    """A client for reading `topics`: kept for the next task after success, closed otherwise.

    TimeoutExpired if it is a kept one and no broker answers within default.api.timeout.ms.
    """
    from kcli.client.connect import connect

    key = os.getpid(), frozenset(config.given.items())
    idle_client = _idle.pop(key, None)
    client = idle_client or connect(config)
    try:
        if idle_client is not None:
            _refresh_metadata(idle_client, topics, config.default_api_timeout_ms)
        yield client
    except BaseException:  # also if the reader is closed early: a response may be in flight
        client.close()
        raise
    if key in _idle or len(_idle) >= _MAX_IDLE:
        client.close()
    else:
        _idle[key] = client


def _refresh_metadata(client: ConsumerNetworkClient, topics: Collection[str], timeout_ms: float) -> None:
    """Refresh the metadata: a topic may have been deleted and created again since."""
    metadata = client.metadata
    metadata.drop_topics([topic for topic in metadata.requested_topics if topic not in topics])
    metadata.add_topics(topics)
    client.ensure_fresh_metadata(client.clock.now_ms() + timeout_ms)
