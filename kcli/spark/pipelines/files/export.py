"""Export of topics to files: Parquet, ORC, JSON, CSV, or another installed format; as a batch or as a stream.

Source: Spark's "Structured Streaming Programming Guide". File sinks write each batch exactly once, using their list in
`_spark_metadata`; a query continues at its checkpoint.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.spark.offset_json import offsets_dict
from kcli.spark.pipelines import columns as f
from kcli.spark.pipelines.files import dedup
from kcli.spark.pipelines.files.file_size import SAMPLE_ROWS, FilePlan, measure, plan_files
from kcli.spark.pipelines.files.shape import (
    DECODED,
    MICROSECONDS,
    NOT_UTF8,
    Shape,
    Shaped,
    apply_shape,
    columns_to_read,
    dead_letters,
)
from kcli.spark.pipelines.files.temporary_settings import parquet_timestamps, temporary_settings
from kcli.spark.pipelines.files.value_fields import ERROR_COLUMN
from kcli.spark.pipelines.source import KafkaSource, load, with_pushdown
from kcli.spark.query_progress import offsets_behind
from kcli.spark.stream_checkpoint import last_position, local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from kcli.spark.batch_plan import OffsetMap

MODES = ("error", "append", "overwrite", "ignore")
Offsets = Mapping[str, Mapping[str, int]]
_WRITTEN = "kcli export"
#: CSV by RFC 4180. Spark's default trims values and escapes quotes with a backslash.
RFC_4180_CSV = {
    "header": "true",
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}


class Export(NamedTuple):
    """Target and format of an export.

    `files` is the approximate number of files per batch, `file_bytes` their approximate size; `checkpoint` is for
    streams, `mode` and `dedup` for batches. `dead_letter` is the folder of records whose values do not decode.
    """

    to: str
    shape: Shape
    compression: str | None = None
    mode: str = "error"
    files: int | None = None
    checkpoint: str | None = None
    commit_group: str | None = None
    file_bytes: int | None = None
    dedup: str | None = None
    dead_letter: str | None = None

    def columns_to_read(self, where: str | None) -> list[str]:
        """Return the source's columns that the export needs."""
        more = [] if self.dedup is None else dedup.columns_to_read(self.dedup)
        return list(dict.fromkeys([*columns_to_read(self.shape, where), *more]))

    @property
    def checkpoint_location(self) -> str:
        """Return the checkpoint location. Its default is beside the data: readers of files skip names with an
        underscore.
        """
        return self.checkpoint or f"{self.to.rstrip('/')}/_checkpoint"


class ExportResult(NamedTuple):
    """Result of an export. `not_utf8` of the `records` have U+FFFD in place of invalid UTF-8; `ends` are the end
    offsets of a stream, if reported, and `behind` the number of offsets from them to the log ends; `errors` counts
    values that did not decode, which are in `records` unless they are dead letters.
    """

    records: int
    batches: int
    ends: Offsets | None = None
    not_utf8: int = 0
    errors: int = 0
    behind: int | None = None


def export_source(source: KafkaSource, export: Export) -> KafkaSource:
    """Return the source with the options of the export.

    The condition applies to the written rows; Spark pushes it down as far as the source supports it. A number of files
    needs as many tasks, so ranges are split for it, which avoids a shuffle.
    """
    more = dict(source.more)
    if "headers" in export.shape.columns or export.dead_letter is not None:
        more.setdefault("includeHeaders", "true")
    if export.shape.value in DECODED:
        more.setdefault("value.decode", export.shape.value)
        if export.dedup == "key,value":
            more.setdefault("value.raw", "all")
    if export.files is not None:
        more.setdefault("minPartitions", str(export.files))
    return source._replace(where=None, more=more)


def resumed_offsets(export: Export) -> OffsetMap | None:
    """Return the offsets at which a stream continues, if its checkpoint is local and has a completed batch."""
    folder = local_path(export.checkpoint_location)
    position = None if folder is None else last_position(folder)
    return None if position is None else position.offsets


def export_batch(spark: SparkSession, source: KafkaSource, export: Export, records: int | None = None) -> ExportResult:
    """Write the present records of the topics, `records` at most if that is known. Raises Spark's exceptions, as
    AnalysisException: see `kcli.spark.deploy.spark_errors`.

    Dead letters are written after the other records, by reading the topics again, and only if there are any.
    """
    from pyspark.sql import Observation

    plan = None if export.file_bytes is None else _plan_files(spark, source, export, records)
    if plan is not None and plan.files is not None:
        export = export._replace(files=plan.files)
    reading = export_source(source, export)
    if source.where is not None:
        reading = with_pushdown(spark, reading)
    shaped = _shaped_rows(load(spark, reading, columns=export.columns_to_read(source.where)), source, export)
    counted = Observation()
    frame = _observed_rows(shaped, export, counted)
    with _sized_tasks(spark, plan), parquet_timestamps(spark):
        if plan is not None and plan.files is None:
            frame = frame.hint("rebalance", *export.shape.partition_by)
        writer = frame.write.format(export.shape.format).mode(export.mode).options(**_write_options(export, shaped))
        if export.shape.partition_by:
            writer = writer.partitionBy(*export.shape.partition_by)
        if plan is not None:
            writer = writer.option("maxRecordsPerFile", str(plan.rows_per_file))
        writer.save(export.to)
    counts = counted.get
    result = ExportResult(int(counts["records"]), 1, None, int(counts["not_utf8"]), int(counts["errors"]))
    if export.dead_letter is not None and result.errors:
        with parquet_timestamps(spark):
            dead_letters(shaped, export.shape).write.mode("append").parquet(export.dead_letter)
    return result


