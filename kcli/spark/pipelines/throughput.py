"""Records and bytes by time windows, from batch headers or from each record.

A header has the number of records and the maximum timestamp, so a batch is counted as a whole in the window of that.
Exact counts read each record, and count the bytes of keys and values instead of those in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError
from kcli.spark.pipelines import columns as f
from kcli.spark.pipelines.result import Result, ms_of
from kcli.spark.pipelines.source import load
from kcli.text import format_time

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kcli.spark.pipelines.source import KafkaSource

#: The values of `by`, with their columns.
GROUPINGS: Mapping[str, tuple[str, ...]] = {
    "topic": ("topic",),
    "partition": ("topic", "partition"),
    "producer": ("producer_id",),
}


class ThroughputOptions(NamedTuple):
    """Windows of `window_ms`, starting every `slide_ms` (a divisor), for each value of the columns `by`; empty: in
    total.
    """

    window_ms: int = 60_000
    slide_ms: int = 60_000
    by: tuple[str, ...] = ("topic",)
    exact: bool = False

    @property
    def overlap(self) -> int:
        """The number of windows that contain a given time."""
        return self.window_ms // self.slide_ms

    @property
    def view(self) -> str:
        return "records" if self.exact else "batches"

    @property
    def columns(self) -> list[str]:
        """The columns of the view to read."""
        if self.exact:
            return [*self.by, "timestamp", "key_size", "value_size"]
        return [*self.by, "count", "bytes", "first_timestamp", "max_timestamp", "is_control", "is_aborted"]


class Throughput(NamedTuple):
    """`windows`: the windows with records, by time; `astride`: number of batches whose first and last record are in
    different windows; `uncounted`: batches in formats before 0.11, whose headers have no record count.
    """

    windows: Result
    astride: int
    uncounted: int


def parse_by(text: str) -> tuple[str, ...]:
    """Parse `topic,producer` into columns, `total` into none. ConfigError for other names."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["total"]:
        return ()
    unknown = [name for name in names if name not in GROUPINGS]
    if unknown or not names:
        raise ConfigError(f"--by: {text!r} is not valid; use total, or some of {', '.join(GROUPINGS)}")
    return tuple(dict.fromkeys(column for name in names for column in GROUPINGS[name]))


def run(spark: SparkSession, source: KafkaSource, options: ThroughputOptions) -> Throughput:
    """Count. Control batches are skipped; batches of aborted transactions count, except under read_committed."""
    frame = load(spark, source, options.view, options.columns)
    measured = _measure_records(frame) if options.exact else _measure_batches(frame, options)
    spread = measured.withColumn("window", f.explode_outer(_windows(options)))
    totals = ["records", "bytes", "batches", "astride", "uncounted"]
    totals_by_window = spread.groupBy("window", *options.by).agg(*(f.sum(name).alias(name) for name in totals))
    return _to_result(totals_by_window.toArrow().to_pylist(), options)


def _measure_batches(frame: DataFrame, options: ThroughputOptions) -> DataFrame:
    data = frame.where("not is_control and not coalesce(is_aborted, false)")
    at, first = f.unix_millis("max_timestamp"), f.unix_millis("first_timestamp")
    is_outside_first = f.floor(at / options.slide_ms) != f.floor(first / options.slide_ms)
    return data.select(
        *options.by,
        at.alias("at"),
        f.col("count").cast("long").alias("records"),
        f.col("bytes").cast("long").alias("bytes"),
        f.lit(1).alias("batches"),
        f.coalesce(is_outside_first, f.lit(False)).cast("int").alias("astride"),
        f.col("count").isNull().cast("int").alias("uncounted"),
    )


def _measure_records(frame: DataFrame) -> DataFrame:
    at = f.unix_millis("timestamp")
    return frame.select(
        *(name for name in frame.columns if name not in ("timestamp", "key_size", "value_size")),
        f.when(at >= 0, at).alias("at"),  # a missing timestamp is one millisecond before 1970
        f.lit(1).alias("records"),
        (f.coalesce("key_size", f.lit(0)) + f.coalesce("value_size", f.lit(0))).cast("long").alias("bytes"),
        *(f.lit(0).alias(name) for name in ("batches", "astride", "uncounted")),
    )


def _windows(options: ThroughputOptions) -> Column:
    """Return the starts, in ms, of all windows that contain the time `at`."""
    back, slide = f"sequence(0, {options.overlap - 1})", options.slide_ms
    return f.when(f.col("at").isNotNull(), f.expr(f"transform({back}, i -> (at div {slide} - i) * {slide})"))


