"""Records that are there more than once: by key, by key and value, or by the producer's own sequence numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError
from kcli.spark.pipelines.digest import digest
from kcli.spark.pipelines.result import Result, rows_of
from kcli.spark.pipelines.source import load

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kcli.spark.pipelines.source import KafkaSource

_SEQUENCE = ("partition", "producer_id", "producer_epoch", "sequence")
#: What `by` may be, and what records have in common then, beside the topic.
WAYS: Mapping[str, tuple[str, ...]] = {"key": ("key",), "key,value": ("key", "value"), "sequence": _SEQUENCE}
TOP = 20
_DIGEST = "value_digest"
TOPIC_COLUMNS = ["topic", "records", "left_out", "distinct", "repeated", "repeats", "share"]


class Wish(NamedTuple):
    """`by` is one of WAYS. `within_ms`: a repeat comes at most that long after the copy before it, by timestamps."""

    by: str = "key"
    within_ms: int | None = None

    @property
    def columns(self) -> list[str]:
        """What is read."""
        return list(dict.fromkeys(["topic", *WAYS[self.by], "partition", "offset", "timestamp"]))


class Duplicates(NamedTuple):
    """`groups`: of equal records those with most repeats; `topics`: a row for each topic.

    `copies` are all records of a group, `repeats` those of them that repeat another. Of a topic, `left_out` records
    have no key, or no sequence number, and count as no group; `distinct` groups are there, `repeated` of them have
    repeats; `share` of all `records` are repeats.
    """

    groups: Result
    topics: Result


def parse_by(text: str) -> str:
    """One of WAYS, however it is written. ConfigError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    found = next((way for way in WAYS if sorted(way.split(",")) == sorted(names)), None)
    if found is None:
        raise ConfigError(f"--by must be key, or key,value, or sequence, not '{text}'")
    return found


def group_columns(by: str) -> list[str]:
    """What a row tells of a group."""
    same = {"key": ["key"], "key,value": ["key", "value_size"], "sequence": list(_SEQUENCE)}[by]
    places = [] if by == "sequence" else ["partitions"]
    return ["topic", *same, "copies", "repeats", *places, "first_seen", "last_seen", "first_at", "last_at"]


def run(spark: SparkSession, source: KafkaSource, wish: Wish, top: int = TOP) -> Duplicates:
    """Count. Records are shuffled by what they have in common; of long values only their SHA-256 and size are."""
    from pyspark.sql import functions as f

    frame = load(spark, source, "records", wish.columns)
    same = ["topic", *WAYS[wish.by]]
    if wish.by == "key,value":
        frame, same = _digested(frame), ["topic", "key", "value_size", _DIGEST]
    groups = _grouped(frame, same, wish).persist()
    try:
        taken = _counts(wish.by)
        sums = groups.groupBy("topic").agg(
            f.sum("copies").alias("records"),
            f.sum(f.when(~taken, f.col("copies")).otherwise(0)).alias("left_out"),
            f.count_if(taken).alias("distinct"),
            f.count_if(taken & (f.col("repeats") > 0)).alias("repeated"),
            f.sum(f.when(taken, f.col("repeats")).otherwise(0)).alias("repeats"),
        )
        topics = sums.orderBy("topic").toArrow().to_pylist()
        worst = groups.where(taken & (f.col("repeats") > 0)).orderBy(f.desc("repeats"), *same).limit(top)
        rows = rows_of(worst.toArrow())
    finally:
        groups.unpersist()
    found = {row["topic"] for row in topics}
    topics += [{**dict.fromkeys(TOPIC_COLUMNS, 0), "topic": topic} for topic in source.topics if topic not in found]
    for row in topics:
        row["share"] = row["repeats"] / row["records"] if row["records"] else None
    names = group_columns(wish.by)
    return Duplicates(Result(names, [_shown(row, names) for row in rows]), Result(TOPIC_COLUMNS, topics))


def _counts(by: str) -> Column:
    """Whether a group is one: no key is no key, and no sequence number none."""
    from pyspark.sql import functions as f

    if by == "key,value":
        return f.lit(True)
    return f.col("key").isNotNull() if by == "key" else f.col("sequence").isNotNull()


def _digested(frame: DataFrame) -> DataFrame:
    """Values as what tells them apart, together with their size: short ones whole."""
    from pyspark.sql import functions as f

    return frame.select(
        *("topic", "key", "partition", "offset", "timestamp"),
        f.length("value").alias("value_size"),
        digest("value").alias(_DIGEST),
    )


def _grouped(frame: DataFrame, same: Sequence[str], wish: Wish) -> DataFrame:
    from pyspark.sql import functions as f

    place = f.struct("timestamp", "partition", "offset")
    repeats = f.count("*") - 1
    if wish.within_ms is not None:
        frame = frame.withColumn("repeats", _is_repeat(same, wish).cast("long"))
        repeats = f.sum("repeats")
    return frame.groupBy(*same).agg(
        f.count("*").alias("copies"),
        repeats.alias("repeats"),
        f.min(place).alias("first"),
        f.max(place).alias("last"),
        f.size(f.collect_set("partition")).alias("partitions"),
    )


def _is_repeat(same: Sequence[str], wish: Wish) -> Column:
    """Whether the copy before it in time is that near. A record without a time, told as before 1970, is near none."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    alone = f.when(~_counts(wish.by), f.col("offset"))  # or all that have no key would go to one task, for nothing
    in_time = Window.partitionBy(*same, alone).orderBy("timestamp", "partition", "offset")
    at = f.unix_millis("timestamp")
    before = f.lag(at).over(in_time)
    return f.coalesce((before >= 0) & (at - before <= wish.within_ms), f.lit(False))


def _shown(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    first, last = row["first"], row["last"]
    found = {**row, "first_seen": first["timestamp"], "last_seen": last["timestamp"]}
    for name, place in (("first_at", first), ("last_at", last)):
        found[name] = f"{place['partition']}:{place['offset']}"
    return {name: found[name] for name in names}
