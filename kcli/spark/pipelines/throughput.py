"""Records and bytes by windows of time, from the headers of record batches, or from the records one by one.

A header tells how many records its batch has, and the time of the newest; so a whole batch is counted in the window of
that one. Exact counts read every record, and say bytes of keys and values instead of bytes in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError
from kcli.spark.pipelines.result import Result, ms_of
from kcli.spark.pipelines.source import load
from kcli.text import format_time

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kcli.spark.pipelines.source import KafkaSource

#: What `by` may name, and the columns that stand for it.
GROUPINGS: Mapping[str, tuple[str, ...]] = {
    "topic": ("topic",),
    "partition": ("topic", "partition"),
    "producer": ("producer_id",),
}


class Wish(NamedTuple):
    """Windows of `window_ms`, one each `slide_ms`, which divides it, for each value of the columns `by`; none: for all
    together.
    """

    window_ms: int = 60_000
    slide_ms: int = 60_000
    by: tuple[str, ...] = ("topic",)
    exact: bool = False

    @property
    def overlap(self) -> int:
        """In how many windows each moment is."""
        return self.window_ms // self.slide_ms

    @property
    def view(self) -> str:
        return "records" if self.exact else "batches"

    @property
    def columns(self) -> list[str]:
        """What is read of the view."""
        if self.exact:
            return [*self.by, "timestamp", "key_size", "value_size"]
        return [*self.by, "count", "bytes", "first_timestamp", "max_timestamp", "is_control", "is_aborted"]


class Throughput(NamedTuple):
    """`windows`: those in which there was something, by time; `astride`: batches whose first and newest record lie in
    different windows; `uncounted`: batches in formats before 0.11 whose headers do not tell how many records.
    """

    windows: Result
    astride: int
    uncounted: int


def parse_by(text: str) -> tuple[str, ...]:
    """`topic,producer` as columns; `total` as none. ConfigError for what nobody knows."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["total"]:
        return ()
    unknown = [name for name in names if name not in GROUPINGS]
    if unknown or not names:
        raise ConfigError(f"--by is total, or some of {', '.join(GROUPINGS)}, not '{text}'")
    return tuple(dict.fromkeys(column for name in names for column in GROUPINGS[name]))


def run(spark: SparkSession, source: KafkaSource, wish: Wish) -> Throughput:
    """Count. Control batches are no records; batches of aborted transactions count unless committed is read."""
    from pyspark.sql import functions as f

    frame = load(spark, source, wish.view, wish.columns)
    measured = _of_records(frame) if wish.exact else _of_batches(frame, wish)
    spread = measured.withColumn("window", f.explode_outer(_windows(wish)))
    totals = ["records", "bytes", "batches", "astride", "uncounted"]
    found = spread.groupBy("window", *wish.by).agg(*(f.sum(name).alias(name) for name in totals))
    return _as_result(found.toArrow().to_pylist(), wish)


def _of_batches(frame: DataFrame, wish: Wish) -> DataFrame:
    from pyspark.sql import functions as f

    data = frame.where("not is_control and not coalesce(is_aborted, false)")
    at, first = f.unix_millis("max_timestamp"), f.unix_millis("first_timestamp")
    apart = f.floor(at / wish.slide_ms) != f.floor(first / wish.slide_ms)
    return data.select(
        *wish.by,
        at.alias("at"),
        f.col("count").cast("long").alias("records"),
        f.col("bytes").cast("long").alias("bytes"),
        f.lit(1).alias("batches"),
        f.coalesce(apart, f.lit(False)).cast("int").alias("astride"),
        f.col("count").isNull().cast("int").alias("uncounted"),
    )


