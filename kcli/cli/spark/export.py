"""`kcli spark export`: write topics to files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import RegistryOption, check_choice
from kcli.cli.parser import Option
from kcli.cli.spark.metrics_file import Metrics, MetricsFile
from kcli.cli.spark.options import Job, Topics
from kcli.errors import ConfigError
from kcli.text import format_count, parse_duration_option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.spark.pipelines.files.export import Export, ExportResult
    from kcli.spark.pipelines.source import KafkaSource
    from kcli.spark.pipelines.survey import Survey


class ExportOptions(NamedTuple):
    """The options of the command."""

    to: Annotated[str, Option("--to", metavar="DIR", help="Write the files to this folder.")] = ""
    format: Annotated[
        str, Option("--format", metavar="FORMAT", help="Write parquet, orc, json, csv, or another format of Spark.")
    ] = "parquet"
    once: Annotated[bool, Option("--once", help="Write new records since the last run, then exit.")] = False
    follow: Annotated[bool, Option("--follow", help="Write new records continuously, until Ctrl-C.")] = False
    every: Annotated[
        str | None, Option("--every", metavar="DURATION", help="Write a --follow batch this often. [5s]")
    ] = None
    checkpoint: Annotated[
        str | None,
        Option("--checkpoint", metavar="DIR", help="Keep the position of --once and --follow here. [DIR/_checkpoint]"),
    ] = None
    columns: Annotated[
        str | None, Option("--columns", metavar="NAME,...", help="Write only these columns, such as key,value,offset.")
    ] = None
    value: Annotated[
        str | None,
        Option(
            "--value",
            metavar="FORMAT",
            help="Write values as raw, string, json[:DDL], avro, protobuf or json-schema. [by format]",
        ),
    ] = None
    flatten: Annotated[bool, Option("--flatten", help="Write the fields of decoded values as columns.")] = False
    fields: Annotated[
        str | None, Option("--fields", metavar="PATH[=NAME],...", help="Write only these fields as columns.")
    ] = None
    partition_by: Annotated[
        list[str] | None,
        Option("--partition-by", metavar="NAME,...", help="Make folders of columns, dt and hour in UTC, value.FIELD."),
    ] = None
    compression: Annotated[
        str | None,
        Option("--compression", metavar="CODEC", help="Compress with zstd, gzip, snappy, none or others. [by format]"),
    ] = None
    mode: Annotated[
        str | None,
        Option("--mode", metavar="error|append|overwrite|ignore", help="Do this if the folder exists. [error]"),
    ] = None
    files: Annotated[
        int | None, Option("--files", metavar="N", min=1, help="Write about N files per batch. [as partitions]")
    ] = None
    target_file_size: Annotated[
        str | None, Option("--target-file-size", metavar="SIZE", help="Write files of about this size, like 128MB.")
    ] = None
    dedup: Annotated[
        str | None,
        Option("--dedup", metavar="key|key,value", help="Write the newest record of each key, or equal records once."),
    ] = None
    dead_letter: Annotated[
        str | None,
        Option("--dead-letter", metavar="DIR", help="Write records whose values do not decode to this folder."),
    ] = None
    schema_registry: RegistryOption = None
    commit_group: Annotated[
        str | None, Option("--commit-group", metavar="GROUP", help="Commit the position to this group.")
    ] = None
    metrics: Metrics = None

    @property
    def is_stream(self) -> bool:
        return self.once or self.follow


def run(
    env: Environment,
    job: Job,
    *,
    topic: Topics = None,
    options: ExportOptions,
) -> int:
    """Write topics to files.

    Columns are key, value, topic, partition, offset, timestamp, timestampType and headers; if named, also key_size,
    value_size, headers_size, leader_epoch, producer_id, producer_epoch, sequence, base_offset, compression and
    is_transactional. --value json infers the columns of the values from the first records, and does not write fields
    that only later records have; json:DDL sets them, for example 'json:id BIGINT, name STRING'. A value that does not
    match becomes null, with its text in value_error.

    --value avro, protobuf and json-schema have the columns of the newest schema of TOPIC-value in the schema registry
    (--option value.subject, value.schema.version and value.schema.file choose another); records of older schemas are
    resolved to it. A value that does not decode becomes null, with the reason in value_error and its bytes in
    value_raw.

    --flatten makes a column of each field; a nested field a.b is called a_b, a name that a record has already gets the
    prefix value_. --fields id,note.by=author chooses fields and names. --partition-by value.country makes folders of a
    field; with --value raw or string, of a field of JSON text. Null and an empty text have the same folder, which is
    read as null, and readers may take 007 for a number; without --flatten, the column value has the field as it was.
    --dead-letter writes records that do not decode to a folder of their own, unchanged, as Parquet, with the reason in
    a column error; spark load can write them back.

    --dedup key writes the newest record of each key, as compaction keeps it, and all records without a key; key,value
    writes the first of equal records. --target-file-size measures a sample of the rows; the files of each batch of
    --follow are as small as the batch, see kcli spark compact.

    Where keys and values are written as text (by default in csv, json and text), invalid UTF-8 becomes U+FFFD; not_utf8
    counts these records. --value raw keeps the bytes, as base64 in csv, json and text; json always writes header values
    as base64. In csv, null is an empty field and an empty text is "".

    Without --once or --follow, the present records are written once. --once and --follow keep their position in the
    checkpoint and write each record exactly once, even if interrupted; --from applies to their first start. Ctrl-C
    exits with status 130, and the next run continues.
    """
    job.common.name_registry(options.schema_registry)
    return export(job, job.source(topic, stream=options.is_stream), options)


EVERY_S = 5.0
"""Spark's own default is no pause, which polls the brokers continuously."""


