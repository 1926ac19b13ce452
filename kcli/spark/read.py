"""What runs in a task: one range of one partition, read by `PartitionReader`, as Arrow record batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from kcli.errors import KcliError
from kcli.spark.columns import record_columns
from kcli.spark.splitting import TaskRange
from kcli.spark.task_loss import judge_end, judge_lost

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.coverage import PartitionCoverage
    from kcli.consumer.delivery import Decode
    from kcli.consumer.partition_reader import PartitionReader
    from kcli.spark.options import SourceOptions


def read_task(options: SourceOptions, value: tuple[Any, ...] | None) -> Iterator[Any]:
    """The record batches of one task. `value` is what planning put into its InputPartition; None: no range."""
    from kcli.spark.views import VIEWS

    task = None if value is None else TaskRange(*value)
    view = VIEWS.get(options.view)
    if view is not None:
        return iter(()) if view.ranged and task is None else view.read(options, task)
    return iter(()) if task is None else read_records(options, task)


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
    from kcli.spark.connections import borrowed

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
    from kcli.spark.options import client_config

    config = client_config(options)
    changes: dict[str, str | int] = {"default.api.timeout.ms": options.poll_timeout_ms}
    if "receive.buffer.bytes" not in config.given:
        changes["receive.buffer.bytes"] = -1
    return config.changed(changes)


def tell(reports: Iterable[str]) -> None:
    """A line each to where Spark keeps the standard error of its processes."""
    for report in reports:
        print(f"kcli: {report}", file=sys.stderr, flush=True)
