"""Topics as files: Parquet, ORC, JSON, CSV, or whatever format is installed; once, by and by, or as a stream.

Source: Spark's "Structured Streaming Programming Guide": file sinks write each batch exactly once, by the list they
keep in `_spark_metadata`; a query goes on where its checkpoint says.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.spark.pipelines.shape import NOT_UTF8, Shape, columns_to_read, shaped
from kcli.spark.pipelines.source import KafkaSource, load, pushing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession
    from pyspark.sql.streaming import StreamingQuery

MODES = ("error", "append", "overwrite", "ignore")
Offsets = Mapping[str, Mapping[str, int]]
_WRITTEN = "kcli export"
#: RFC 4180, which Spark's own way is not: that trims values, and escapes quotes with a backslash.
_AS_ALL_READ_CSV = {
    "header": "true",
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}


class Export(NamedTuple):
    """Where to, and how. `files`: about so many at a time; `checkpoint` is for streams, `mode` for plain batches."""

    to: str
    shape: Shape
    compression: str | None = None
    mode: str = "error"
    files: int | None = None
    checkpoint: str | None = None
    commit_group: str | None = None

    @property
    def checkpoint_location(self) -> str:
        """Readers of files pass over names that begin with an underscore, so it may lie beside the data."""
        return self.checkpoint or f"{self.to.rstrip('/')}/_checkpoint"


class Exported(NamedTuple):
    """What was written: `records`, `not_utf8` of them with U+FFFD for bytes that are no text; `ends`: the offsets up to
    which a stream has come, where it has told them.
    """

    records: int
    batches: int
    ends: Offsets | None = None
    not_utf8: int = 0


def source_of(source: KafkaSource, export: Export) -> KafkaSource:
    """The source as the export reads it. Its condition is for the rows as they are written: Spark brings that to the
    source as far as the source understands it.

    As many files as asked for need as many tasks: ranges are split for them, which no shuffle is needed for.
    """
    more = dict(source.more)
    if "headers" in export.shape.columns:
        more.setdefault("includeHeaders", "true")
    if export.files is not None:
        more.setdefault("minPartitions", str(export.files))
    return source._replace(where=None, more=more)


def export_batch(spark: SparkSession, source: KafkaSource, export: Export) -> Exported:
    """Write what the topics hold now. AnalysisException and others of Spark: see `kcli.spark.spark_errors`."""
    from pyspark.sql import Observation

    reading = source_of(source, export)
    if source.where is not None:
        reading = pushing(spark, reading)
    frame = load(spark, reading, columns=columns_to_read(export.shape, source.where))
    counted = Observation()
    frame = _prepared(frame, source, export, counted)
    writer = frame.write.format(export.shape.format).mode(export.mode).options(**_writing(export))
    if export.shape.partition_by:
        writer = writer.partitionBy(*export.shape.partition_by)
    writer.save(export.to)
    found = counted.get
    return Exported(int(found["records"]), 1, not_utf8=int(found["not_utf8"]))


def export_stream(
    spark: SparkSession,
    source: KafkaSource,
    export: Export,
    *,
    every_s: float | None,
    seen: Callable[[Exported], None] = lambda _: None,
    look_s: float = 1.0,
) -> Exported:
    """Write as a stream: every so many seconds a batch, without end, or with None all there is now, in batches.

    `seen` is told every `look_s` seconds how far it is. GroupInUse: `commit_group` has live members.
    """
    with contextlib.ExitStack() as committing:
        if export.commit_group is not None:
            from kcli.spark.commit_listener import commit_to_group

            told = source.options(stream=True)
            committer = commit_to_group(spark, export.commit_group, told, checkpoint=export.checkpoint_location)
            committing.enter_context(committer)
        return await_export(_start(spark, source, export, every_s), look_s=look_s, seen=seen)


def _start(spark: SparkSession, source: KafkaSource, export: Export, every_s: float | None) -> StreamingQuery:
    reading = source_of(source, export)
    options = reading.options("records", columns_to_read(export.shape, source.where), stream=True)
    frame = _prepared(spark.readStream.format("kcli").options(**options).load(), source, export, _WRITTEN)
    writer = frame.writeStream.format(export.shape.format).outputMode("append").options(**_writing(export))
    writer = writer.option("checkpointLocation", export.checkpoint_location).queryName("kcli export")
    if export.shape.partition_by:
        writer = writer.partitionBy(*export.shape.partition_by)
    if every_s is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{int(every_s * 1000)} milliseconds")
    return writer.start(export.to)


def await_export(query: StreamingQuery, *, look_s: float, seen: Callable[[Exported], None]) -> Exported:
    """Wait for the end of the stream, counting what its batches have written; a failure of it is raised."""
    batches: dict[int, tuple[int, int]] = {}
    ends: Offsets | None = None
    ended = False
    while not ended:
        ended = query.awaitTermination(look_s)
        for progress in query.recentProgress:
            written = progress.observedMetrics.get(_WRITTEN)
            if written is not None:  # a batch, not a look at the source that found nothing new
                batches[progress.batchId] = _counts(written)
            ends = _ends(progress) or ends
        records, not_utf8 = (sum(counts[which] for counts in batches.values()) for which in (0, 1))
        done = Exported(records, sum(1 for rows, _ in batches.values() if rows), ends, not_utf8)
        seen(done)
    return done


def _counts(observed: Any) -> tuple[int, int]:
    """Over Spark Connect a row comes as its JSON, which has values and a schema (seen with 4.3.0)."""
    counts = tuple(observed)
    if "values" in observed:
        counts = observed["values"]
    return int(counts[0]), int(counts[1])


def _ends(progress: Any) -> Offsets | None:
    """Where a batch ended: its one source's offsets."""
    try:
        found = json.loads(progress.sources[0].endOffset)
    except (TypeError, ValueError, IndexError):
        return None
    return found if isinstance(found, dict) else None


def _prepared(frame: DataFrame, source: KafkaSource, export: Export, counted: Observation | str) -> DataFrame:
    """The rows as they are written, which `counted` observes."""
    from pyspark.sql import functions as f

    frame = shaped(frame, export.shape)
    if source.where is not None:
        frame = frame.where(source.where)
    frame = frame.observe(counted, f.count(f.lit(1)).alias("records"), f.count_if(NOT_UTF8).alias("not_utf8"))
    frame = frame.select(*export.shape.written())
    return frame if export.files is None else frame.coalesce(export.files)


def _writing(export: Export) -> dict[str, str]:
    options = {} if export.compression is None else {"compression": export.compression}
    if export.shape.format == "csv":
        options |= _AS_ALL_READ_CSV
        if len(export.shape.written()) == 1 + len(export.shape.partition_by):
            options["quoteAll"] = "true"  # a line without anything would not be written
    return options
