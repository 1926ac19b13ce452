"""Whether two topics, of one cluster or of two, have the same records: how often each is in the one and in the other.

Partitions, offsets and order may differ, as they do in a mirror; what makes two records the same is for the caller to
say. Both are brought together by a shuffle of what they are compared by; of long bytes only SHA-256 and size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError
from kcli.spark.pipelines.digest import digest
from kcli.spark.pipelines.result import Result, rows_of
from kcli.spark.pipelines.source import load

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kcli.spark.pipelines.source import KafkaSource

#: What records can be compared by, and the source's columns for that.
WAYS = ("key", "value", "headers", "timestamp", "partition")
SUMMARY_COLUMNS = ["first", "second", "same", "different", "only_first", "only_second", "lacking", "extra"]
TOP = 20
_SIDES = ("first", "second")
_PLACES = ("first_at", "second_at")
_SIZE = "value_size"
_DIGEST = "_digest"


class Comparison(NamedTuple):
    """`differences`: what is not equally often in both, the most lacking or extra first; `summary`: one row.

    `first` and `second` count records. Kinds of records (by what they are compared) are `same` or `different`; of the
    different some are `only_first` or `only_second`. `lacking` records are in the first and have none to match in the
    second; `extra` the other way round.
    """

    differences: Result
    summary: Result


def parse_by(text: str) -> tuple[str, ...]:
    """Some of WAYS, in their order. ConfigError."""
    names = {name.strip() for name in text.split(",") if name.strip()}
    if not names or names - set(WAYS):
        raise ConfigError(f"--by is some of {', '.join(WAYS)}, not '{text}'")
    return tuple(way for way in WAYS if way in names)


def difference_columns(by: Sequence[str]) -> list[str]:
    """What a row tells of a kind of record, with the place of one of them in each topic; of values and headers it tells
    sizes.
    """
    shown = {"value": _SIZE, "headers": "headers_size"}
    return [*(shown.get(name, name) for name in by), "first", "second", "difference", *_PLACES]


def columns(by: Sequence[str]) -> list[str]:
    """What is read."""
    return list(dict.fromkeys([*by, *(["headers_size"] if "headers" in by else []), "partition", "offset"]))


def run(
    spark: SparkSession, first: KafkaSource, second: KafkaSource, by: Sequence[str] = ("key", "value"), top: int = TOP
) -> Comparison:
    """Compare; both are read once."""
    from pyspark.sql import functions as f

    sides = [_side(spark, source, by, place) for place, source in enumerate((first, second))]
    same = [name for name in sides[0].columns if name not in (*_SIDES, *_PLACES)]
    kinds = sides[0].unionByName(sides[1]).groupBy(*same)
    amounts = [f.sum(name).alias(name) for name in _SIDES]
    both = kinds.agg(*amounts, *(f.min(name).alias(name) for name in _PLACES))
    both = both.withColumn("difference", f.col("second") - f.col("first")).persist()
    try:
        [summary] = both.agg(*_sums()).toArrow().to_pylist()
        apart = both.where("difference <> 0").orderBy(f.desc(f.abs("difference")), *_sortable(same)).limit(top)
        names = difference_columns(by)
        rows = [_shown(row) for row in rows_of(apart.select(*names).toArrow())]
    finally:
        both.unpersist()
    return Comparison(Result(names, rows), Result(SUMMARY_COLUMNS, [summary]))


def _side(spark: SparkSession, source: KafkaSource, by: Sequence[str], place: int) -> DataFrame:
    from pyspark.sql import functions as f

    frame = load(spark, source, "records", columns(by))
    if "value" in by:
        frame = frame.withColumn(_SIZE, f.length("value")).withColumn(_DIGEST, digest("value")).drop("value")
    at, nowhere = f.struct("partition", "offset"), f.lit(None).cast("struct<partition:int,offset:bigint>")
    own = _SIDES[place]
    return frame.select(
        *(name for name in frame.columns if name in by or name in (_SIZE, _DIGEST, "headers_size")),
        *(f.lit(int(name == own)).cast("long").alias(name) for name in _SIDES),
        *((at if name == own else nowhere).alias(f"{name}_at") for name in _SIDES),
    )


def _sums() -> list[Column]:
    from pyspark.sql import functions as f

    first, second, difference = f.col("first"), f.col("second"), f.col("difference")
    counted = {
        "same": difference == 0,
        "different": difference != 0,
        "only_first": second == 0,
        "only_second": first == 0,
    }
    amounts = {"first": first, "second": second, "lacking": f.greatest(-difference, f.lit(0))}
    amounts["extra"] = f.greatest(difference, f.lit(0))
    found = {name: f.coalesce(f.sum(amount), f.lit(0)) for name, amount in amounts.items()}
    found |= {name: f.count_if(condition) for name, condition in counted.items()}
    return [found[name].alias(name) for name in SUMMARY_COLUMNS]


def _sortable(names: Sequence[str]) -> list[str]:
    return [name for name in names if name != "headers"]


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    for name in _PLACES:
        place = row[name]
        row[name] = None if place is None else f"{place['partition']}:{place['offset']}"
    return row
