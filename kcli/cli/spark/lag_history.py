"""`kcli spark lag-history`: how far behind groups were, from before anybody watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common, check_choice
from kcli.cli.parser import Option
from kcli.cli.spark.findings import FailIf, Page
from kcli.cli.spark.options import Job, Topics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.cli.spark.findings import Findings
    from kcli.cli.spark.page import Section
    from kcli.cli.spark.survey import Survey
    from kcli.spark.pipelines.lag_history import History, LagHistoryOptions
    from kcli.spark.pipelines.result import Result
    from kcli.spark.pipelines.source import KafkaSource


def run(
    env: Environment,
    common: Common,
    job: Job,
    topic: Topics = None,
    groups: Annotated[
        str | None, Option("--groups", metavar="GROUP,...", help="Only these. [all that have committed]")
    ] = None,
    from_: Annotated[str, Option("--since", metavar="TIME", help="From then on: -7d, or a time.")] = "-1d",
    until: Annotated[str, Option("--until", metavar="TIME", help="Until then.")] = "now",
    every: Annotated[str, Option("--every", metavar="DURATION", help="A row for each so long.")] = "5m",
    by: Annotated[str, Option("--by", metavar="group|topic|partition", help="What the rows are of.")] = "group",
    fail_if: FailIf = None,
    report: Page = None,
) -> int:
    """The lag of groups over time, out of the log of their commits.

    At each multiple of --every, what a group had committed last is set against where the log ended: behind the last
    batch before the first one with a newer record. That is exact where the brokers stamp records (LogAppendTime), else
    as good as the producers' clocks; in a compacted topic, what is removed counts with the batch behind it. A batch
    whose time is yet to come counts with the one before it. Sums are over PARTITIONS, without those of UNKNOWN lag: of
    deleted topics, and of times from which no batch is left.

    Nothing is known of the time before the first commit that is left of a group and partition: old commits are
    removed once there is a later one. Then there is no row, or the partition is not among those that are counted.

    --where is about the rows of the result, as in --where 'lag > 1000'.
    """
    from kcli.cli.spark.findings import find
    from kcli.spark.pipelines import lag_history

    wish = _wish(env, groups, from_, until, every, by)
    source = job.source(topic, needs_topics=False)
    of = _heading(source, wish)
    return find(
        job,
        "spark.lag-history",
        lag_history.commits_source(source, wish.groups),
        lambda spark: _findings(lag_history.run(spark, source, wish), wish, of),
        look=lambda: _look(source, wish),
        shown=lag_history.row_columns(by),
        fail_if=fail_if,
        page=report,
    )


def _wish(env: Environment, groups: str | None, since: str, until: str, every: str, by: str) -> LagHistoryOptions:
    from kcli.cli.spark.options import parse_groups
    from kcli.errors import ConfigError
    from kcli.spark.pipelines.lag_grid import SERIES
    from kcli.spark.pipelines.lag_history import LagHistoryOptions, make_grid
    from kcli.text import parse_duration_option, parse_time

    check_choice("--by", by, SERIES)
    every_ms = parse_duration_option("--every", every)
    now_ms = env.clock.wall_ms()
    times = [parse_time(text.removeprefix("@"), now_ms) for text in (since, until)]
    if times[0] > times[1]:
        raise ConfigError(f"--since {since} is after --until {until}")
    return LagHistoryOptions(make_grid(times[0], min(times[1], now_ms), every_ms), parse_groups(groups), by)


def _heading(source: KafkaSource, wish: LagHistoryOptions) -> str:
    """What was asked for, in a line."""
    from kcli.text import format_time

    groups = "all groups" if wish.groups is None else f"groups {', '.join(wish.groups)}"
    topics = f"; topics {', '.join(map(_topic, source.topics.items()))}" if source.topics else ""
    where = f"; where {source.where}" if source.where is not None else ""
    return f"{groups}{topics}{where}; {format_time(wish.grid.first_ms)} to {format_time(wish.grid.last_ms)}"


def _topic(item: tuple[str, Sequence[int] | None]) -> str:
    topic, numbers = item
    return topic if numbers is None else f"{topic}:{','.join(map(str, numbers))}"


def _look(source: KafkaSource, wish: LagHistoryOptions) -> Survey:
    """The log of commits. Which other topics there are to read only the commits tell: a dry run says so."""
    from kcli.cli.spark.survey import survey
    from kcli.spark.pipelines.lag_history import COMMIT_COLUMNS, commits_source
    from kcli.text import format_time

    found = survey(commits_source(source, wish.groups), "commits", COMMIT_COLUMNS)
    if found.plan is None:
        return found
    since = format_time(wish.grid.first_ms)
    more = f"besides, and not counted here: the headers of batches from {since} on, of all topics with such commits"
    return found._replace(plan=found.plan._replace(reports=[*found.plan.reports, more]))


def _findings(found: History, wish: LagHistoryOptions, of: str) -> Findings:
    from kcli.cli.spark.findings import Findings
    from kcli.text import format_time

    last = format_time(wish.grid.last_ms)
    words = [f"of group {name} no commit before {last} is left" for name in found.silent]
    words += [f"topic {name} is gone, or does not answer: its lag is not known" for name in found.gone]
    if found.first_ms is None:
        words.append(f"no commit before {last} is left")
    elif found.first_ms > wish.grid.first_ms:
        words.append(f"the oldest commit that is left is of {format_time(found.first_ms)}: before it nothing is known")
    if found.ahead:
        words.append(f"the times of {found.ahead:,} batches are yet to come: each counts with the batch before it")
    return Findings(found.lags, words, lambda: lag_history_sections(found.lags, wish), of=of)


def lag_history_sections(lags: Result, wish: LagHistoryOptions) -> list[Section]:
    """Lag over time, those with most of it; how the last point of each is."""
    from kcli.cli.spark.charts import largest, lines, series_note, series_of
    from kcli.cli.spark.page import Section
    from kcli.spark.pipelines.lag_grid import SERIES
    from kcli.spark.pipelines.result import Result

    series = series_of(lags.rows, SERIES[wish.by], "time", "lag")
    shown = largest(series)
    last = {tuple(row[name] for name in SERIES[wish.by]): row for row in lags.rows}
    return [
        Section("Lag", series_note(shown, series), lines(shown, "records") if shown else None),
        Section("At the end", table=Result(lags.columns, list(last.values()))),
    ]
