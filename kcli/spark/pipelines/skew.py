"""Skew: hot keys, and the distribution of keys, records and bytes over partitions. Values are not read, only sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.spark.pipelines import columns as f
from kcli.spark.pipelines.result import Result, text_of
from kcli.spark.pipelines.source import load, log_starts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kcli.spark.pipelines.source import KafkaSource

COLUMNS = ["topic", "partition", "key", "key_size", "value_size"]
KEY_COLUMNS = ["topic", "key", "records", "bytes", "share", "partitions"]
PARTITION_COLUMNS = ["topic", "partition", "records", "bytes", "share", "keys", "hottest_key", "hottest_share"]
TOPIC_COLUMNS = ["topic", "partitions", "records", "bytes", "gini", "max_over_mean", "keys", "keyless", "spread_keys"]
TOP = 20
METRICS = ("records", "bytes")


class Skew(NamedTuple):
    """`keys`: the hottest ones of all topics; `partitions`: all, also empty ones; `topics`: a summary of each.

    `share` is the share of the metric in the topic, `hottest_share` in the partition. `gini` is the Gini coefficient of
    the topic's partitions: 0 if all are equal, near 1 if one has all. `keyless` counts records without a key, which is
    not a key here; `spread_keys` counts keys in more than one partition.
    """

    keys: Result
    partitions: Result
    topics: Result


def run(
    spark: SparkSession, source: KafkaSource, top: int = TOP, metric: str = "records", *, as_hex: bool = False
) -> Skew:
    """Compute the skew, with one shuffle by (topic, partition, key) whose result is persisted."""
    frame = load(spark, source, "records", COLUMNS)
    size = f.coalesce("key_size", f.lit(0)).cast("long") + f.coalesce("value_size", f.lit(0))
    groups = frame.groupBy("topic", "partition", "key").agg(f.count("*").alias("records"), f.sum(size).alias("bytes"))
    groups = groups.persist()
    try:
        by_partition = _partitions(groups, metric)
        keys = groups.where("key is not null").groupBy("topic", "key")
        per_key = keys.agg(
            f.sum("records").alias("records"), f.sum("bytes").alias("bytes"), f.count("*").alias("partitions")
        )
        hottest = per_key.orderBy(f.desc(metric), "topic", "key").limit(top).toArrow().to_pylist()
        spread_count = f.count_if(f.col("partitions") > 1).alias("spread_keys")
        counted = per_key.groupBy("topic").agg(f.count("*").alias("keys"), spread_count).toArrow().to_pylist()
    finally:
        groups.unpersist()
    partitions = sorted({*log_starts(spark, source), *by_partition})
    text = hex_of if as_hex else text_of
    topics = topic_rows(by_partition, partitions, {row["topic"]: row for row in counted}, metric)
    totals = {row["topic"]: row[metric] for row in topics}
    for row in hottest:
        row |= {"key": text(row["key"]), "share": share(row[metric], totals[row["topic"]])}
    return Skew(
        Result(KEY_COLUMNS, [{name: row[name] for name in KEY_COLUMNS} for row in hottest]),
        Result(PARTITION_COLUMNS, partition_rows(by_partition, partitions, totals, metric, text)),
        Result(TOPIC_COLUMNS, topics),
    )


def _partitions(groups: DataFrame, metric: str) -> dict[tuple[str, int], dict[str, Any]]:
    keyed = f.col("key").isNotNull()
    hottest = f.max(f.when(keyed, f.struct(f.col(metric).alias("amount"), "key"))).alias("hottest")
    rows = groups.groupBy("topic", "partition").agg(
        f.sum("records").alias("records"),
        f.sum("bytes").alias("bytes"),
        f.count("key").alias("keys"),
        f.coalesce(f.sum(f.when(~keyed, f.col("records"))), f.lit(0)).alias("keyless"),
        hottest,
    )
    # A null struct with fields that are never null cannot be converted to Arrow, so its fields become columns.
    table = rows.select("*", "hottest.amount", "hottest.key").drop("hottest").toArrow()
    by_partition = {}
    for row in table.to_pylist():
        hottest_key = {"amount": row.pop("amount"), "key": row.pop("key")}
        row["hottest"] = None if hottest_key["amount"] is None else hottest_key
        by_partition[row["topic"], row["partition"]] = row
    return by_partition


def partition_rows(
    by_partition: Mapping[tuple[str, int], dict[str, Any]],
    partitions: Sequence[tuple[str, int]],
    totals: Mapping[str, int],
    metric: str,
    text: Any,
) -> list[dict[str, Any]]:
    """Return a row for each partition. Pure."""
    rows = []
    for topic, partition in partitions:
        part = by_partition.get((topic, partition), {"records": 0, "bytes": 0, "keys": 0, "hottest": None})
        hottest = part["hottest"]
        row = {"topic": topic, "partition": partition, "records": part["records"], "bytes": part["bytes"]}
        row |= {"share": share(part[metric], totals[topic]), "keys": part["keys"]}
        row["hottest_key"] = None if hottest is None else text(hottest["key"])
        row["hottest_share"] = None if hottest is None else share(hottest["amount"], part[metric])
        rows.append(row)
    return rows


def topic_rows(
    by_partition: Mapping[tuple[str, int], dict[str, Any]],
    partitions: Sequence[tuple[str, int]],
    counted: Mapping[str, dict[str, Any]],
    metric: str,
) -> list[dict[str, Any]]:
    """Return a row for each topic. Pure."""
    rows = []
    for topic in dict.fromkeys(topic for topic, _ in partitions):
        of_topic = [by_partition.get(place, {}) for place in partitions if place[0] == topic]
        amounts = [part.get(metric, 0) for part in of_topic]
        row: dict[str, Any] = {"topic": topic, "partitions": len(of_topic)}
        row |= {name: sum(part.get(name, 0) for part in of_topic) for name in ("records", "bytes", "keyless")}
        row["gini"] = gini(amounts)
        row["max_over_mean"] = max(amounts) * len(amounts) / sum(amounts) if sum(amounts) else None
        known = counted.get(topic, {})
        row |= {name: known.get(name, 0) for name in ("keys", "spread_keys")}
        rows.append({name: row[name] for name in TOPIC_COLUMNS})
    return rows


def gini(amounts: Sequence[float]) -> float | None:
    """Return the Gini coefficient: the mean difference of two values over twice the mean; None for a sum of 0. Pure."""
    ordered, count, total = sorted(amounts), len(amounts), sum(amounts)
    if not total:
        return None
    weighted = sum(place * amount for place, amount in enumerate(ordered, 1))
    return (2 * weighted - (count + 1) * total) / (count * total)


def share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def hex_of(key: bytes) -> str:
    return "0x" + key.hex()
