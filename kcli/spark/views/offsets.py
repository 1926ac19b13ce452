"""The view `offsets`: a row for each partition of the selected topics, with log bounds, leader and replicas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcli.spark.views.table import TP_COLUMNS, View, error_text, table_of

if TYPE_CHECKING:
    import pyarrow

    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.errors import KcliError
    from kcli.spark.options import SourceOptions
    from kcli.spark.task_ranges import TaskRange
    from kcli.structs import TopicPartition


def read(options: SourceOptions, _: Sequence[TaskRange] = ()) -> Iterator[pyarrow.RecordBatch]:
    """Yield the partitions; without a selection, those of all visible topics except internal ones.

    `latest` is the high watermark. Values that a leader does not return are null, and `error` has the reason. NotFound
    for named topics or partitions that do not exist.
    """
    from kcli.spark.broker_lookup import Lookup
    from kcli.spark.selection import check_exists

    with Lookup(options) as lookup:
        partitions = lookup.partitions()
        check_exists(options.selection, partitions)
        deadline_ms = lookup.client.clock.now_ms() + options.poll_timeout_ms
        yield from table_of(OFFSETS, options, _rows(lookup.client, partitions, deadline_ms))


OFFSETS = View(
    "offsets",
    (
        *TP_COLUMNS,
        ("earliest", "bigint"),
        ("latest", "bigint"),
        ("last_stable_offset", "bigint"),
        ("leader", "int"),
        ("leader_epoch", "int"),
        ("replicas", "array<int>"),
        ("isr", "array<int>"),
        ("error", "string"),
    ),
    ranged=False,
    read=read,
)


def _rows(
    client: ConsumerNetworkClient, partitions: set[TopicPartition], deadline_ms: float
) -> Iterator[dict[str, Any]]:
    from kcli.admin.logs.log_bounds import log_bounds

    bounds = log_bounds(client, partitions, deadline_ms)
    stable = log_bounds(client, partitions, deadline_ms, isolation_level=1).ends
    cluster = client.metadata.cluster
    for tp in sorted(partitions):
        topic = cluster.topics.get(tp.topic)
        info = None if topic is None else topic.partitions.get(tp.partition)
        yield {
            "topic": tp.topic,
            "partition": tp.partition,
            "earliest": _number(bounds.starts, tp),
            "latest": _number(bounds.ends, tp),
            "last_stable_offset": _number(stable, tp),
            "leader": None if info is None or info.leader < 0 else info.leader,
            "leader_epoch": None if info is None or info.epoch < 0 else info.epoch,
            "replicas": None if info is None else list(info.replicas),
            "isr": None if info is None else list(info.isr),
            "error": _first_error(tp, bounds.ends, bounds.starts, stable),
        }


def _number(result: Mapping[TopicPartition, int | KcliError], tp: TopicPartition) -> int | None:
    value = result.get(tp)
    return value if isinstance(value, int) else None


def _first_error(tp: TopicPartition, *result: Mapping[TopicPartition, int | KcliError]) -> str | None:
    errors = [value for value in (its.get(tp) for its in result) if value is not None and not isinstance(value, int)]
    return error_text(errors[0]) if errors else None
