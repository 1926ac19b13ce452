"""What runs in a task: one range of one partition, read by `PartitionReader`, as Arrow record batches."""

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
    from kcli.consumer.delivery import Decode
    from kcli.consumer.partition_reader import PartitionReader
    from kcli.spark.options import SourceOptions
    from kcli.structs import Node


def read_records(options: SourceOptions, task: TaskRange) -> Iterator[Any]:
    """The records of `task`; errors are those of `read_columns`."""
    from kcli.spark.arrow import Batcher

    columns = record_columns(include_headers=options.include_headers, names=options.columns)
    batcher = Batcher(task.tp, columns, batch_rows=options.batch_rows, batch_bytes=options.batch_bytes)
    left = options.row_limit_per_partition
    with closing(read_columns(options, task)) as chunks:
        for records in chunks:
            if left is not None:
                records = records.take(slice(0, left))
                left -= len(records)
            yield from batcher.batches(records)
            if left == 0:
                return


def read_columns(
    options: SourceOptions,
    task: TaskRange,
    decode: Decode | None = None,
    covering: Callable[[PartitionCoverage], object] = lambda _: None,
) -> Generator[Any, None, None]:
    """What lies in the range, in columns as `decode` makes them (None: RecordColumns). `covering` is told how far it is
    before each of them, and at the end.

    DataLoss if some of it is gone and failOnDataLoss is true, else a report; TimeoutExpired when nothing came for
    `kafkaConsumer.pollTimeoutMs`; and whatever else stopped it before its end.
    """
    from kcli.consumer.partition_reader import PartitionReader

    config = task_config(options)
    with (
        borrowed(config, task.tp) as client,
        closing(PartitionReader(config, task.tp, task.start, task.end, client, decode=decode)) as reader,
    ):
        yield from _watched(options, task, reader, client, covering)


def _watched(
    options: SourceOptions,
    task: TaskRange,
    reader: PartitionReader,
    client: ConsumerNetworkClient,
    covering: Callable[[PartitionCoverage], object],
) -> Iterator[Any]:
    """What the reader brings, while nothing is lost that may not be."""
    fail, told = options.fail_on_data_loss, 0
    chunks, stopped = iter(reader), None
    while True:
        try:
            columns = next(chunks, None)
        except KcliError as error:
            columns, stopped = None, error
        covered = reader.coverage()
        tell(judge_lost(task, covered.lost[told:], fail=fail))
        told = len(covered.lost)
        covering(covered)
        if columns is None:
            break
        yield columns
    if covered.error is None and (covered.start < 0 or covered.open):  # what stopped it is not in the account
        covered = covered._replace(error=stopped)
    if covered.error is not None or covered.position < task.end:
        leader = client.metadata.leader(task.tp).node
        tell(judge_end(task, covered, fail=fail, waited_ms=options.poll_timeout_ms, leader=leader))


def task_config(options: SourceOptions) -> ConsumerConfig:
    """The client's configuration in a task: `kafkaConsumer.pollTimeoutMs` is how long nothing may arrive.

    Kafka's default receive buffer of 64 KiB holds next to nothing of the next response while one is decoded. The
    kernel's own grows with the reading: the same records then arrive in half to three quarters of the time.
    """
    from kcli.spark.client_options import client_config

    config = client_config(options.kafka)
    changes: dict[str, str | int] = {"default.api.timeout.ms": options.poll_timeout_ms}
    if "receive.buffer.bytes" not in config.given:
        changes["receive.buffer.bytes"] = -1
    return config.with_properties(changes)


def tell(reports: Iterable[str]) -> None:
    """A line each to where Spark keeps the standard error of its processes."""
    for report in reports:
        print(f"kcli: {report}", file=sys.stderr, flush=True)


_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def judge_lost(task: TaskRange, lost: tuple[tuple[int, int], ...], *, fail: bool) -> list[str]:
    """What to tell of the offsets that were deleted before they were read; DataLoss if that is to `fail`."""
    decisions = [decide_skipped(task.tp, first, behind, behind, task.end, fail=fail) for first, behind in lost]
    return [it.report for it in decisions if it.report is not None]


def judge_end(
    task: TaskRange, covered: PartitionCoverage, *, fail: bool, waited_ms: int, leader: Node | None
) -> list[str]:
    """What to tell of a range that ended before its end, beside `judge_lost`.

    DataLoss if that is to `fail`; what is no loss but an error ends the task either way.
    """
    error = covered.error
    if isinstance(error, TimeoutExpired):
        raise _in_time(task, covered, error, waited_ms, leader) from error
    if isinstance(error, BrokerError) and error.code in _GONE:
        decision = decide_gone(task.tp, max(covered.position, task.start), fail=fail)
    elif error is not None and not isinstance(error, (OffsetOutOfRange, LogTruncated)):
        raise error
    else:
        decision = decide_end(task.tp, task.end, max(covered.position, task.start), fail=fail)
    return [] if decision.report is None else [f"{decision.report} ({covered.reason})"]


def _in_time(
    task: TaskRange, covered: PartitionCoverage, error: KcliError, waited_ms: int, leader: Node | None
) -> TimeoutExpired:
    told = timeout_error(task.tp, max(covered.position, task.start), task.end, waited_ms, leader)
    return TimeoutExpired(f"{told.message}: {error.message}", **told.evidence)


_MOST_IDLE = 4
# By process, too: workers are forked, and a socket must not be shared with a child.
_idle: dict[tuple[int, frozenset[tuple[str, object]]], ConsumerNetworkClient] = {}


@contextmanager
def borrowed(config: ConsumerConfig, tp: TopicPartition) -> Iterator[ConsumerNetworkClient]:
    """A client to read `tp` with; kept for the next task if this one ends well, closed otherwise.

    TimeoutExpired when it is a used one and no broker answers it within default.api.timeout.ms.
    """
    from kcli.client.connect import connect

    key = os.getpid(), frozenset(config.given.items())
    used = _idle.pop(key, None)
    client = used or connect(config)
    try:
        if used is not None:
            _refresh(used, tp, config.default_api_timeout_ms)
        yield client
    except BaseException:  # a reader that is left early, too: an answer may be on its way that nobody wants
        client.close()
        raise
    if key in _idle or len(_idle) >= _MOST_IDLE:
        client.close()
    else:
        _idle[key] = client


def _refresh(client: ConsumerNetworkClient, tp: TopicPartition, timeout_ms: float) -> None:
    """The topic may have been deleted and made anew since: what is known of it is no evidence."""
    metadata = client.metadata
    metadata.drop_topics([topic for topic in metadata.wanted if topic != tp.topic])
    metadata.add_topics([tp.topic])
    client.ensure_fresh_metadata(client.clock.now_ms() + timeout_ms)
