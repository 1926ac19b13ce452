"""The view `lag`: a row for each partition that a group has committed or owns, with the lag of `kcli group lag`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kcli.spark.views.groups import failed_rows, select_groups
from kcli.spark.views.members import OWNER_COLUMNS, owner
from kcli.spark.views.table import TP_COLUMNS, View, client_of, error_text, table_of

if TYPE_CHECKING:
    import pyarrow

    from kcli.admin.groups.lag import PartitionLag
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.spark.options import SourceOptions
    from kcli.spark.task_ranges import TaskRange


def read(options: SourceOptions, _: Sequence[TaskRange] = ()) -> Iterator[pyarrow.RecordBatch]:
    """Yield the lag of all groups, or of those in the options; under read_committed the end is the last stable offset.

    If several members of a share group read a partition, they are in one row, separated by commas.
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

    selected = select_groups(client, options, deadline_ms)
    surveys = survey_groups(client, selected.types, deadline_ms, isolation_level=isolation_level)
    for name, survey in surveys.values.items():
        for lag in survey.partitions:
            yield _row(lag)
        if survey.error is not None:
            yield {"group": name, "error": error_text(survey.error)}
    yield from failed_rows(selected, surveys.errors)


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
        "error": error_text(lag.error),
    }
