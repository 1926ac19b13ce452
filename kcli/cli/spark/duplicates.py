"""`kcli spark duplicates`: find records that repeat others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.parser import Option
from kcli.cli.spark.findings import FailIf, Findings, report_findings
from kcli.cli.spark.options import MAX_ROWS, Job, Topics
from kcli.errors import ConfigError
from kcli.text import parse_duration_option

if TYPE_CHECKING:
    from kcli.spark.pipelines.duplicates import Duplicates


def run(
    env: Environment,
    job: Job,
    topic: Topics = None,
    by: Annotated[
        str, Option("--by", metavar="key|key,value|sequence", help="Compare records by these fields.")
    ] = "key",
    within: Annotated[
        str | None, Option("--within", metavar="DURATION", help="Count only repeats within this time, for example 10m.")
    ] = None,
    top: Annotated[
        int | None, Option("--top", metavar="N", min=1, max=MAX_ROWS, help="Show the N groups with most repeats. [20]")
    ] = None,
    summary: Annotated[bool, Option("--summary", help="Show one row per topic instead.")] = False,
    fail_if: FailIf = None,
) -> int:
    """Find records that repeat another record of the topic, in any partition.

    --by key: equal keys; records without a key are left out. --by key,value: equal keys and values; null equals null.
    --by sequence: equal sequence number of the same producer in a partition, which idempotence should prevent; records
    without a sequence number are left out, and numbers start again after 2^31 records of a producer.

    A group of N equal records has N-1 repeats. With --within, a repeat counts only if its timestamp is at most that
    long after the previous copy. Records of aborted transactions count, unless -X isolation.level=read_committed.
    """
    from kcli.spark.pipelines import duplicates
    from kcli.spark.pipelines.duplicates import TOP, TOPIC_COLUMNS, DuplicateOptions, group_columns, parse_by

    if summary and top is not None:
        raise ConfigError("--top cannot be combined with --summary")
    options = DuplicateOptions(
        parse_by(by), None if within is None else parse_duration_option("--within", within, at_least=0)
    )
    source = job.source(topic)
    return report_findings(
        job,
        "spark.duplicates",
        source,
        lambda spark: _findings(duplicates.run(spark, source, options, top or TOP), summary=summary),
        columns=options.columns,
        shown_columns=TOPIC_COLUMNS if summary else group_columns(options.by),
        fail_if=fail_if,
    )


def _findings(duplicates: Duplicates, *, summary: bool) -> Findings:
    if summary:
        return Findings(duplicates.topics)
    notes = [
        f"{row['topic']}: {row['repeats']:,} of {row['records']:,} records are repeats, {row['repeated']:,} of "
        f"{row['distinct']:,} groups have some; {row['left_out']:,} records left out"
        for row in duplicates.topics.rows
    ]
    return Findings(duplicates.groups, notes)