_REPORT_EVERY_MS = 60_000


def parse_export(options: ExportOptions) -> Export:
    """Return the export of the options. ConfigError for malformed options, and for options that exclude each other."""
    from kcli.spark.pipelines.files.dedup import parse_dedup
    from kcli.spark.pipelines.files.export import MODES, Export
    from kcli.spark.pipelines.files.file_size import parse_size
    from kcli.spark.pipelines.files.shape import FILES, parse_shape

    if not options.to:
        raise ConfigError("no output folder; use --to DIR")
    for name in ("format", "value", "compression", "checkpoint", "commit_group", "dead_letter", "metrics"):
        given = getattr(options, name)
        if given is not None and not given.strip():
            raise ConfigError(f"--{name.replace('_', '-')} must not be empty")
    if options.once and options.follow:
        raise ConfigError("--once and --follow cannot be combined")
    for given, name in ((options.checkpoint, "--checkpoint"), (options.commit_group, "--commit-group")):
        if given is not None and not options.is_stream:
            raise ConfigError(f"{name} requires --once or --follow")
    if options.every is not None and not options.follow:
        raise ConfigError("--every requires --follow")
    if options.mode is not None and options.is_stream:
        raise ConfigError("--mode cannot be combined with --once or --follow, which always append")
    if options.mode is not None:
        check_choice("--mode", options.mode, MODES)
    is_known = options.format.lower() in FILES
    format_name = options.format.lower() if is_known else options.format  # others may be names of classes
    shape = parse_shape(
        format_name,
        options.columns,
        options.value,
        options.partition_by or (),
        flatten=options.flatten,
        fields=options.fields,
        dead_letter=options.dead_letter is not None,
    )
    if options.files is not None and options.target_file_size is not None:
        raise ConfigError("--files and --target-file-size cannot be combined")
    if options.dedup is not None and options.is_stream:
        raise ConfigError("--dedup cannot be combined with --once or --follow: a later batch may repeat a record")
    if shape.value == "json" and shape.schema is None and options.is_stream:
        raise ConfigError("--once and --follow require --value json:DDL, so that all runs write the same columns")
    return Export(
        options.to,
        shape,
        options.compression,
        options.mode or "error",
        options.files,
        options.checkpoint,
        options.commit_group,
        None if options.target_file_size is None else parse_size("--target-file-size", options.target_file_size),
        None if options.dedup is None else parse_dedup(options.dedup),
        options.dead_letter,
    )


