"""Removal of repeated records within an export: the newest record of each key, or one of each key and value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.errors import ConfigError
from kcli.spark.pipelines import columns as f
from kcli.spark.pipelines.columns import digest
from kcli.spark.pipelines.files.value_fields import OWN_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WAYS = ("key", "key,value")
#: Columns that decide; not written.
_KEY, _VALUE, _RANK = f"{OWN_PREFIX}dedup_key", f"{OWN_PREFIX}dedup_value", f"{OWN_PREFIX}dedup_rank"


def parse_dedup(text: str) -> str:
    """Parse `key` or `key,value`, in any order and spacing. ConfigError for other values."""
    names = sorted(name.strip() for name in text.split(",") if name.strip())
    way = ",".join(names)
    if way not in WAYS:
        raise ConfigError(f"--dedup: {text!r} is not valid; use key or key,value")
    return way


def columns_to_read(way: str) -> list[str]:
    """Return the columns that the removal needs."""
    return [*way.split(","), "topic", "partition", "offset", "timestamp"]


def mark(frame: DataFrame, way: str, value: str = "value") -> DataFrame:
    """Add the columns that `keep_one` compares, while the frame still has the bytes; `value` is their column."""
    frame = frame.withColumn(_KEY, f.col("key"))
    return frame.withColumn(_VALUE, f.struct(f.length(value), digest(value))) if way == "key,value" else frame


def keep_one(frame: DataFrame, way: str) -> DataFrame:
    """Return the rows without repeats, within a topic.

    By key: the record with the highest offset of each partition, of these the newest, as compaction keeps it; records
    without a key stay. By key and value: the first copy by time.
    """
    from pyspark.sql import Window

    if way == "key":
        alone = f.when(f.col(_KEY).isNull(), f.struct("partition", "offset"))
        same = [f.col("topic"), f.col(_KEY), alone]
        latest = [f.desc("offset")]
        newest = [f.desc("timestamp"), f.desc("partition")]
        # Both windows have the records of a key in one task, so there is a single shuffle.
        frame = frame.repartition("topic", _KEY, alone)
        in_partition = Window.partitionBy(*same, f.col("partition")).orderBy(*latest)
        frame = frame.withColumn(_RANK, f.row_number().over(in_partition)).where(f.col(_RANK) == 1)
        of_all = Window.partitionBy(*same).orderBy(*newest)
    else:
        of_all = Window.partitionBy("topic", _KEY, _VALUE).orderBy("timestamp", "partition", "offset")
    frame = frame.withColumn(_RANK, f.row_number().over(of_all)).where(f.col(_RANK) == 1)
    return frame.drop(_KEY, _VALUE, _RANK)
