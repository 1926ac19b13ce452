"""Offsets without a record, by reason. Tasks find and explain them (view `gaps`); this module counts them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.log_place import LOG_END, LOG_START, offset_of
from kcli.spark.options import parse_options
from kcli.spark.pipelines import columns as f
from kcli.spark.pipelines.result import Result
from kcli.spark.pipelines.source import load, log_starts
from kcli.spark.start_end import ByPartition, OfGroup, Spec
from kcli.spark.views.gaps import KINDS
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kcli.spark.pipelines.source import KafkaSource

GAP_COLUMNS = ["topic", "partition", "first_offset", "last_offset", "offsets", "kind"]
PARTITION_COLUMNS = ["topic", "partition", "gaps", "offsets", *KINDS, "largest"]
RETENTION = "retention"
_SPLITTING = {"minpartitions", "maxrecordsperpartition"}


class GapReport(NamedTuple):
    """`gaps`: all, or the largest, in offset order; `partitions`: a row for each, also without gaps: their number, the
    offsets in them by reason, and the largest.
    """

    gaps: Result
    partitions: Result


def gap_source(source: KafkaSource) -> KafkaSource:
    """Return the source with defaults for gaps: read_committed, and deleted records as gaps instead of an error."""
    more = {"failOnDataLoss": "false", **source.more}
    given = {name.lower() for name in (*source.more, *(f"kafka.{key}" for key in source.kafka))}
    if "kafka.isolation.level" not in given:
        more["kafka.isolation.level"] = "read_committed"
    return source._replace(more=more)


def run(
    spark: SparkSession, source: KafkaSource, *, least: int = 1, listed: bool = True, top: int | None = None
) -> GapReport:
    """Find gaps of at least `least` offsets. `listed`: return each; with `top`, only the largest.

    Records deleted before the log start are a gap too, if the source starts at earliest or at lower offsets.
    """
    source = gap_source(source)
    starts = log_starts(spark, source)
    options = parse_options(source.options("gaps"), stream=None)
    heads = deleted_heads(options.starting.at, options.ending.at, starts)
    frame = load(spark, source, "gaps", GAP_COLUMNS)
    if _SPLITTING & {name.lower() for name in source.more}:
        frame = _join_split_gaps(frame)
    if heads:
        of_heads = spark.createDataFrame([tuple(head[name] for name in GAP_COLUMNS) for head in heads], frame.schema)
        frame = frame.unionByName(of_heads if source.where is None else of_heads.where(source.where))
    frame = frame.where(f.col("offsets") >= least)
    frame = frame.persist() if listed else frame
    try:
        sums = frame.groupBy("topic", "partition", "kind").agg(
            f.count("*").alias("gaps"), f.sum("offsets").alias("offsets"), f.max("offsets").alias("largest")
        )
        counted = sums.toArrow().to_pylist()
        gaps = _gap_rows(frame, top) if listed else []
    finally:
        if listed:
            frame.unpersist()
    partitions = sorted({*starts, *((row["topic"], row["partition"]) for row in counted)})
    return GapReport(Result(GAP_COLUMNS, gaps), Result(PARTITION_COLUMNS, partition_rows(counted, partitions)))


def deleted_heads(start_at: Spec, end_at: Spec, starts: Mapping[tuple[str, int], int | None]) -> list[dict[str, Any]]:
    """Return gaps for the deleted offsets between the start of a read and the log start. Pure.

    Bounds by time, count or group are within the log, or the source reports the loss.
    """
    if isinstance(start_at, OfGroup):
        return []
    heads = []
    for place, start in sorted(starts.items()):
        tp = TopicPartition(*place)
        begin = start_at.places.get(tp, LOG_START) if isinstance(start_at, ByPartition) else start_at
        until = offset_of(end_at.places.get(tp, LOG_END) if isinstance(end_at, ByPartition) else None)
        first = 0 if begin == LOG_START else offset_of(begin)
        head_end = 0 if start is None else start if until is None else min(start, until)
        if first is not None and first < head_end:
            gap = {"first_offset": first, "last_offset": head_end - 1, "offsets": head_end - first, "kind": RETENTION}
            heads.append({"topic": tp.topic, "partition": tp.partition, **gap})
    return heads


def _join_split_gaps(frame: DataFrame) -> DataFrame:
    """Join gaps that the border of two ranges has split."""
    from pyspark.sql import Window

    in_order = Window.partitionBy("topic", "partition").orderBy("first_offset")
    goes_on = (f.lag("last_offset").over(in_order) + 1 == f.col("first_offset")) & (
        f.lag("kind").over(in_order) == f.col("kind")
    )
    numbered = frame.withColumn("begins", f.when(goes_on, 0).otherwise(1))
    numbered = numbered.withColumn("number", f.sum("begins").over(in_order))
    whole = numbered.groupBy("topic", "partition", "number", "kind").agg(
        f.min("first_offset").alias("first_offset"),
        f.max("last_offset").alias("last_offset"),
        f.sum("offsets").alias("offsets"),
    )
    return whole.select(*GAP_COLUMNS)


def _gap_rows(frame: DataFrame, top: int | None) -> list[dict[str, Any]]:
    order = ["topic", "partition", "first_offset"]
    chosen = frame if top is None else frame.orderBy(f.desc("offsets"), *order).limit(top)
    rows: list[dict[str, Any]] = chosen.orderBy(*order).toArrow().to_pylist()
    return rows


def partition_rows(counted: Iterable[Mapping[str, Any]], partitions: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return a row for each partition. Pure."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for topic, partition in partitions:
        rows[topic, partition] = {"topic": topic, "partition": partition, **dict.fromkeys(PARTITION_COLUMNS[2:], 0)}
    for counts in counted:
        row = rows[counts["topic"], counts["partition"]]
        row["gaps"] += counts["gaps"]
        row["offsets"] += counts["offsets"]
        row[counts["kind"]] += counts["offsets"]
        row["largest"] = max(row["largest"], counts["largest"])
    return list(rows.values())