def _plan_files(spark: SparkSession, source: KafkaSource, export: Export, records: int | None) -> FilePlan | None:
    """Return the limits for files of the wanted size, from a sample of the rows; None without rows.

    The number of files is known only if all records are written, and not into several folders.
    """
    reading = export_source(source, export)
    reading = reading._replace(more={**reading.more, "rowLimitPerPartition": str(SAMPLE_ROWS)})
    plain = export._replace(dedup=None)
    shaped = _shaped_rows(load(spark, reading, columns=plain.columns_to_read(source.where)), source, plain)
    sample = shaped.frame.select(*map(_quoted, shaped.columns)).limit(SAMPLE_ROWS).toArrow()
    size = measure(sample, export.shape.format, export.compression)
    if size is None or export.file_bytes is None:
        return None
    is_whole = source.where is None and export.dedup is None and not export.shape.partition_by
    return plan_files(size, export.file_bytes, records if is_whole else None)


_ADAPTIVE = "spark.sql.adaptive."


@contextlib.contextmanager
def _sized_tasks(spark: SparkSession, plan: FilePlan | None) -> Iterator[None]:
    """Let the hint `rebalance` make tasks of the planned bytes, in this context."""
    if plan is None or plan.files is not None:
        yield
        return
    wanted = {
        f"{_ADAPTIVE}enabled": "true",
        f"{_ADAPTIVE}advisoryPartitionSizeInBytes": f"{plan.shuffled_bytes}b",
        f"{_ADAPTIVE}coalescePartitions.parallelismFirst": "false",
    }
    with temporary_settings(spark, wanted):
        yield


def export_stream(
    spark: SparkSession,
    source: KafkaSource,
    export: Export,
    *,
    every_s: float | None,
    on_progress: Callable[[ExportResult], None] = lambda _: None,
    poll_s: float = 1.0,
) -> ExportResult:
    """Write as a stream: a batch every `every_s` seconds without end; None: all present records, in batches.

    `on_progress` is called every `poll_s` seconds with the result so far. GroupInUse if `commit_group` has live
    members.
    """
    with contextlib.ExitStack() as committing:
        if export.commit_group is not None:
            from kcli.spark.commit_listener import commit_to_group

            options = source.options(stream=True)
            committer = commit_to_group(
                spark,
                export.commit_group,
                options,
                query_name=_QUERY,
                checkpoint=export.checkpoint_location,
            )
            committing.enter_context(committer)
        if export.dead_letter is None:
            return await_export(_start(spark, source, export, every_s), poll_s=poll_s, on_progress=on_progress)
        dead = _start_dead_letters(spark, source.starting_at(_resumed(export)), export, export.dead_letter, every_s)
        query = _start(spark, source.starting_at(_await_start(dead, poll_s)), export, every_s)
        result = await_export(query, poll_s=poll_s, on_progress=on_progress, beside=dead)
        dead.awaitTermination()
        if every_s is None:  # the other stream began later, and may have read more records
            _start_dead_letters(spark, source, export, export.dead_letter, every_s).awaitTermination()
        return result


def _resumed(export: Export) -> Offsets | None:
    offsets = resumed_offsets(export)
    return None if offsets is None else offsets_dict(offsets)


_QUERY = "kcli export"
_STREAM_TASKS = 8
"""Tasks of a batch that writes into several folders: each folder has one of them, so it gets a single file."""


def _start(spark: SparkSession, source: KafkaSource, export: Export, every_s: float | None) -> StreamingQuery:
    plan = None if export.file_bytes is None else _plan_files(spark, source, export, None)
    shaped = _shaped_rows(_read_stream(spark, source, export), source, export)
    frame = _observed_rows(shaped, export, _WRITTEN)
    by = export.shape.partition_by
    if by and export.file_bytes is not None:
        frame = frame.repartition(_STREAM_TASKS, *by)
    writer = frame.writeStream.format(export.shape.format).options(**_write_options(export, shaped)).queryName(_QUERY)
    if plan is not None:
        writer = writer.option("maxRecordsPerFile", str(plan.rows_per_file))
    if by:
        writer = writer.partitionBy(*by)
    with parquet_timestamps(spark):
        return _append(writer, export.checkpoint_location, every_s).start(export.to)


