"""`kcli spark throughput`: records and bytes over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.cli.spark.findings import FailIf, Page
from kcli.cli.spark.options import Job, Topics
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.spark.findings import Findings
    from kcli.cli.spark.page import Section
    from kcli.spark.pipelines.result import Result
    from kcli.spark.pipelines.throughput import Throughput, ThroughputOptions


def run(
    env: Environment,
    common: Common,
    job: Job,
    topic: Topics = None,
    window: Annotated[str, Option("--window", metavar="DURATION", help="How long the windows are.")] = "1m",
    slide: Annotated[
        str | None, Option("--slide", metavar="DURATION", help="One window each so often. [as --window]")
    ] = None,
    by: Annotated[
        str, Option("--by", metavar="WHAT,...", help="topic, partition, producer; or total, all together.")
    ] = "topic",
    summary: Annotated[bool, Option("--summary", help="Mean, median and peak instead of the windows.")] = False,
    exact: Annotated[bool, Option("--exact", help="Read every record instead of headers of batches.")] = False,
    fail_if: FailIf = None,
    report: Page = None,
) -> int:
    """Records and bytes in each window of time.

    By default the headers of record batches are read, which is very fast. A batch is counted as a whole, at the time of
    its newest record, also where --from cuts it; bytes are those in the log, compressed. --exact counts each
    record at its own time; bytes are then those of keys and values. Control records never count; those of aborted
    transactions do, unless -X isolation.level=read_committed.

    Windows in which nothing was are not told, but they count in means and medians of --summary.
    """
    from kcli.cli.spark.findings import find
    from kcli.spark.pipelines import throughput

    wish = _wish(window, slide, by, exact)
    shown = throughput.summary_columns(wish) if summary else throughput.window_columns(wish)
    source = job.source(topic)
    return find(
        job,
        "spark.throughput",
        source,
        lambda spark: _findings(throughput.run(spark, source, wish), wish, summary=summary),
        view=wish.view,
        columns=wish.columns,
        shown=shown,
        fail_if=fail_if,
        page=report,
    )


def _wish(window: str, slide: str | None, by: str, exact: bool) -> ThroughputOptions:
    from kcli.spark.pipelines.throughput import ThroughputOptions, parse_by
    from kcli.text import parse_duration_option

    window_ms = parse_duration_option("--window", window)
    slide_ms = window_ms if slide is None else parse_duration_option("--slide", slide)
    if window_ms % slide_ms:
        raise ConfigError(f"--slide {slide} must divide --window {window}")
    return ThroughputOptions(window_ms, slide_ms, parse_by(by), exact)


def _findings(found: Throughput, wish: ThroughputOptions, *, summary: bool) -> Findings:
    from kcli.cli.spark.findings import Findings
    from kcli.spark.pipelines.throughput import summarize

    words = []
    if found.astride:
        words.append(f"{found.astride:,} batches reach over more than one window; --exact counts their records apart")
    if found.uncounted:
        words.append(f"{found.uncounted:,} old batches do not tell how many records they have; --exact counts them")
    timeless = sum(row["records"] or 0 for row in found.windows.rows if row["window"] is None)
    if summary and timeless:
        words.append(f"{timeless:,} records have no time and are in no window, nor in the summary")
    totals = summarize(found.windows, wish)
    result = totals if summary else found.windows
    return Findings(result, words, lambda: throughput_sections(found.windows, totals, wish))


def throughput_sections(windows: Result, totals: Result, wish: ThroughputOptions) -> list[Section]:
    """Records and bytes over time, and the summary."""
    from kcli.cli.spark.charts import grounded, largest, lines, series_note, series_of
    from kcli.cli.spark.page import Section
    from kcli.spark.pipelines.result import on_calendar

    sections = []
    drawn = [row for row in windows.rows if row["window"] is not None and on_calendar(row["window"])]
    left = len(windows.rows) - len(drawn)
    beyond = f"{left:,} window{'s' * (left != 1)} without a place on the calendar left out." if left else ""
    for name in ("records", "bytes"):
        series = series_of(drawn, wish.by, "window", f"{name}_per_s")
        shown = {of: grounded(points, wish.slide_ms) for of, points in largest(series).items()}
        words = " ".join(filter(None, (series_note(shown, series), beyond)))
        sections.append(Section(f"{name.capitalize()} a second", words, lines(shown, f"{name}/s")))
    return [*sections, Section("Summary", table=totals)]
