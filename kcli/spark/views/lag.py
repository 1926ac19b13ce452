"""The view `lag`: a row for each partition that a group has committed or owns, as `kcli group lag` counts it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kcli.spark.views.groups import failed_rows, named_groups
from kcli.spark.views.members import OWNER_COLUMNS, owner
from kcli.spark.views.table import TP_COLUMNS, View, client_of, table_of, told

if TYPE_CHECKING:
    import pyarrow

    from kcli.admin.groups.lag import PartitionLag
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.spark.options import SourceOptions
    from kcli.spark.task_ranges import TaskRange


def read(options: SourceOptions, _: TaskRange | None = None) -> Iterator[pyarrow.RecordBatch]:
    """All groups, or those named in the options; under read_committed the end is the last stable offset.

    Where several members of a share group read a partition, they are in one row, joined by commas.
    """
    from kcli.spark.client_options import client_config

    isolation_level = int(client_config(options.kafka).reads_committed)
    with client_of(options) as (client, deadline_ms):
        yield from table_of(LAG, options, _rows(client, options, deadline_ms, isolation_level))


LAG = View(
    "lag",
    (
        ("group", "string"),
        *TP_COLUMNS,
        ("committed", "bigint"),
        ("start", "bigint"),
        ("end", "bigint"),
        ("lag", "bigint"),
        ("committed_epoch", "int"),
        ("metadata", "string"),
        *OWNER_COLUMNS,
        ("error", "string"),
    ),
    ranged=False,
    read=read,
)


def _rows(
    client: ConsumerNetworkClient, options: SourceOptions, deadline_ms: float, isolation_level: int
) -> Iterator[dict[str, Any]]:
    from kcli.admin.groups.survey import survey_groups

    named = named_groups(client, options, deadline_ms)
    surveys = survey_groups(client, named.kinds, deadline_ms, isolation_level=isolation_level)
    for name, survey in surveys.values.items():
        for lag in survey.partitions:
            yield _row(lag)
        if survey.error is not None:
            yield {"group": name, "error": told(survey.error)}
    yield from failed_rows(named, surveys.errors)


def _row(lag: PartitionLag) -> dict[str, Any]:
    committed = lag.committed
    return {
        "group": lag.group,
        "topic": lag.tp.topic,
        "partition": lag.tp.partition,
        "committed": None if committed is None else committed.offset,
        "start": lag.start,
        "end": lag.end,
        "lag": lag.lag,
        "committed_epoch": None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch,
        "metadata": None if committed is None else committed.metadata,
        **owner(lag.members),
        "error": told(lag.error),
    }
