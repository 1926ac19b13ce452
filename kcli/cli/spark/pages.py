"""What is on the page of each pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.cli.spark.charts import bars, grounded, histogram, largest, lines, series_of
from kcli.cli.spark.page import Section

if TYPE_CHECKING:
    from kcli.spark.pipelines import lag_history
    from kcli.spark.pipelines.profile import Profile
    from kcli.spark.pipelines.result import Result
    from kcli.spark.pipelines.skew import Skew
    from kcli.spark.pipelines.throughput import ThroughputOptions


def throughput_sections(windows: Result, totals: Result, wish: ThroughputOptions) -> list[Section]:
    """Records and bytes over time, and the summary."""
    from kcli.spark.pipelines.result import on_calendar

    sections = []
    drawn = [row for row in windows.rows if row["window"] is not None and on_calendar(row["window"])]
    left = len(windows.rows) - len(drawn)
    beyond = f"{left:,} window{'s' * (left != 1)} without a place on the calendar left out." if left else ""
    for name in ("records", "bytes"):
        series = series_of(drawn, wish.by, "window", f"{name}_per_s")
        shown = {of: grounded(points, wish.slide_ms) for of, points in largest(series).items()}
        words = " ".join(filter(None, (_of_all(shown, series), beyond)))
        sections.append(Section(f"{name.capitalize()} a second", words, lines(shown, f"{name}/s")))
    return [*sections, Section("Summary", table=totals)]


def _of_all(shown: object, series: object) -> str:
    count, of = len(shown), len(series)  # type: ignore[arg-type]
    return f"The {count} largest of {of:,}." if count < of else ""


def skew_sections(found: Skew, metric: str) -> list[Section]:
    """The hottest keys, the partitions of each topic, the numbers."""
    topics = [row["topic"] for row in found.topics.rows]
    several = len(topics) > 1
    names = [f"{row['key']} ({row['topic']})" if several else str(row["key"]) for row in found.keys.rows]
    chart = bars(names, [row[metric] for row in found.keys.rows], metric) if names else None
    sections = [Section("Hottest keys", "" if names else "No record has a key.", chart, found.keys)]
    for topic in topics:
        rows = [row for row in found.partitions.rows if row["topic"] == topic]
        chart = bars([str(row["partition"]) for row in rows], [row[metric] for row in rows], metric)
        sections.append(Section(f"Partitions of {topic}", figure=chart))
    return [*sections, Section("Partitions", table=found.partitions), Section("Topics", table=found.topics)]


def profile_sections(found: Profile) -> list[Section]:
    """The numbers, how sizes are spread, the fields."""
    sections = [Section("Records", table=found.topics)]
    for (topic, of), sizes in found.sizes.items():
        if sizes:
            sections.append(Section(f"Sizes of {of}s in {topic}, in bytes", figure=histogram(sizes, "records")))
    if not found.fields.rows:
        return sections
    for topic in dict.fromkeys(row["topic"] for row in found.fields.rows):
        rows = [row for row in found.fields.rows if row["topic"] == topic and "[]" not in row["field"]]
        chart = bars([row["field"] for row in rows], [row["share"] for row in rows], "share of objects")
        sections.append(Section(f"Fields of {topic}", "How many of the objects have which field.", chart))
    return [*sections, Section("Fields", table=found.fields)]


def lag_history_sections(lags: Result, wish: lag_history.LagHistoryOptions) -> list[Section]:
    """Lag over time, those with most of it; how the last point of each is."""
    from kcli.spark.pipelines.lag_grid import SERIES
    from kcli.spark.pipelines.result import Result

    series = series_of(lags.rows, SERIES[wish.by], "time", "lag")
    shown = largest(series)
    last = {tuple(row[name] for name in SERIES[wish.by]): row for row in lags.rows}
    return [
        Section("Lag", _of_all(shown, series), lines(shown, "records") if shown else None),
        Section("At the end", table=Result(lags.columns, list(last.values()))),
    ]