def export(job: Job, source: KafkaSource, options: ExportOptions) -> int:
    """Run the export; return an exit status."""
    from kcli.cli.spark.dry_run import show_survey
    from kcli.cli.spark.session import spark_session
    from kcli.spark.pipelines.files.export_target import Unfinished, check_target

    target = parse_export(options)
    every_ms = EVERY_S * 1000 if options.every is None else parse_duration_option("--every", options.every, at_least=0)
    is_local = job.cluster.remote is None and job.cluster.master.startswith("local")
    if is_local:
        check_target(target, stream=options.is_stream)
    if job.dry_run:
        return show_survey(job, _survey(source, target, options), _dry_run_options(target, options))
    metrics = None if options.metrics is None else MetricsFile(job.env, options.metrics, "export")
    started_ms = job.env.clock.now_ms()
    clean_up = Unfinished(target).remove if is_local and not options.is_stream else lambda: None
    surveyed: list[Survey] = []

    def preflight() -> Survey:
        surveyed.append(_survey(source, target, options))
        return surveyed[0]

    with spark_session(
        job.env, job.common, job.cluster, preflight=preflight, clean_up=clean_up, metrics=metrics
    ) as spark:
        if options.is_stream:
            result = _stream(job, spark, source, target, every_ms / 1000 if options.follow else None)
        else:
            records = surveyed[0].records if surveyed and target.file_bytes is not None else None
            result = _batch(job, spark, source, target, records)
        if metrics is not None:
            metrics.written(result.records)
        _show_export(job, target, result, (job.env.clock.now_ms() - started_ms) / 1000)
    return exit_status.DONE


def _survey(source: KafkaSource, target: Export, options: ExportOptions) -> Survey:
    from kcli.spark.pipelines.files.export import export_source, resumed_offsets
    from kcli.spark.pipelines.survey import survey

    columns = target.columns_to_read(source.where)
    resumed = resumed_offsets(target) if options.is_stream else None
    return survey(export_source(source, target), "records", columns, stream=options.is_stream, resumed=resumed)


def _batch(job: Job, spark: SparkSession, source: KafkaSource, target: Export, records: int | None) -> ExportResult:
    from kcli.spark.pipelines.files.export import export_batch
    from kcli.spark.pipelines.files.shape import find_schema

    shape = target.shape
    if shape.value == "json" and shape.schema is None:
        shape = shape._replace(schema=find_schema(spark, source))
        job.env.report(f"inferred schema of the values: json:{shape.schema}")
    return export_batch(spark, source, target._replace(shape=shape), records)


def _stream(job: Job, spark: SparkSession, source: KafkaSource, target: Export, every_s: float | None) -> ExportResult:
    from kcli.spark.pipelines.files.export import export_stream

    last: ExportResult | None = None
    reported_ms = job.env.clock.now_ms()

    def on_progress(now: ExportResult) -> None:
        nonlocal last, reported_ms
        last = now
        now_ms = job.env.clock.now_ms()
        if (
            not job.env.stderr_is_terminal and now_ms - reported_ms >= _REPORT_EVERY_MS
        ):  # a terminal has a progress line
            reported_ms = now_ms
            behind = "" if now.behind is None else f", {now.behind:,} offsets behind"
            job.env.report(f"{now.records:,} records written to {target.to}{behind}")

    try:
        return export_stream(spark, source, target, every_s=every_s, on_progress=on_progress)
    except KeyboardInterrupt:
        if last is None:
            raise
        _warn(job, target, last)
        raise KeyboardInterrupt(
            f"{last.records:,} records written to {target.to}; the next run continues there"
        ) from None


def _show_export(job: Job, target: Export, result: ExportResult, seconds: float) -> None:
    from kcli.cli.run_plan import showing_outcome
    from kcli.cli.spark.results import show_result
    from kcli.spark.pipelines.result import Result

    row: dict[str, Any] = {"to": target.to, "format": target.shape.format, "records": result.records}
    row["seconds"] = round(seconds, 1)
    columns = list(row)
    row["not_utf8"], row["errors"] = result.not_utf8, result.errors
    if result.ends is not None:
        row["ends"] = result.ends
    with showing_outcome(job.env, f"{format_count(result.records, 'record')} written to {target.to}"):
        show_result(job, "spark.export", Result(columns, [row]))
    _warn(job, target, result)


def _warn(job: Job, target: Export, result: ExportResult) -> None:
    if result.errors:
        place = f"written to {target.dead_letter}" if target.dead_letter is not None else "see the column value_error"
        job.env.report(f"values that did not decode: {result.errors:,}; {place}")
    if result.not_utf8:
        job.env.report(
            f"records with invalid UTF-8: {result.not_utf8:,}; written as U+FFFD, --value raw keeps the bytes"
        )


def _dry_run_options(target: Export, options: ExportOptions) -> dict[str, str]:
    """Return the options of the export for the dry run."""
    shown = {"to": target.to, "format": target.shape.format}
    if options.is_stream:
        shown["checkpoint"] = target.checkpoint_location
    else:
        shown["mode"] = target.mode
    return shown
