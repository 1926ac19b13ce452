"""`kcli spark lag-history`: how far behind groups were, from before anybody watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.spark.findings import FailIf, Page
from kcli.cli.spark.options import Job, Topics

if TYPE_CHECKING:
    from kcli.cli.spark.findings import Findings
    from kcli.spark.pipelines.lag_history import History, Wish


def run(
    env: Environment,
    common: Common,
    job: Job,
    topic: Topics = None,
    groups: Annotated[
        str | None, typer.Option("--groups", metavar="GROUP,...", help="Only these. [all that have committed]")
    ] = None,
    from_: Annotated[str, typer.Option("--since", metavar="TIME", help="From then on: -7d, or a time.")] = "-1d",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="Until then.")] = "now",
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="A row for each so long.")] = "5m",
    by: Annotated[str, typer.Option("--by", metavar="group|topic|partition", help="What the rows are of.")] = "group",
    fail_if: FailIf = None,
    report: Page = None,
) -> int:
    """The lag of groups over time, out of the log of their commits.

    At each multiple of --every, what a group had committed last is set against where the log ended: behind the last
    batch before the first one with a newer record. That is exact where the brokers stamp records (LogAppendTime), else
    as good as the producers' clocks; in a compacted topic, what is removed counts with the batch behind it. Sums are
    over PARTITIONS, without those of UNKNOWN lag: of deleted topics, and of times from which no batch is left.

    Nothing is known of the time before the first commit that is left of a group and partition: old commits are
    removed once there is a later one. Then there is no row, or the partition is not among those that are counted.

    --where is about the rows of the result, as in --where 'lag > 1000'.
    """
    from kcli.cli.spark.findings import find
    from kcli.spark.pipelines import lag_history

    wish = _wish(env, groups, from_, until, every, by)
    source = job.source(topic, needs_topics=False)
    return find(
        job,
        "spark.lag-history",
        lag_history.commits_source(source, wish.groups),
        lambda spark: _findings(lag_history.run(spark, source, wish), wish),
        view="commits",
        columns=lag_history.COMMIT_COLUMNS,
        shown=lag_history.row_columns(by),
        fail_if=fail_if,
        page=report,
    )


def _wish(env: Environment, groups: str | None, since: str, until: str, every: str, by: str) -> Wish:
    from kcli.cli.spark.group_names import parse_groups
    from kcli.cli.times import option_ms, time_ms
    from kcli.errors import ConfigError
    from kcli.spark.pipelines.lag_grid import SERIES
    from kcli.spark.pipelines.lag_history import Wish, make_grid

    if by not in SERIES:
        raise ConfigError(f"--by must be one of {', '.join(SERIES)}, not {by}")
    every_ms = option_ms("--every", every)
    now_ms = env.clock.wall_ms()
    times = [time_ms(text.removeprefix("@"), now_ms) for text in (since, until)]
    if times[0] > times[1]:
        raise ConfigError(f"--since {since} is after --until {until}")
    return Wish(make_grid(times[0], min(times[1], now_ms), every_ms), parse_groups(groups), by)


def _findings(found: History, wish: Wish) -> Findings:
    from kcli.cli.spark.findings import Findings
    from kcli.cli.spark.pages import lag_history_sections
    from kcli.spark.pipelines.plain import plain_time

    last = plain_time(wish.grid.last_ms)
    words = [f"of group {name} no commit before {last} is left" for name in found.silent]
    words += [f"topic {name} is gone, or does not answer: its lag is not known" for name in found.gone]
    if found.first_ms is None:
        words.append(f"no commit before {last} is left")
    elif found.first_ms > wish.grid.first_ms:
        words.append(f"the oldest commit that is left is of {plain_time(found.first_ms)}: before it nothing is known")
    return Findings(found.lags, words, lambda: lag_history_sections(found.lags, wish))
