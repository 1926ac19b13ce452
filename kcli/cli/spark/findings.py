"""Carry out a pipeline that finds something: its rows on standard output, words beside them, a page, a threshold."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from kcli.cli import exit_status
from kcli.cli.parser import Option
from kcli.conditions import Amount, Condition, Kind, parse_condition
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.cli.spark.options import Job
    from kcli.cli.spark.page import Section
    from kcli.cli.spark.survey import Survey
    from kcli.spark.pipelines.result import Result
    from kcli.spark.pipelines.source import KafkaSource

FailIf = Annotated[
    str | None,
    Option("--fail-if", metavar="COLUMN>N", help="Exit with 6 if it is so in a row; also >= < <= = !=, and N%."),
]
Page = Annotated[
    str | None,
    Option("--report", metavar="FILE.html", help="Also write a page with charts, which needs no network."),
]


class Findings(NamedTuple):
    """What there is to show: `result` as rows; `words` for people, on standard error; `sections` make the page;
    `judged` are the rows that a condition is about, None: those of the result; `of` is what the page is about, None:
    the topics."""

    result: Result
    words: Sequence[str] = ()
    sections: Callable[[], Sequence[Section]] | None = None
    judged: Result | None = None
    of: str | None = None


def find(
    job: Job,
    kind: str,
    source: KafkaSource,
    work: Callable[[SparkSession], Findings],
    *,
    view: str = "records",
    columns: Sequence[str] | None = None,
    shown: Sequence[str] = (),
    fail_if: str | None = None,
    page: str | None = None,
    look: Callable[[], Survey] | None = None,
) -> int:
    """As `carry_out`; an exit status. `shown` are the columns that `fail_if` may speak of; `page` is a path.

    ConfigError before anything starts: a condition or a page that cannot be.
    """
    from kcli.cli.spark.page import check_page
    from kcli.cli.spark.results import rounded
    from kcli.cli.spark.session import carry_out

    threshold = None if fail_if is None else parse_threshold(fail_if, shown)
    if page is not None:
        check_page(page)
    findings: list[Findings] = []

    def worked(spark: SparkSession) -> Result:
        findings.append(work(spark))
        return rounded(findings[0].result)

    def judge(_: Result) -> int:
        for words in findings[0].words:
            job.env.say(words)
        if page is not None:
            _write(job, kind, source, findings[0], page)
        broken = [] if threshold is None else threshold.broken_by((findings[0].judged or findings[0].result).rows)
        if not broken:
            return exit_status.DONE
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        job.env.say(f"{fail_if} holds: {broken[0]}{more}")
        return exit_status.THRESHOLD

    return carry_out(job, kind, source, worked, view=view, columns=columns, judge=judge, look=look)


def _write(job: Job, kind: str, source: KafkaSource, found: Findings, page: str) -> None:
    from kcli.cli.spark.page import write_page

    sections = found.sections() if found.sections is not None else ()
    of = ", ".join(source.topics) if found.of is None else found.of
    write_page(page, f"kcli {kind.replace('.', ' ')}", of, job.env.clock.wall_ms(), sections)
    job.env.say(f"the page is {page}")


#: Columns of pipelines that have no numbers, so that no condition on them could ever hold.
TEXTS = frozenset(
    (
        *("topic", "key", "hottest_key", "group", "field", "types", "change", "time", "committed_at"),
        *("window", "peak_at", "first_window", "last_window", "oldest", "newest"),
        *("first_seen", "last_seen", "first_at", "last_at"),
    )
)


class Threshold(NamedTuple):
    """A condition on the columns of rows. A row without a number in a column that decides does not break it."""

    condition: Condition

    def broken_by(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return a description of each row for which the condition holds: the values, and what identifies the row."""
        facts = [{name: _amount(row.get(name)) for name in self.condition.names} for row in rows]
        return [
            self.condition.describe(values) + _identity(row)
            for row, values in zip(rows, facts, strict=True)
            if self.condition.judge(values)
        ]


def _amount(value: Any) -> Amount | None:
    return Amount(value) if isinstance(value, int | float) else None


def _identity(row: Mapping[str, Any]) -> str:
    names = [f"{name}={value}" for name, value in row.items() if isinstance(value, str) or name == "partition"]
    return f" where {' '.join(names[:3])}" if names else ""


def or_any(text: str | None) -> str | None:
    """Return the condition with `>0` added to a column alone: `different` is `different>0`."""
    return f"{text}>0" if text is not None and re.fullmatch(r"\w+", text) else text


def parse_threshold(text: str, columns: Sequence[str]) -> Threshold:
    """Parse `share>0.2`, `share > 20%`, `drift=1 or nulls>0`: true and false are 1 and 0. ConfigError."""
    try:
        return Threshold(parse_condition(text, {name: Kind.TEXT if name in TEXTS else Kind.NUMBER for name in columns}))
    except ConfigError as error:
        raise ConfigError(f"--fail-if: {error}") from None