def _of_records(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    at = f.unix_millis("timestamp")
    return frame.select(
        *(name for name in frame.columns if name not in ("timestamp", "key_size", "value_size")),
        f.when(at >= 0, at).alias("at"),  # no time at all is told as a millisecond before 1970
        f.lit(1).alias("records"),
        (f.coalesce("key_size", f.lit(0)) + f.coalesce("value_size", f.lit(0))).cast("long").alias("bytes"),
        *(f.lit(0).alias(name) for name in ("batches", "astride", "uncounted")),
    )


def _windows(wish: Wish) -> Column:
    """The starts, in ms, of all windows in which the time `at` is."""
    from pyspark.sql import functions as f

    back, slide = f"sequence(0, {wish.overlap - 1})", wish.slide_ms
    return f.when(f.col("at").isNotNull(), f.expr(f"transform({back}, i -> (at div {slide} - i) * {slide})"))


def _as_result(rows: Sequence[dict[str, Any]], wish: Wish) -> Throughput:
    seconds = wish.window_ms / 1000
    astride, uncounted = (_of_each_once(rows, name, wish) for name in ("astride", "uncounted"))
    found: list[dict[str, Any]] = []
    for row in sorted(rows, key=lambda it: tuple((it[name] is not None, it[name]) for name in ("window", *wish.by))):
        item: dict[str, Any] = {"window": None if row["window"] is None else format_time(row["window"])}
        item |= {name: row[name] for name in wish.by}
        item |= {"records": row["records"], "bytes": row["bytes"]}
        if not wish.exact:
            item["batches"] = row["batches"]
        for name in ("records", "bytes"):
            has_rate = row[name] is not None and row["window"] is not None
            item[f"{name}_per_s"] = row[name] / seconds if has_rate else None
        found.append(item)
    return Throughput(Result(window_columns(wish), found), astride, uncounted)


def _of_each_once(rows: Sequence[Mapping[str, Any]], name: str, wish: Wish) -> int:
    """The sum over what is in `overlap` windows, or, having no time, in the one row of no window."""
    timed: int = sum(row[name] for row in rows if row["window"] is not None)
    timeless: int = sum(row[name] for row in rows if row["window"] is None)
    return timed // wish.overlap + timeless


def window_columns(wish: Wish) -> list[str]:
    """What a row tells of a window."""
    counts = ["records", "bytes"] if wish.exact else ["records", "bytes", "batches"]
    return ["window", *wish.by, *counts, "records_per_s", "bytes_per_s"]


def summarize(windows: Result, wish: Wish) -> Result:
    """Mean, median and peak of each group's windows, from its first to its last; those with nothing in them count."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in windows.rows:
        if row["window"] is not None:
            groups.setdefault(tuple(row[name] for name in wish.by), []).append(row)
    return Result(
        summary_columns(wish),
        [_summary(dict(zip(wish.by, key, strict=True)), rows, wish) for key, rows in groups.items()],
    )


def summary_columns(wish: Wish) -> list[str]:
    """What a row tells of a group."""
    columns = [*wish.by, "windows", "records", "bytes"]
    for name in ("records", "bytes"):
        columns += [f"mean_{name}_per_s", f"median_{name}_per_s", f"peak_{name}_per_s"]
    return [*columns, "peak_at", "first_window", "last_window"]


def _summary(item: dict[str, Any], rows: list[dict[str, Any]], wish: Wish) -> dict[str, Any]:
    first, last = rows[0]["window"], rows[-1]["window"]
    count = (ms_of(last) - ms_of(first)) // wish.slide_ms + 1
    item["windows"] = count
    for name in ("records", "bytes"):
        item[name] = sum(row[name] or 0 for row in rows) // wish.overlap
    for name in ("records", "bytes"):
        rates = [row[f"{name}_per_s"] or 0 for row in rows]
        item[f"mean_{name}_per_s"] = sum(row[name] or 0 for row in rows) * 1000 / (count * wish.window_ms)
        item[f"median_{name}_per_s"] = median(rates, zeros=count - len(rates))
        item[f"peak_{name}_per_s"] = max(rates)
    item["peak_at"] = max(rows, key=lambda row: row["records_per_s"] or 0)["window"]
    return {**item, "first_window": first, "last_window": last}


def median(values: Iterable[float], *, zeros: int = 0) -> float:
    """The median of these and so many zeros; nothing is below 0."""
    known = sorted(values)
    count = len(known) + zeros

    def at(place: int) -> float:
        return 0.0 if place < zeros else known[place - zeros]

    return (at((count - 1) // 2) + at(count // 2)) / 2 if count else 0.0
