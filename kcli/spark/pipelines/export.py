"""Export of topics to files: Parquet, ORC, JSON, CSV, or another installed format; as a batch or as a stream.

Source: Spark's "Structured Streaming Programming Guide". File sinks write each batch exactly once, using their list in
`_spark_metadata`; a query continues at its checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError, Refused
from kcli.spark.pipelines.shape import FILES, NOT_UTF8, Shape, apply_shape, columns_to_read
from kcli.spark.pipelines.source import KafkaSource, load, with_pushdown
from kcli.spark.stream_checkpoint import last_position, local_path, newest_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from kcli.spark.batch_plan import OffsetMap

MODES = ("error", "append", "overwrite", "ignore")
Offsets = Mapping[str, Mapping[str, int]]
_WRITTEN = "kcli export"
#: CSV by RFC 4180. Spark's default trims values and escapes quotes with a backslash.
_RFC_4180_CSV = {
    "header": "true",
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}


class Export(NamedTuple):
    """Target and format of an export.

    `files` is the approximate number of files per batch; `checkpoint` is for streams, `mode` for batches.
    """

    to: str
    shape: Shape
    compression: str | None = None
    mode: str = "error"
    files: int | None = None
    checkpoint: str | None = None
    commit_group: str | None = None

    @property
    def checkpoint_location(self) -> str:
        """Return the checkpoint location. Its default is beside the data: readers of files skip names with an
        underscore.
        """
        return self.checkpoint or f"{self.to.rstrip('/')}/_checkpoint"


class ExportResult(NamedTuple):
    """Result of an export. `not_utf8` of the `records` have U+FFFD in place of invalid UTF-8; `ends` are the end
    offsets of a stream, if reported.
    """

    records: int
    batches: int
    ends: Offsets | None = None
    not_utf8: int = 0


def export_source(source: KafkaSource, export: Export) -> KafkaSource:
    """Return the source with the options of the export.

    The condition applies to the written rows; Spark pushes it down as far as the source supports it. A number of files
    needs as many tasks, so ranges are split for it, which avoids a shuffle.
    """
    more = dict(source.more)
    if "headers" in export.shape.columns:
        more.setdefault("includeHeaders", "true")
    if export.files is not None:
        more.setdefault("minPartitions", str(export.files))
    return source._replace(where=None, more=more)


def resumed_offsets(export: Export) -> OffsetMap | None:
    """Return the offsets at which a stream continues, if its checkpoint is local and has a completed batch."""
    folder = local_path(export.checkpoint_location)
    position = None if folder is None else last_position(folder)
    return None if position is None else position.offsets


def check_target(export: Export, *, stream: bool) -> None:
    """Raise Refused for a local target that Spark would refuse later, or that would lose records silently, and
    ConfigError for one that cannot be a folder.

    A file sink skips batches whose numbers it already has from another checkpoint, its readers skip files that it has
    not written, and it fails permanently at the first compaction of a list without earlier batches.
    """
    to = local_path(export.to)
    if export.checkpoint is not None and (folder := local_path(export.checkpoint)) is not None:
        _check_folder("--checkpoint", folder)
    if to is None:
        return
    _check_folder("--to", to)
    written = newest_batch(to / "_spark_metadata")
    if not stream and export.mode == "error" and to.exists():
        raise Refused(f"{export.to} exists already; use another --to, or --mode append or overwrite")
    if not stream and export.mode == "append" and written >= 0:
        raise Refused(
            f"{export.to} was written by --once or --follow, so appended files would not be read; use another --to"
        )
    checkpoint = local_path(export.checkpoint_location)
    if not stream or checkpoint is None:
        return
    planned = newest_batch(checkpoint / "offsets")
    if written > planned:
        raise Refused(
            f"{export.to} was written with another checkpoint than {export.checkpoint_location}, so Spark would skip "
            "records; use that --checkpoint, or another --to"
        )
    if export.shape.format not in FILES:
        return
    if newest_batch(checkpoint / "commits") > written:
        raise Refused(
            f"{export.to} does not have the batches of {export.checkpoint_location}; use the folder that has them, "
            "or another --checkpoint and an empty --to"
        )
    if planned < 0 and to.is_dir() and any(map(_is_data, to.iterdir())):
        raise Refused(
            f"{export.to} has other files, which would not be read beside those of a stream; use another --to"
        )


def _check_folder(option: str, folder: Path) -> None:
    """Raise ConfigError if a folder cannot be made here, or not be written."""
    nearest = next(path for path in (folder, *folder.parents, Path("/")) if os.path.lexists(path))
    if not nearest.is_dir():
        place = "" if nearest == folder else f"{folder} cannot be made: "
        raise ConfigError(f"{option}: {place}{nearest} is not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(f"{option}: {nearest} is not writable")


class Unfinished:
    """Files of an unfinished batch export to a local folder: Spark leaves them if it is interrupted or the disk is
    full, and refuses the folder the next time.

    Made before the export. It removes only what an unfinished write leaves, never data, because another process may
    write to the folder as well.
    """

    def __init__(self, export: Export) -> None:
        self._to = local_path(export.to)
        self._mode = export.mode
        self._had_target = self._to is not None and self._to.exists()
        self._had_temporary = self._to is not None and (self._to / _TEMPORARY).exists()

    def remove(self) -> str | None:
        """Remove them, and return a line about it; None if there is nothing to say. Never raises."""
        if self._to is None or not self._to.is_dir() or (self._to / "_SUCCESS").exists():
            return None
        made_temporary = not self._had_temporary and (self._to / _TEMPORARY).exists()
        if made_temporary:
            shutil.rmtree(self._to / _TEMPORARY, ignore_errors=True)
        if self._had_target:
            lost = "; its old files are gone" if self._mode == "overwrite" else ""
            return f"the unfinished files in {self._to} were removed{lost}" if made_temporary else None
        for path in [*self._to.glob("._*.crc"), *self._to.glob(".part-*.crc")]:
            path.unlink(missing_ok=True)
        try:
            self._to.rmdir()
        except OSError:
            return f"{self._to} is incomplete; remove it, or use --mode overwrite"
        return f"the unfinished {self._to} was removed"


_TEMPORARY = "_temporary"


def _is_data(path: Path) -> bool:
    """Return whether readers of files read it: they skip hidden names."""
    return not path.name.startswith(("_", "."))


def export_batch(spark: SparkSession, source: KafkaSource, export: Export) -> ExportResult:
    """Write the present records of the topics. Raises Spark's exceptions, as AnalysisException: see
    `kcli.spark.spark_errors`.
    """
    from pyspark.sql import Observation

    reading = export_source(source, export)
    if source.where is not None:
        reading = with_pushdown(spark, reading)
    frame = load(spark, reading, columns=columns_to_read(export.shape, source.where))
    counted = Observation()
    frame = _observed_rows(frame, source, export, counted)
    writer = frame.write.format(export.shape.format).mode(export.mode).options(**_write_options(export))
    if export.shape.partition_by:
        writer = writer.partitionBy(*export.shape.partition_by)
    writer.save(export.to)
    counts = counted.get
    return ExportResult(int(counts["records"]), 1, not_utf8=int(counts["not_utf8"]))


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
            committer = commit_to_group(spark, export.commit_group, options, checkpoint=export.checkpoint_location)
            committing.enter_context(committer)
        return await_export(_start(spark, source, export, every_s), poll_s=poll_s, on_progress=on_progress)


def _start(spark: SparkSession, source: KafkaSource, export: Export, every_s: float | None) -> StreamingQuery:
    reading = export_source(source, export)
    options = reading.options("records", columns_to_read(export.shape, source.where), stream=True)
    frame = _observed_rows(spark.readStream.format("kcli").options(**options).load(), source, export, _WRITTEN)
    writer = frame.writeStream.format(export.shape.format).outputMode("append").options(**_write_options(export))
    writer = writer.option("checkpointLocation", export.checkpoint_location).queryName("kcli export")
    if export.shape.partition_by:
        writer = writer.partitionBy(*export.shape.partition_by)
    if every_s is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{int(every_s * 1000)} milliseconds")
    return writer.start(export.to)


def await_export(query: StreamingQuery, *, poll_s: float, on_progress: Callable[[ExportResult], None]) -> ExportResult:
    """Wait for the end of the stream and count the written records. A failure of the stream is raised."""
    batches: dict[int, tuple[int, int]] = {}
    ends: Offsets | None = None
    ended = False
    while not ended:
        ended = query.awaitTermination(poll_s)
        for progress in query.recentProgress:
            written = progress.observedMetrics.get(_WRITTEN)
            if written is not None:  # a batch with data; other progress events report an idle source
                batches[progress.batchId] = _counts(written)
            ends = _ends(progress) or ends
        records, not_utf8 = (sum(counts[which] for counts in batches.values()) for which in (0, 1))
        result = ExportResult(records, sum(1 for rows, _ in batches.values() if rows), ends, not_utf8)
        on_progress(result)
    return result


def _counts(observed: Any) -> tuple[int, int]:
    """Return the observed counts. Over Spark Connect a row comes as its JSON, with values and schema (seen with
    4.3.0).
    """
    counts = tuple(observed)
    if "values" in observed:
        counts = observed["values"]
    return int(counts[0]), int(counts[1])


def _ends(progress: Any) -> Offsets | None:
    """Return the end offsets of a batch: those of its only source."""
    try:
        ends = json.loads(progress.sources[0].endOffset)
    except (TypeError, ValueError, IndexError):
        return None
    return ends if isinstance(ends, dict) else None


def _observed_rows(frame: DataFrame, source: KafkaSource, export: Export, counted: Observation | str) -> DataFrame:
    """Return the rows to write; `counted` observes them."""
    from pyspark.sql import functions as f

    frame = apply_shape(frame, export.shape)
    if source.where is not None:
        frame = frame.where(source.where)
    frame = frame.observe(counted, f.count(f.lit(1)).alias("records"), f.count_if(NOT_UTF8).alias("not_utf8"))
    frame = frame.select(*export.shape.written())
    return frame if export.files is None else frame.coalesce(export.files)


def _write_options(export: Export) -> dict[str, str]:
    options = {} if export.compression is None else {"compression": export.compression}
    if export.shape.format == "csv":
        options |= _RFC_4180_CSV
        if len(export.shape.written()) == 1 + len(export.shape.partition_by):
            options["quoteAll"] = "true"  # otherwise a row of nulls would not be written
    return options
