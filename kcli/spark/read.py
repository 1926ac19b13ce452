"""What runs in a task: one range of one partition, read by `PartitionReader`, as Arrow record batches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from kcli.spark.columns import record_columns
from kcli.spark.plan import TaskRange

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.spark.options import SourceOptions


def read_task(options: SourceOptions, value: tuple[Any, ...] | None) -> Iterator[Any]:
    """The record batches of one task. `value` is what planning put into its InputPartition; None: no range."""
    from kcli.spark.views import VIEWS

    task = None if value is None else TaskRange(*value)
    view = VIEWS.get(options.view)
    if view is not None:
        return iter(()) if view.ranged and task is None else view.read(options, task)
    return iter(()) if task is None else read_records(options, task)


def task_config(options: SourceOptions) -> ConsumerConfig:
    """The client's configuration in a task: `kafkaConsumer.pollTimeoutMs` is how long nothing may arrive."""
    from kcli.spark.options import client_config

    return client_config(options).changed({"default.api.timeout.ms": options.poll_timeout_ms})


def read_records(options: SourceOptions, task: TaskRange) -> Iterator[Any]:
    """The records of `task`; DataLoss, TimeoutExpired or what else stopped it before its end."""
    from kcli.consumer.partition_reader import PartitionReader
    from kcli.spark.arrow import Batcher
    from kcli.spark.connections import borrowed

    config = task_config(options)
    columns = record_columns(include_headers=options.include_headers, names=options.columns)
    batcher = Batcher(task.tp, columns, batch_rows=options.batch_rows, batch_bytes=options.batch_bytes)
    left = options.row_limit_per_partition
    with borrowed(config, task.tp) as client, closing(PartitionReader(config, *task_ends(task), client)) as reader:
        for records in reader:
            if left is not None:
                records = records.take(slice(0, left))
                left -= len(records)
            yield from batcher.batches(records)
            if left == 0:
                return


def task_ends(task: TaskRange) -> tuple[Any, int, int]:
    """Partition, start and end."""
    return task.tp, task.start, task.end


def tell(reports: list[str]) -> None:
    """What was passed over, a line each, where Spark keeps the standard error of its processes."""
    for report in reports:
        print(f"kcli: {report}", file=sys.stderr, flush=True)
