"""`kcli spark load`: write exported files to a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.spark.metrics_file import Metrics, MetricsFile
from kcli.cli.spark.options import Cluster
from kcli.errors import ConfigError, KcliError, NotFound
from kcli.text import format_count, is_topic_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.cli.output.report import Item
    from kcli.spark.pipelines.files.load import Load, PartitionPlan
    from kcli.spark.pipelines.source import KafkaSource

COLUMNS = ["partition", "records", "start", "end", "status"]


class LoadOptions(NamedTuple):
    """The format of the files, and the records to load."""

    format: Annotated[
        str, Option("--format", metavar="FORMAT", help="Read parquet, orc, json, csv, or another format of Spark.")
    ] = "parquet"
    value: Annotated[
        str | None,
        Option("--value", metavar="raw|string", help="The --value of the export, for json and csv. [string]"),
    ] = None
    partitions: Annotated[
        str,
        Option("--partitions", metavar="keep|by-key", help="Keep the partitions, or let the keys decide, as in Java."),
    ] = "keep"
    from_topic: Annotated[
        str | None, Option("--from-topic", metavar="NAME", help="Load only the records of this topic in the files.")
    ] = None
    append: Annotated[bool, Option("--append", help="Write to a topic that has records.")] = False
    resume: Annotated[bool, Option("--resume", help="Continue a load of the same files that was interrupted.")] = False

    def load(self, path: str, target: KafkaSource) -> Load:
        """Return the load of the files in a folder. ConfigError for options that exclude each other."""
        from kcli.spark.pipelines.files.load import TEXT_FORMATS, Load, check_load

        format = self.format.lower() if self.format.lower() in TEXT_FORMATS else self.format
        if self.value is not None and format not in TEXT_FORMATS:
            raise ConfigError(f"--value is for --format json and csv; {format} has the type of the values")
        value = self.value or "string"
        check_load(value, self.partitions)
        if self.append and self.resume:
            raise ConfigError("--append and --resume cannot be combined")
        if self.resume and self.partitions != "keep":
            raise ConfigError("--resume requires --partitions keep: it counts the records of each partition")
        return Load(path, target, format, value, self.partitions, self.from_topic, self.append, self.resume)


def run(
    env: Environment,
    common: Common,
    cluster: Cluster,
    *,
    path: Annotated[str, Argument(metavar="DIR", help="Folder of the files.")],
    topic: Annotated[str, Option("--topic", "-t", metavar="TOPIC", help="Write to this topic; it must exist.")] = "",
    options: LoadOptions,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Read the files with Spark and show the plan; write nothing.")
    ] = False,
    metrics: Metrics = None,
) -> int:
    """Write exported files back to a topic: the inverse of `kcli spark export`.

    Keys, values, headers and timestamps are kept byte by byte, nulls and tombstones too, and the order and number of
    each partition. Offsets continue at the log end: they equal the old ones in an empty topic, if the files have no
    gaps. With --partitions by-key the partition is chosen by the key; records of a key keep their order.

    The files need the columns value, partition and offset. Parquet and ORC keep all bytes; json and csv do after
    `export --value raw`, to be given here too; without it, keys and values must have been UTF-8. Values that were
    exported as columns cannot be loaded. A record of more than 1 MiB needs -X max.request.size=BYTES.

    The topic must be empty, unless --append or --resume is given. A task that fails is repeated and continues after the
    records that are stored, so each record is stored once. An interrupted load leaves the records that it has stored:
    the same command with --resume stores the others. Both count the records of a partition, so no other producer may
    write to the topic meanwhile. With --partitions by-key, a repeated task stores its records again.
    """
    from kcli.spark.pipelines.source import KafkaSource

    if not topic:
        raise ConfigError("no topic to write to; use --topic TOPIC")
    if not is_topic_name(topic):
        raise ConfigError(f"topic '{topic}' is not valid; use letters, digits, '.', '_' and '-'")
    target = KafkaSource(kafka={**common.properties, **common.time_limit}, topics={topic: None})
    load = options.load(path, target)
    common.config()
    file = None if metrics is None else MetricsFile(env, metrics, "load")
    return _load(env, common, cluster, load, file, dry_run=dry_run)


def _load(
    env: Environment, common: Common, cluster: Cluster, load: Load, metrics: MetricsFile | None, *, dry_run: bool
) -> int:
    from kcli.cli.spark.session import spark_session

    settings: dict[str, str | None] = {}

    def preflight() -> None:
        settings.update(_target_settings(load.target, common.timeout_ms))
        if cluster.master.startswith("local"):
            _check_folder(load.path)

    with spark_session(env, common, cluster, preflight=preflight, metrics=metrics) as spark:
        return _run(env, common, spark, load, metrics, settings, dry_run=dry_run)


def _check_folder(path: str) -> None:
    from kcli.spark.stream_checkpoint import local_path

    folder = local_path(path)
    if folder is not None and not folder.exists():
        raise NotFound(f"{path} does not exist")


def _target_settings(target: KafkaSource, timeout_ms: float) -> dict[str, str | None]:
    """Return settings of the topic; none if they are not permitted to be seen. NotFound for a topic that does not
    exist.
    """
    from kcli.admin.configs import TOPIC, describe_configs
    from kcli.spark.broker_lookup import Lookup
    from kcli.spark.options import parse_options
    from kcli.spark.pipelines.files.load import SETTINGS
    from kcli.spark.pipelines.survey import survey

    survey(target)
    with Lookup(parse_options(target.options())) as lookup:
        deadline_ms = lookup.client.clock.now_ms() + timeout_ms
        found = describe_configs(lookup.client, TOPIC, target.topics, deadline_ms, keys=SETTINGS).values
    return {setting.name: setting.value for settings in found.values() for setting in settings}


def _run(
    env: Environment,
    common: Common,
    spark: SparkSession,
    load: Load,
    metrics: MetricsFile | None,
    settings: Mapping[str, str | None],
    *,
    dry_run: bool,
) -> int:
    from kcli.cli.run_plan import showing_outcome
    from kcli.spark.pipelines.files.load import (
        outcome,
        plan_load,
        read_files,
        survey_files,
        target_bounds,
        topic_notes,
        write_load,
    )

    frame = read_files(spark, load)
    files = survey_files(frame)
    plan, errors = plan_load(load, files, target_bounds(spark, load.target))
    if errors:
        for error in errors[1:]:
            env.report(str(error))
        raise errors[0]
    for note in topic_notes(load.topic, settings, files, env.clock.wall_ms()):
        env.report(note)
    if dry_run:
        _show(env, common, [_item(part, "would-be-written") for part in plan])
        records = sum(part.records - part.stored for part in plan)
        env.report(f"{records:,} records would be written to {load.topic}; nothing was written")
        return exit_status.DONE
    write_load(spark, frame, load, plan)
    rows = outcome(load, plan, target_bounds(spark, load.target))
    written = sum(part.records - part.stored for part, _, error in rows if error is None)
    with showing_outcome(env, f"{format_count(written, 'record')} written to {load.topic}"):
        _show(
            env,
            common,
            [_item(part, "written" if error is None else "failed", end, error) for part, end, error in rows],
        )
    status = exit_status.status_of_all(error for _, _, error in rows)
    if metrics is not None and status == exit_status.DONE:
        metrics.written(sum(part.records - part.stored for part in plan))
    return status


def _item(plan: PartitionPlan, status: str, end: int = -1, error: KcliError | None = None) -> Item:
    from kcli.cli.output.report import error_field

    item: dict[str, Any] = {
        "partition": plan.partition,
        "records": plan.records,
        "start": None if plan.start < 0 else plan.start,
        "end": None if plan.start < 0 or end < 0 else end,
        "status": status,
        "already_stored": plan.stored,
    }
    if error is not None:
        item["error"] = error_field(error)
    return item


def _show(env: Environment, common: Common, items: list[Item]) -> None:
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report

    print_report(env, Report("spark.load", COLUMNS, items), common.output)