def _await_start(query: StreamingQuery, poll_s: float) -> Offsets | None:
    """Return the offsets at which a query begins: the end of its first batch, which is empty (see
    `kcli.spark.stream_plan`). None for a query that continues at its checkpoint. The failure of a query is raised.
    """
    ended = False
    while not ended:
        ended = query.awaitTermination(poll_s)
        for progress in query.recentProgress:
            return _ends(progress) if progress.batchId == 0 else None
    return None


def _start_dead_letters(
    spark: SparkSession, source: KafkaSource, export: Export, folder: str, every_s: float | None
) -> StreamingQuery:
    """Start a stream of its own, which reads the topics again: so both folders have each record exactly once.

    Both streams must begin at the same offsets: a start such as latest is another one a moment later.
    """
    shaped = _shaped_rows(_read_stream(spark, source, export), source, export)
    writer = dead_letters(shaped, export.shape).writeStream.format("parquet").queryName(f"{_QUERY}: dead letters")
    return _append(writer, f"{folder.rstrip('/')}/_checkpoint", every_s).start(folder)


def _read_stream(spark: SparkSession, source: KafkaSource, export: Export) -> DataFrame:
    reading = export_source(source, export)
    options = reading.options("records", export.columns_to_read(source.where), stream=True)
    return spark.readStream.format("kcli").options(**options).load()


def _append(writer: Any, checkpoint: str, every_s: float | None) -> Any:
    """Return the stream's writer with its trigger: a batch every `every_s` seconds, or all present records."""
    writer = writer.outputMode("append").option("checkpointLocation", checkpoint)
    if every_s is None:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{int(every_s * 1000)} milliseconds")


def await_export(
    query: StreamingQuery,
    *,
    poll_s: float,
    on_progress: Callable[[ExportResult], None],
    beside: StreamingQuery | None = None,
) -> ExportResult:
    """Wait for the end of the stream and count the written records. A failure of the stream is raised, and one of the
    stream `beside` it.
    """
    batches: dict[int, tuple[int, ...]] = {}
    ends: Offsets | None = None
    behind: int | None = None
    ended = False
    while not ended:
        ended = query.awaitTermination(poll_s)
        if beside is not None and beside.exception() is not None:
            query.stop()
            beside.awaitTermination()
        for progress in query.recentProgress:
            written = progress.observedMetrics.get(_WRITTEN)
            if written is not None:  # a batch with data; other progress events report an idle source
                batches[progress.batchId] = _counts(written)
            ends = _ends(progress) or ends
            behind = offsets_behind(progress)
        records, not_utf8, errors = (sum(counts[which] for counts in batches.values()) for which in range(3))
        filled = sum(1 for counts in batches.values() if counts[0])
        result = ExportResult(records, filled, ends, not_utf8, errors, behind)
        on_progress(result)
    return result


def _counts(observed: Any) -> tuple[int, ...]:
    """Return the observed counts. Over Spark Connect a row comes as its JSON, with values and schema (seen with
    4.3.0).
    """
    counts = tuple(observed)
    if "values" in observed:
        counts = observed["values"]
    return tuple(map(int, counts))


def _ends(progress: Any) -> Offsets | None:
    """Return the end offsets of a batch: those of its only source."""
    try:
        ends = json.loads(progress.sources[0].endOffset)
    except (TypeError, ValueError, IndexError):
        return None
    return ends if isinstance(ends, dict) else None


def _shaped_rows(frame: DataFrame, source: KafkaSource, export: Export) -> Shaped:
    """Return the rows that the condition selects, in the written form, without repeats."""
    if export.dedup is not None:
        frame = dedup.mark(frame, export.dedup, "value_raw" if export.shape.value in DECODED else "value")
    shaped = apply_shape(frame, export.shape)
    frame = shaped.frame
    if source.where is not None:
        frame = frame.where(source.where)
    if export.dedup is not None:
        frame = dedup.keep_one(frame, export.dedup)
    return shaped._replace(frame=frame)


def _observed_rows(shaped: Shaped, export: Export, counted: Observation | str) -> DataFrame:
    """Return the rows to write; `counted` observes them."""
    frame = shaped.frame
    failed = f.col(ERROR_COLUMN).isNotNull() if ERROR_COLUMN in frame.columns else f.lit(False)
    written = ~failed if export.dead_letter is not None else f.lit(True)
    frame = frame.observe(
        counted,
        f.count_if(written).alias("records"),
        f.count_if(written & f.col(NOT_UTF8)).alias("not_utf8"),
        f.count_if(failed).alias("errors"),
    )
    if export.dead_letter is not None:
        frame = frame.where(written)
    frame = frame.select(*map(_quoted, shaped.columns))
    return frame if export.files is None else frame.coalesce(export.files)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _write_options(export: Export, shaped: Shaped) -> dict[str, str]:
    options = {} if export.compression is None else {"compression": export.compression}
    if export.shape.has_fields and export.shape.format in ("csv", "json"):
        options |= MICROSECONDS
    if export.shape.format == "csv":
        options |= RFC_4180_CSV
        if len(shaped.columns) == 1 + len(export.shape.partition_by):
            options["quoteAll"] = "true"  # otherwise a row of nulls would not be written
    return options