def _to_result(rows: Sequence[dict[str, Any]], options: ThroughputOptions) -> Throughput:
    seconds = options.window_ms / 1000
    astride, uncounted = (_distinct_sum(rows, name, options) for name in ("astride", "uncounted"))
    windows: list[dict[str, Any]] = []
    for row in sorted(
        rows, key=lambda row: tuple((row[name] is not None, row[name]) for name in ("window", *options.by))
    ):
        window: dict[str, Any] = {"window": None if row["window"] is None else format_time(row["window"])}
        window |= {name: row[name] for name in options.by}
        window |= {"records": row["records"], "bytes": row["bytes"]}
        if not options.exact:
            window["batches"] = row["batches"]
        for name in ("records", "bytes"):
            has_rate = row[name] is not None and row["window"] is not None
            window[f"{name}_per_s"] = row[name] / seconds if has_rate else None
        windows.append(window)
    return Throughput(Result(window_columns(options), windows), astride, uncounted)


def _distinct_sum(rows: Sequence[Mapping[str, Any]], name: str, options: ThroughputOptions) -> int:
    """Return the sum without repetition: a batch is in `overlap` windows, or, without a time, in one row without a
    window.
    """
    timed: int = sum(row[name] for row in rows if row["window"] is not None)
    timeless: int = sum(row[name] for row in rows if row["window"] is None)
    return timed // options.overlap + timeless


def window_columns(options: ThroughputOptions) -> list[str]:
    """Return the columns of a window."""
    counts = ["records", "bytes"] if options.exact else ["records", "bytes", "batches"]
    return ["window", *options.by, *counts, "records_per_s", "bytes_per_s"]


def summarize(windows: Result, options: ThroughputOptions) -> Result:
    """Return mean, median and peak of each group's windows, from its first to its last; empty windows count as
    zeros.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in windows.rows:
        if row["window"] is not None:
            groups.setdefault(tuple(row[name] for name in options.by), []).append(row)
    return Result(
        summary_columns(options),
        [_summary(dict(zip(options.by, key, strict=True)), groups[key], options) for key in sorted(groups, key=_order)],
    )


def _order(key: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(value is not None, value) for value in key]


def complete_windows(windows: Sequence[Mapping[str, Any]], options: ThroughputOptions) -> list[Mapping[str, Any]]:
    """Return the windows without the first and the last one in time, which the records may cover only in part; all of
    them if fewer than two times would remain. With overlapping windows several are partly covered.
    """
    times = [ms_of(row["window"]) for row in windows]
    if not times:
        return []
    margin_ms = options.overlap * options.slide_ms
    first_ms, last_ms = min(times) + margin_ms, max(times) - margin_ms
    inner = [row for row, at_ms in zip(windows, times, strict=True) if first_ms <= at_ms <= last_ms]
    return inner if len({row["window"] for row in inner}) > 1 else list(windows)


def summary_columns(options: ThroughputOptions) -> list[str]:
    """Return the columns of a group."""
    columns = [*options.by, "windows", "records", "bytes"]
    for name in ("records", "bytes"):
        columns += [f"mean_{name}_per_s", f"median_{name}_per_s", f"peak_{name}_per_s"]
    return [*columns, "peak_at", "first_window", "last_window"]


def _summary(window: dict[str, Any], rows: list[dict[str, Any]], options: ThroughputOptions) -> dict[str, Any]:
    first, last = rows[0]["window"], rows[-1]["window"]
    count = (ms_of(last) - ms_of(first)) // options.slide_ms + 1
    window["windows"] = count
    for name in ("records", "bytes"):
        window[name] = sum(row[name] or 0 for row in rows) // options.overlap
    for name in ("records", "bytes"):
        rates = [row[f"{name}_per_s"] or 0 for row in rows]
        window[f"mean_{name}_per_s"] = sum(row[name] or 0 for row in rows) * 1000 / (count * options.window_ms)
        window[f"median_{name}_per_s"] = median(rates, zeros=count - len(rates))
        window[f"peak_{name}_per_s"] = max(rates)
    window["peak_at"] = max(rows, key=lambda row: row["records_per_s"] or 0)["window"]
    return {**window, "first_window": first, "last_window": last}


def median(values: Iterable[float], *, zeros: int = 0) -> float:
    """Return the median of the values and `zeros` zeros; no value is negative."""
    known = sorted(values)
    count = len(known) + zeros

    def at(place: int) -> float:
        return 0.0 if place < zeros else known[place - zeros]

    return (at((count - 1) // 2) + at(count // 2)) / 2 if count else 0.0
