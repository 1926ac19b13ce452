"""Comparison of the records of two topics, of one cluster or two: occurrences of each record in both.

Partitions, offsets and order may differ, as in a mirrored topic; `by` selects the fields that are compared. The records
are shuffled by these fields; long byte fields are replaced by their SHA-256 and size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError
from kcli.spark.pipelines import columns as f
from kcli.spark.pipelines.columns import digest
from kcli.spark.pipelines.result import Result, rows_of
from kcli.spark.pipelines.source import load

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kcli.spark.pipelines.source import KafkaSource

#: The fields that records can be compared by, which are columns of the source.
FIELDS = ("key", "value", "headers", "timestamp", "partition")
SUMMARY_COLUMNS = ["first", "second", "same", "different", "only_first", "only_second", "lacking", "extra"]
TOP = 20
_SIDES = ("first", "second")
_PLACES = ("first_at", "second_at")
_SIZE = "value_size"
_DIGEST = "_digest"


class Comparison(NamedTuple):
    """`differences`: records with different counts, the largest differences first; `summary`: one row.

    `first` and `second` count records. Distinct records (by the compared fields) are `same` or `different`; some of the
    different ones are `only_first` or `only_second`. `lacking` counts records of the first topic without a match in the
    second, `extra` the opposite.
    """

    differences: Result
    summary: Result


def parse_by(text: str) -> tuple[str, ...]:
    """Parse some of FIELDS, and return them in their order. ConfigError for other names."""
    names = {name.strip() for name in text.split(",") if name.strip()}
    if not names or names - set(FIELDS):
        raise ConfigError(f"--by: {text!r} is not valid; use some of {', '.join(FIELDS)}")
    return tuple(way for way in FIELDS if way in names)


def difference_columns(by: Sequence[str]) -> list[str]:
    """Return the columns of a difference, with the position of one of the records in each topic; for values and
    headers, their sizes.
    """
    shown = {"value": _SIZE, "headers": "headers_size"}
    return [*(shown.get(name, name) for name in by), "first", "second", "difference", *_PLACES]


def columns(by: Sequence[str]) -> list[str]:
    """Return the columns to read."""
    return list(dict.fromkeys([*by, *(["headers_size"] if "headers" in by else []), "partition", "offset"]))


def run(
    spark: SparkSession, first: KafkaSource, second: KafkaSource, by: Sequence[str] = ("key", "value"), top: int = TOP
) -> Comparison:
    """Compare the topics. Each is read once."""
    frames = [_side_frame(spark, source, by, place) for place, source in enumerate((first, second))]
    common_columns = [name for name in frames[0].columns if name not in (*_SIDES, *_PLACES)]
    kinds = frames[0].unionByName(frames[1]).groupBy(*common_columns)
    amounts = [f.sum(name).alias(name) for name in _SIDES]
    both = kinds.agg(*amounts, *(f.min(name).alias(name) for name in _PLACES))
    both = both.withColumn("difference", f.col("second") - f.col("first")).persist()
    try:
        [summary] = both.agg(*_sums()).toArrow().to_pylist()
        differing = (
            both.where("difference <> 0").orderBy(f.desc(f.abs("difference")), *_sortable(common_columns)).limit(top)
        )
        names = difference_columns(by)
        rows = [_plain_row(row) for row in rows_of(differing.select(*names).toArrow())]
    finally:
        both.unpersist()
    return Comparison(Result(names, rows), Result(SUMMARY_COLUMNS, [summary]))


def _side_frame(spark: SparkSession, source: KafkaSource, by: Sequence[str], place: int) -> DataFrame:
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
    first, second, difference = f.col("first"), f.col("second"), f.col("difference")
    counted = {
        "same": difference == 0,
        "different": difference != 0,
        "only_first": second == 0,
        "only_second": first == 0,
    }
    amounts = {"first": first, "second": second, "lacking": f.greatest(-difference, f.lit(0))}
    amounts["extra"] = f.greatest(difference, f.lit(0))
    columns = {name: f.coalesce(f.sum(amount), f.lit(0)) for name, amount in amounts.items()}
    columns |= {name: f.count_if(condition) for name, condition in counted.items()}
    return [columns[name].alias(name) for name in SUMMARY_COLUMNS]


def _sortable(names: Sequence[str]) -> list[str]:
    return [name for name in names if name != "headers"]


def _plain_row(row: dict[str, Any]) -> dict[str, Any]:
    for name in _PLACES:
        place = row[name]
        row[name] = None if place is None else f"{place['partition']}:{place['offset']}"
    return row
