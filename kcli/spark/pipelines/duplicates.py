"""Duplicate records: by key, by key and value, or by the producer's sequence numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError
from kcli.spark.pipelines import columns as f
from kcli.spark.pipelines.columns import digest
from kcli.spark.pipelines.result import Result, rows_of
from kcli.spark.pipelines.source import load

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kcli.spark.pipelines.source import KafkaSource

_SEQUENCE = ("partition", "producer_id", "producer_epoch", "sequence")
#: The values of `by`, with the columns that duplicates have in common in addition to the topic.
FIELDS: Mapping[str, tuple[str, ...]] = {"key": ("key",), "key,value": ("key", "value"), "sequence": _SEQUENCE}
TOP = 20
_DIGEST = "value_digest"
TOPIC_COLUMNS = ["topic", "records", "left_out", "distinct", "repeated", "repeats", "share"]


class DuplicateOptions(NamedTuple):
    """`by` is one of FIELDS. `within_ms`: a repeat is at most that long after the previous copy, by timestamp."""

    by: str = "key"
    within_ms: int | None = None

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return list(dict.fromkeys(["topic", *FIELDS[self.by], "partition", "offset", "timestamp"]))


class Duplicates(NamedTuple):
    """`groups`: the groups of equal records with most repeats; `topics`: a row for each topic.

    Of a group, `copies` counts all records and `repeats` those after the first. Of a topic, `left_out` counts records
    without key, or without sequence number, which belong to no group; `distinct` counts groups, `repeated` those with
    repeats; `share` is the share of repeats in `records`.
    """

    groups: Result
    topics: Result


def parse_by(text: str) -> str:
    """Parse one of FIELDS, in any order and spacing. ConfigError for other values."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    field = next((way for way in FIELDS if sorted(way.split(",")) == sorted(names)), None)
    if field is None:
        raise ConfigError(f"--by: {text!r} is not valid; use key or key,value or sequence")
    return field


def group_columns(by: str) -> list[str]:
    """Return the columns of a group."""
    identity = {"key": ["key"], "key,value": ["key", "value_size"], "sequence": list(_SEQUENCE)}[by]
    places = [] if by == "sequence" else ["partitions"]
    return ["topic", *identity, "copies", "repeats", *places, "first_seen", "last_seen", "first_at", "last_at"]


def run(spark: SparkSession, source: KafkaSource, options: DuplicateOptions, top: int = TOP) -> Duplicates:
    """Find the duplicates. Records are shuffled by the compared columns; long values as their SHA-256 and size."""
    frame = load(spark, source, "records", options.columns)
    identity = ["topic", *FIELDS[options.by]]
    if options.by == "key,value":
        frame, identity = _digested(frame), ["topic", "key", "value_size", _DIGEST]
    groups = _grouped(frame, identity, options).persist()
    try:
        is_grouped = _is_group(options.by)
        sums = groups.groupBy("topic").agg(
            f.sum("copies").alias("records"),
            f.sum(f.when(~is_grouped, f.col("copies")).otherwise(0)).alias("left_out"),
            f.count_if(is_grouped).alias("distinct"),
            f.count_if(is_grouped & (f.col("repeats") > 0)).alias("repeated"),
            f.sum(f.when(is_grouped, f.col("repeats")).otherwise(0)).alias("repeats"),
        )
        topics = sums.orderBy("topic").toArrow().to_pylist()
        worst = groups.where(is_grouped & (f.col("repeats") > 0)).orderBy(f.desc("repeats"), *identity).limit(top)
        rows = rows_of(worst.toArrow())
    finally:
        groups.unpersist()
    seen = {row["topic"] for row in topics}
    topics += [{**dict.fromkeys(TOPIC_COLUMNS, 0), "topic": topic} for topic in source.topics if topic not in seen]
    for row in topics:
        row["share"] = row["repeats"] / row["records"] if row["records"] else None
    names = group_columns(options.by)
    return Duplicates(Result(names, [_plain_row(row, names) for row in rows]), Result(TOPIC_COLUMNS, topics))


def _is_group(by: str) -> Column:
    """Return whether records form a group: not without a key, or without a sequence number."""
    if by == "key,value":
        return f.lit(True)
    return f.col("key").isNotNull() if by == "key" else f.col("sequence").isNotNull()


def _digested(frame: DataFrame) -> DataFrame:
    """Replace values by their digest and size."""
    return frame.select(
        *("topic", "key", "partition", "offset", "timestamp"),
        f.length("value").alias("value_size"),
        digest("value").alias(_DIGEST),
    )


def _grouped(frame: DataFrame, identity: Sequence[str], options: DuplicateOptions) -> DataFrame:
    place = f.struct("timestamp", "partition", "offset")
    repeats = f.count("*") - 1
    if options.within_ms is not None:
        frame = frame.withColumn("repeats", _is_repeat(identity, options).cast("long"))
        repeats = f.sum("repeats")
    return frame.groupBy(*identity).agg(
        f.count("*").alias("copies"),
        repeats.alias("repeats"),
        f.min(place).alias("first"),
        f.max(place).alias("last"),
        f.size(f.collect_set("partition")).alias("partitions"),
    )


def _is_repeat(identity: Sequence[str], options: DuplicateOptions) -> Column:
    """Return whether the previous copy in time is near enough; never for a record without a timestamp (before 1970)."""
    from pyspark.sql import Window

    alone = f.when(~_is_group(options.by), f.col("offset"))  # otherwise all records without a key would go to one task
    in_time = Window.partitionBy(*identity, alone).orderBy("timestamp", "partition", "offset")
    at = f.unix_millis("timestamp")
    before = f.lag(at).over(in_time)
    return f.coalesce((before >= 0) & (at - before <= options.within_ms), f.lit(False))


def _plain_row(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    first, last = row["first"], row["last"]
    plain = {**row, "first_seen": first["timestamp"], "last_seen": last["timestamp"]}
    for name, place in (("first_at", first), ("last_at", last)):
        plain[name] = f"{place['partition']}:{place['offset']}"
    return {name: plain[name] for name in names}
