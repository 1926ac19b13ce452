"""Run of a pipeline with a report: rows on standard output, notes on standard error, `--report` and `--fail-if`."""

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
    from kcli.spark.pipelines.result import Result
    from kcli.spark.pipelines.source import KafkaSource
    from kcli.spark.pipelines.survey import Survey

FailIf = Annotated[
    str | None,
    Option("--fail-if", metavar="COLUMN>N", help="Exit with 6 if true for a row; also >= < <= = != and N%."),
]
Page = Annotated[
    str | None,
    Option("--report", metavar="FILE.html", help="Also write an HTML page with charts."),
]


class Findings(NamedTuple):
    """Output of a pipeline.

    `result` has the rows; `notes` are lines for standard error; `sections` make the page; `condition_rows` are the rows
    for --fail-if (None: those of the result); `subject` is the subtitle of the page (None: the topics).
    """

    result: Result
    notes: Sequence[str] = ()
    sections: Callable[[], Sequence[Section]] | None = None
    condition_rows: Result | None = None
    subject: str | None = None


def report_findings(
    job: Job,
    kind: str,
    source: KafkaSource,
    find: Callable[[SparkSession], Findings],
    *,
    view: str = "records",
    columns: Sequence[str] | None = None,
    shown_columns: Sequence[str] = (),
    fail_if: str | None = None,
    page: str | None = None,
    preflight: Callable[[], Survey] | None = None,
) -> int:
    """Run a pipeline as `run_pipeline` does; return an exit status.

    `shown_columns` are those that `fail_if` may use; `page` is a path. ConfigError for a condition or page that is not
    valid, before anything starts.
    """
    from kcli.cli.spark.page import check_page
    from kcli.cli.spark.results import rounded
    from kcli.cli.spark.session import run_pipeline

    threshold = None if fail_if is None else parse_threshold(fail_if, shown_columns)
    if page is not None:
        check_page(page)
    findings: list[Findings] = []

    def worked(spark: SparkSession) -> Result:
        findings.append(find(spark))
        return rounded(findings[0].result)

    def judge(_: Result) -> int:
        for notes in findings[0].notes:
            job.env.report(notes)
        if page is not None:
            _write(job, kind, source, findings[0], page)
        matching_rows = (
            [] if threshold is None else threshold.matches((findings[0].condition_rows or findings[0].result).rows)
        )
        if not matching_rows:
            return exit_status.DONE
        more = f" (and {len(matching_rows) - 1} more)" if len(matching_rows) > 1 else ""
        job.env.report(f"{fail_if} is true: {matching_rows[0]}{more}")
        return exit_status.THRESHOLD

    return run_pipeline(job, kind, source, worked, view=view, columns=columns, judge=judge, preflight=preflight)


def _write(job: Job, kind: str, source: KafkaSource, findings: Findings, page: str) -> None:
    from kcli.cli.spark.page import write_page

    sections = findings.sections() if findings.sections is not None else ()
    subject = ", ".join(source.topics) if findings.subject is None else findings.subject
    about = [f"Brokers: {source.kafka['bootstrap.servers']}"]
    if findings.subject is None:
        about.append(f"Records: {span_of(source)}")
    write_page(page, f"kcli {kind.replace('.', ' ')}", subject, job.env.clock.wall_ms(), sections, about)
    job.env.report(f"page written to {page}")


def span_of(source: KafkaSource) -> str:
    """Return the range and the filter of a source as text: from a position until another one."""

    def position(options: Mapping[str, str], name: str, default: str) -> str:
        if f"{name}Timestamp" in options:
            return options[f"{name}Timestamp"]
        offsets = options.get(f"{name}Offsets", default)
        return "given offsets" if offsets.startswith("{") else offsets

    start, end = position(source.start, "starting", "earliest"), position(source.until, "ending", "latest")
    return f"from {start} until {end}" + ("" if source.where is None else f", where {source.where}")


#: Text columns of pipelines: a numeric condition on them would never hold.
TEXTS = frozenset(
    (
        *("topic", "key", "hottest_key", "group", "field", "types", "change", "time", "committed_at"),
        *("window", "peak_at", "first_window", "last_window", "oldest", "newest"),
        *("first_seen", "last_seen", "first_at", "last_at"),
    )
)


class Threshold(NamedTuple):
    """A condition on the columns of rows. It does not hold for a row in which a decisive column has no number."""

    condition: Condition

    def matches(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
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
    names = [f"{name} is {value}" for name, value in row.items() if isinstance(value, str) or name == "partition"]
    return f" where {', '.join(names[:3])}" if names else ""


def with_default_limit(text: str | None) -> str | None:
    """Return the condition with `>0` added to a column alone: `different` is `different>0`."""
    return f"{text}>0" if text is not None and re.fullmatch(r"\w+", text) else text


def parse_threshold(text: str, columns: Sequence[str]) -> Threshold:
    """Parse `share>0.2`, `share > 20%`, `drift=1 or nulls>0`: true and false are 1 and 0. ConfigError."""
    try:
        return Threshold(parse_condition(text, {name: Kind.TEXT if name in TEXTS else Kind.NUMBER for name in columns}))
    except ConfigError as error:
        raise ConfigError(f"--fail-if: {error}") from None
