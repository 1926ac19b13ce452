"""`kcli spark throughput`: count records and bytes over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from kcli.cli.environment import Environment
from kcli.cli.parser import Option
from kcli.cli.spark.findings import FailIf, Findings, Page, report_findings
from kcli.cli.spark.options import Job, Topics
from kcli.errors import ConfigError
from kcli.text import parse_duration_option

if TYPE_CHECKING:
    from kcli.cli.spark.page import Section
    from kcli.spark.pipelines.result import Result
    from kcli.spark.pipelines.throughput import Throughput, ThroughputOptions


class WindowOptions(NamedTuple):
    """The time windows, and their rows."""

    window: Annotated[str, Option("--window", metavar="DURATION", help="Set the length of the windows.")] = "1m"
    slide: Annotated[
        str | None, Option("--slide", metavar="DURATION", help="Start a window this often. [as --window]")
    ] = None
    by: Annotated[str, Option("--by", metavar="FIELD,...", help="Group by topic, partition, producer; or total.")] = (
        "topic"
    )
    summary: Annotated[bool, Option("--summary", help="Show mean, median and peak instead of windows.")] = False
    exact: Annotated[bool, Option("--exact", help="Read each record instead of batch headers.")] = False

    def parse(self) -> ThroughputOptions:
        """Return the options of the pipeline. ConfigError."""
        from kcli.spark.pipelines.throughput import ThroughputOptions, parse_by

        window_ms = parse_duration_option("--window", self.window)
        slide_ms = window_ms if self.slide is None else parse_duration_option("--slide", self.slide)
        if window_ms % slide_ms:
            raise ConfigError(f"--slide: {self.slide} must divide --window {self.window}")
        return ThroughputOptions(window_ms, slide_ms, parse_by(self.by), self.exact)


def run(
    env: Environment,
    job: Job,
    *,
    topic: Topics = None,
    given: WindowOptions,
    fail_if: FailIf = None,
    report: Page = None,
) -> int:
    """Count records and bytes in time windows.

    By default batch headers are read, which is very fast. A batch counts as a whole, at the time of its newest record,
    even if --from cuts it; bytes are those in the log, compressed. --exact counts each record at its own time; bytes
    are then those of keys and values. Control records never count; records of aborted transactions count, unless -X
    isolation.level=read_committed.

    Empty windows are not shown, but count in the means and medians of --summary.
    """
    from kcli.spark.pipelines import throughput

    options = given.parse()
    shown = throughput.summary_columns(options) if given.summary else throughput.window_columns(options)
    source = job.source(topic)
    return report_findings(
        job,
        "spark.throughput",
        source,
        lambda spark: _findings(throughput.run(spark, source, options), options, summary=given.summary),
        view=options.view,
        columns=options.columns,
        shown_columns=shown,
        fail_if=fail_if,
        page=report,
    )


def _findings(throughput_result: Throughput, options: ThroughputOptions, *, summary: bool) -> Findings:
    from kcli.spark.pipelines.throughput import summarize

    notes = []
    if throughput_result.astride:
        notes.append(
            f"{throughput_result.astride:,} batches span several windows; --exact counts their records separately"
        )
    if throughput_result.uncounted:
        notes.append(f"{throughput_result.uncounted:,} old batches have no record count; --exact counts them")
    without_timestamp = sum(row["records"] or 0 for row in throughput_result.windows.rows if row["window"] is None)
    if summary and without_timestamp:
        notes.append(f"{without_timestamp:,} records without a timestamp are in no window and not in the summary")
    totals = summarize(throughput_result.windows, options)
    result = totals if summary else throughput_result.windows
    return Findings(result, notes, lambda: throughput_sections(throughput_result.windows, totals, options))


def throughput_sections(windows: Result, totals: Result, options: ThroughputOptions) -> list[Section]:
    """Return the sections of the page: records and bytes over time, and the summary."""
    from kcli.cli.spark.charts import largest, lines, series_note, series_of, with_zeros
    from kcli.cli.spark.page import Section
    from kcli.spark.pipelines.result import on_calendar
    from kcli.spark.pipelines.throughput import complete_windows

    sections = []
    windowed = [row for row in windows.rows if row["window"] is not None and on_calendar(row["window"])]
    outside = len(windows.rows) - len(windowed)
    beyond = f"{outside:,} window{'s' * (outside != 1)} outside the calendar left out." if outside else ""
    drawn = complete_windows(windowed, options)
    edges = "Windows at both ends of the range, which may be covered in part, are not drawn."
    edges = edges if len(drawn) < len(windowed) else ""
    for name in ("records", "bytes"):
        series = series_of(drawn, options.by, "window", f"{name}_per_s")
        shown = {of: with_zeros(points, options.slide_ms) for of, points in largest(series).items()}
        notes = " ".join(filter(None, (series_note(shown, series), edges, beyond)))
        sections.append(Section(f"{name.capitalize()} a second", notes, lines(shown, f"{name}/s")))
    return [*sections, Section("Summary", table=totals)]
