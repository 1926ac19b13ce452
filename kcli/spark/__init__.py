"""Kafka as a data source of Apache Spark, in PySpark, without a connector jar.

`register(spark)` adds the format "kcli" to a session. From then on `spark.read.format("kcli")` and
`spark.readStream.format("kcli")` take the options of spark-sql-kafka-0-10 and the additional ones in `option_table`,
and `df.write.format("kcli")` and `df.writeStream.format("kcli")` write records (`sink`).

Steps of a read:

- `options` parses the options of one `load()` into `SourceOptions` (plain data that pickles).
- `source.KcliDataSource` is the entry point that Spark calls; `stream.StreamReader` is its streaming counterpart.
- `batch_plan` and `stream_plan` turn options into `TaskRange`s. They ask brokers through `broker_lookup.Lookup` only,
  on the driver (for streams: in Spark's planner process); `loss` decides what missing offsets mean; `pushdown` prunes
  ranges.
- `task_ranges` distributes them over tasks. `task` reads those of one task in a worker with the `RangeReader` of
  `kcli consume`, and `arrow` converts the decoded columns to record batches. `views` are the other tables: batches,
  gaps, offsets, groups, members, lag, commits.
- `sink_options` checks options and columns of a write, and `sink` sends the rows of a task with `kcli.producer`.
- `commit_listener` and `group_commits` commit the position of a stream to a consumer group.
- `query_progress` computes the metrics of sources, as offsets behind, from the progress of a query.
- `deploy` starts Spark for `kcli spark` and brings kcli to its machines; `pipelines` are the computations.

Processes and threads: planning runs on the driver or in the planner process, tasks run in forked Python workers. The
only threads are one committing thread per committed source (`group_commits`) and a short-lived one in `close_session`.

**Non-obvious**

- Options travel to every task, as those of Spark's Kafka connector do. `env:` and `file:` keep passwords out of them:
  they are resolved in the process that connects. Spark redacts those that are given (`client_options.hide_passwords`).
- Unlike the connector's, a task reads several ranges if there are many small ones: Spark needs more than 10 ms for a
  task (`task_ranges.group_ranges`). `minPartitions` keeps the number of tasks.
- PySpark's worker collects garbage after each task; `task.freeze_modules` makes that cheap.
- Idle connections are kept per worker process (`task.borrowed_client`): Spark reuses workers, and a forked child must
  not share the socket of its parent.
- A source's own `commit` is called one batch late and never for the last batch, so groups are committed by a query
  listener instead.
- `pyspark_kcli`, by which Spark finds the source without `register`, is a module beside the package, because Spark
  imports top-level modules only.
- pyspark, pyarrow and numpy are imported inside functions wherever a command can fail early or only plans.

Tests: `test_options` tests all options, `test_arrow` the columns, `test_jvm_*` run in a shared JVM and `test_own_jvm_*`
in one of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.spark.source import KcliDataSource as KcliDataSource

__all__ = ["KcliDataSource", "commit_to_group", "register", "source_metrics"]


def register(spark: SparkSession, *, carry: bool = False) -> None:
    """Register the format "kcli" in a session, for reading and writing. Repeated calls have no effect.

    `carry`: the source carries kcli to the machines of Spark, which need not have it. It always does so if kcli runs
    from the archive of `kcli spark archive`.

    From then on the stream option `commitGroup` works, except over Spark Connect; use `commit_to_group` there.
    Passwords among the options are redacted in plans of this session.
    """
    from kcli.spark.client_options import hide_passwords
    from kcli.spark.commit_listener import follow_option
    from kcli.spark.deploy.ship import is_archived, register_inline
    from kcli.spark.source import KcliDataSource

    if carry or is_archived():
        register_inline(spark)
    else:
        spark.dataSource.register(KcliDataSource)
    follow_option(spark)
    hide_passwords(spark)


def __getattr__(name: str) -> Any:
    """Import the public names on first use, because they need PySpark and pyarrow."""
    if name == "KcliDataSource":
        from kcli.spark.source import KcliDataSource

        return KcliDataSource
    if name == "commit_to_group":
        from kcli.spark.commit_listener import commit_to_group

        return commit_to_group
    if name == "source_metrics":
        from kcli.spark.query_progress import source_metrics

        return source_metrics
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
