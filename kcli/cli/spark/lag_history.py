"""`kcli spark lag-history`: compute the past lag of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from kcli.cli.environment import Environment
from kcli.cli.options import check_choice, naming
from kcli.cli.parser import Option
from kcli.cli.spark.findings import FailIf, Findings, Page, report_findings
from kcli.cli.spark.options import Job, Topics, parse_groups
from kcli.errors import ConfigError
from kcli.text import format_time, parse_duration_option, parse_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.cli.spark.page import Section
    from kcli.spark.pipelines.lag_history import History, LagHistoryOptions
    from kcli.spark.pipelines.result import Result
    from kcli.spark.pipelines.source import KafkaSource
    from kcli.spark.pipelines.survey import Survey


class HistoryOptions(NamedTuple):
    """The groups, the times and the rows."""

    groups: Annotated[
        str | None, Option("--groups", metavar="GROUP,...", help="Show only these groups. [all with commits]")
    ] = None
    from_: Annotated[str, Option("--since", metavar="TIME", help="Start at a time, or relative like -7d.")] = "-1d"
    until: Annotated[str, Option("--until", metavar="TIME", help="End at a time, or now.")] = "now"
    every: Annotated[str, Option("--every", metavar="DURATION", help="Show a row this often.")] = "5m"
    by: Annotated[
        str, Option("--by", metavar="group|topic|partition", help="Show one row per group, topic or partition.")
    ] = "group"

    def parse(self, now_ms: int) -> LagHistoryOptions:
        """Return the options of the pipeline. ConfigError."""
        from kcli.spark.pipelines.lag_grid import SERIES
        from kcli.spark.pipelines.lag_history import LagHistoryOptions, make_grid

        check_choice("--by", self.by, SERIES)
        every_ms = parse_duration_option("--every", self.every)
        times = []
        for option, text in (("--since", self.from_), ("--until", self.until)):
            with naming(option):
                times.append(parse_time(text.removeprefix("@"), now_ms))
        if times[0] > times[1]:
            raise ConfigError(f"--since {self.from_} is after --until {self.until}")
        return LagHistoryOptions(
            make_grid(times[0], min(times[1], now_ms), every_ms), parse_groups(self.groups), self.by
        )


def run(
    env: Environment,
    job: Job,
    *,
    topic: Topics = None,
    history: HistoryOptions,
    fail_if: FailIf = None,
    report: Page = None,
) -> int:
    """Compute the lag of groups over time, from the log of their commits.

    At each multiple of --every, the last committed offset of a group is compared with the log end at that time: the end
    of the last batch before the first newer record. This is exact if brokers set the timestamps (LogAppendTime),
    otherwise as accurate as the producers' clocks. In a compacted topic, removed records count with the next batch. A
    batch with a timestamp in the future counts with the previous batch. Sums are over PARTITIONS, without those of
    UNKNOWN lag: deleted topics, and times without remaining batches.

    The lag is unknown before the first remaining commit of a group and partition, because compaction removes older
    commits. There is then no row, or the partition is not counted.

    --where applies to the rows of the result, for example --where 'lag > 1000'.
    """
    from kcli.spark.pipelines import lag_history

    options = history.parse(env.clock.wall_ms())
    source = job.source(topic, needs_topics=False)
    subject = _heading(source, options)
    return report_findings(
        job,
        "spark.lag-history",
        lag_history.commits_source(source, options.groups),
        lambda spark: _findings(lag_history.run(spark, source, options), options, subject),
        preflight=lambda: _survey(source, options),
        shown_columns=lag_history.row_columns(options.by),
        fail_if=fail_if,
        page=report,
    )


def _heading(source: KafkaSource, options: LagHistoryOptions) -> str:
    """Return the subtitle of the page: groups, topics, filter and range."""
    groups = "all groups" if options.groups is None else f"groups {', '.join(options.groups)}"
    topics = f"; topics {', '.join(map(_topic, source.topics.items()))}" if source.topics else ""
    where = f"; where {source.where}" if source.where is not None else ""
    return f"{groups}{topics}{where}; {format_time(options.grid.first_ms)} to {format_time(options.grid.last_ms)}"


def _topic(item: tuple[str, Sequence[int] | None]) -> str:
    topic, numbers = item
    return topic if numbers is None else f"{topic}:{','.join(map(str, numbers))}"


def _survey(source: KafkaSource, options: LagHistoryOptions) -> Survey:
    """Survey the commit log. The other topics to read are known only from the commits, which a dry run reports."""
    from kcli.spark.pipelines.lag_history import COMMIT_COLUMNS, commits_source
    from kcli.spark.pipelines.survey import survey

    commits = survey(commits_source(source, options.groups), "commits", COMMIT_COLUMNS)
    if commits.plan is None:
        return commits
    since = format_time(options.grid.first_ms)
    more = f"also read, not counted here: batch headers from {since} on, of all topics with such commits"
    return commits._replace(plan=commits.plan._replace(reports=[*commits.plan.reports, more]))


def _findings(history: History, options: LagHistoryOptions, subject: str) -> Findings:
    last = format_time(options.grid.last_ms)
    notes = [f"group {name} has no remaining commit before {last}" for name in history.silent]
    notes += [f"topic {name} does not exist, or does not answer: its lag is unknown" for name in history.gone]
    if history.first_ms is None:
        notes.append(f"no commit before {last} remains")
    elif history.first_ms > options.grid.first_ms:
        notes.append(f"the oldest remaining commit is of {format_time(history.first_ms)}; the lag before it is unknown")
    if history.ahead:
        notes.append(f"{history.ahead:,} batches have timestamps in the future; each counts with the previous batch")
    return Findings(history.lags, notes, lambda: lag_history_sections(history.lags, options), subject=subject)


def lag_history_sections(lags: Result, options: LagHistoryOptions) -> list[Section]:
    """Return the sections of the page: the lag over time, and the last row of each series."""
    from kcli.cli.spark.charts import largest, lines, series_note, series_of
    from kcli.cli.spark.page import Section
    from kcli.spark.pipelines.lag_grid import SERIES
    from kcli.spark.pipelines.result import Result

    series = series_of(lags.rows, SERIES[options.by], "time", "lag")
    shown = largest(series)
    last = {tuple(row[name] for name in SERIES[options.by]): row for row in lags.rows}
    return [
        Section("Lag", series_note(shown, series), lines(shown, "records") if shown else None),
        Section("At the end", table=Result(lags.columns, list(last.values()))),
    ]
