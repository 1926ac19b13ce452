"""Reading of one task: a range of one partition, with `PartitionReader`, as Arrow record batches.

Connections outlive a task: Spark reuses its workers, so the next task in the process does not connect again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, LogTruncated, OffsetOutOfRange, TimeoutExpired
from kcli.spark.loss import decide_end, decide_gone, decide_skipped, timeout_error
from kcli.spark.record_schema import record_columns
from kcli.spark.task_ranges import TaskRange
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.coverage import PartitionCoverage
    from kcli.consumer.fetch_buffer import Decode
    from kcli.consumer.partition_reader import PartitionReader
    from kcli.spark.options import SourceOptions
    from kcli.structs import Node


def read_records(options: SourceOptions, task: TaskRange) -> Iterator[Any]:
    """Yield the records of `task` as record batches; errors are those of `read_columns`."""
    from kcli.spark.arrow import Batcher

    columns = record_columns(include_headers=options.include_headers, names=options.columns)
    batcher = Batcher(task.tp, columns, batch_rows=options.batch_rows, batch_bytes=options.batch_bytes)
    remaining = options.row_limit_per_partition
    with closing(read_columns(options, task)) as chunks:
        for records in chunks:
            if remaining is not None:
                records = records.take(slice(0, remaining))
                remaining -= len(records)
            yield from batcher.batches(records)
            if remaining == 0:
                return


def read_columns(
    options: SourceOptions,
    task: TaskRange,
    decode: Decode | None = None,
    on_coverage: Callable[[PartitionCoverage], object] = lambda _: None,
) -> Generator[Any, None, None]:
    """Yield the decoded range, in columns made by `decode` (None: RecordColumns).

    `on_coverage` is called with the coverage before each of them, and at the end. DataLoss if records are missing and
    failOnDataLoss is true, otherwise a report on stderr; TimeoutExpired if nothing arrived for
    `kafkaConsumer.pollTimeoutMs`; other errors that end the read early.
    """
    from kcli.consumer.partition_reader import PartitionReader

    config = task_config(options)
    with (
        borrowed_client(config, task.tp) as client,
        closing(PartitionReader(config, task.tp, task.start, task.end, client, decode=decode)) as reader,
    ):
        yield from _checked(options, task, reader, client, on_coverage)


def _checked(
    options: SourceOptions,
    task: TaskRange,
    reader: PartitionReader,
    client: ConsumerNetworkClient,
    on_coverage: Callable[[PartitionCoverage], object],
) -> Iterator[Any]:
    """Yield the columns of the reader, and check its coverage for data loss."""
    fail, reported = options.fail_on_data_loss, 0
    chunks, stopped = iter(reader), None
    while True:
        try:
            columns = next(chunks, None)
        except KcliError as error:
            columns, stopped = None, error
        covered = reader.coverage()
        log_reports(check_lost(task, covered.lost[reported:], fail=fail))
        reported = len(covered.lost)
        on_coverage(covered)
        if columns is None:
            break
        yield columns
    is_unexplained = covered.error is None and (covered.start < 0 or covered.open)
    if is_unexplained:  # the coverage does not have the error that ended the read
        covered = covered._replace(error=stopped)
    if covered.error is not None or covered.position < task.end:
        leader = client.metadata.leader(task.tp).node
        log_reports(check_end(task, covered, fail=fail, waited_ms=options.poll_timeout_ms, leader=leader))


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
        print(f"kcli: {report}", file=sys.stderr, flush=True)


_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def check_lost(task: TaskRange, lost: tuple[tuple[int, int], ...], *, fail: bool) -> list[str]:
    """Return reports of offsets that were deleted before they were read; DataLoss if `fail`."""
    decisions = [decide_skipped(task.tp, first, log_start, log_start, task.end, fail=fail) for first, log_start in lost]
    return [it.report for it in decisions if it.report is not None]


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
def borrowed_client(config: ConsumerConfig, tp: TopicPartition) -> Iterator[ConsumerNetworkClient]:
    """A client for reading `tp`: kept for the next task after success, closed otherwise.

    TimeoutExpired if it is a kept one and no broker answers within default.api.timeout.ms.
    """
    from kcli.client.connect import connect

    key = os.getpid(), frozenset(config.given.items())
    idle_client = _idle.pop(key, None)
    client = idle_client or connect(config)
    try:
        if idle_client is not None:
            _refresh_metadata(idle_client, tp, config.default_api_timeout_ms)
        yield client
    except BaseException:  # also if the reader is closed early: a response may be in flight
        client.close()
        raise
    if key in _idle or len(_idle) >= _MAX_IDLE:
        client.close()
    else:
        _idle[key] = client


def _refresh_metadata(client: ConsumerNetworkClient, tp: TopicPartition, timeout_ms: float) -> None:
    """Refresh the metadata: the topic may have been deleted and created again since."""
    metadata = client.metadata
    metadata.drop_topics([topic for topic in metadata.requested_topics if topic != tp.topic])
    metadata.add_topics([tp.topic])
    client.ensure_fresh_metadata(client.clock.now_ms() + timeout_ms)
