"""Carry out a pipeline that finds something: its rows on standard output, words beside them, a page, a threshold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

from kcli.cli import exit_status
from kcli.cli.parser import Option

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
    from kcli.cli.spark.rounding import rounded
    from kcli.cli.spark.running import carry_out
    from kcli.cli.spark.threshold import parse_threshold

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
