"""Topics as files: Parquet, ORC, JSON, CSV, or whatever format is installed; once, by and by, or as a stream.

Source: Spark's "Structured Streaming Programming Guide": file sinks write each batch exactly once, by the list they
keep in `_spark_metadata`; a query goes on where its checkpoint says.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.spark.pipelines.shape import Shape, columns_to_read, shaped
from kcli.spark.pipelines.source import KafkaSource, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

MODES = ("error", "append", "overwrite", "ignore")
Offsets = Mapping[str, Mapping[str, int]]


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
    """What was written: `records`; `ends`: the offsets up to which a stream has come, where it has told them."""

    records: int
    batches: int
    ends: Offsets | None = None


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
    """Write what the topics hold now. AnalysisException and others of Spark: see `kcli.spark.failures`."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    reading = source_of(source, export)
    if source.where is not None:
        reading = reading._replace(more={**reading.more, "pushdown": "true"})
    frame = load(spark, reading, columns=columns_to_read(export.shape, source.where))
    frame = _prepared(frame, source, export)
    counted = Observation()
    frame = frame.observe(counted, f.count(f.lit(1)).alias("records"))
    writer = frame.write.format(export.shape.format).mode(export.mode).options(**_writing(export))
    if export.shape.partition_by:
        writer = writer.partitionBy(*export.shape.partition_by)
    writer.save(export.to)
    return Exported(int(counted.get["records"]), 1)


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
            from kcli.spark.commit import commit_to_group

            told = source.options(stream=True)
            committer = commit_to_group(spark, export.commit_group, told, checkpoint=export.checkpoint_location)
            committing.enter_context(committer)
        return await_export(_start(spark, source, export, every_s), look_s=look_s, seen=seen)


def _start(spark: SparkSession, source: KafkaSource, export: Export, every_s: float | None) -> StreamingQuery:
    reading = source_of(source, export)
    options = reading.options("records", columns_to_read(export.shape, source.where), stream=True)
    frame = _prepared(spark.readStream.format("kcli").options(**options).load(), source, export)
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
    batches: dict[int, int] = {}
    ends: Offsets | None = None
    ended = False
    while not ended:
        ended = query.awaitTermination(look_s)
        for progress in query.recentProgress:
            batches[progress.batchId] = progress.numInputRows
            ends = _ends(progress) or ends
        seen(Exported(sum(batches.values()), len(batches), ends))
    return Exported(sum(batches.values()), sum(1 for rows in batches.values() if rows), ends)


def _ends(progress: Any) -> Offsets | None:
    """Where a batch ended: its one source's offsets."""
    try:
        found = json.loads(progress.sources[0].endOffset)
    except (TypeError, ValueError, IndexError):
        return None
    return found if isinstance(found, dict) else None


def _prepared(frame: DataFrame, source: KafkaSource, export: Export) -> DataFrame:
    frame = shaped(frame, export.shape)
    if source.where is not None:
        frame = frame.where(source.where)
    frame = frame.select(*export.shape.written())
    return frame if export.files is None else frame.coalesce(export.files)


def _writing(export: Export) -> dict[str, str]:
    options = {} if export.compression is None else {"compression": export.compression}
    if export.shape.format == "csv":
        options["header"] = "true"
    return options
