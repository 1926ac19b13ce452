"""`kcli spark duplicates`: records that are there more than once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.cli.spark.findings import FailIf
from kcli.cli.spark.options import Job, Topics
from kcli.errors import ConfigError
from kcli.text import parse_duration_option

if TYPE_CHECKING:
    from kcli.cli.spark.findings import Findings
    from kcli.spark.pipelines.duplicates import Duplicates


def run(
    env: Environment,
    common: Common,
    job: Job,
    topic: Topics = None,
    by: Annotated[
        str, Option("--by", metavar="key|key,value|sequence", help="What equal records have in common.")
    ] = "key",
    within: Annotated[
        str | None, Option("--within", metavar="DURATION", help="Only repeats that come that soon, as in 10m.")
    ] = None,
    top: Annotated[
        int | None, Option("--top", metavar="N", min=1, help="So many groups, those with most repeats. [20]")
    ] = None,
    summary: Annotated[bool, Option("--summary", help="A row for each topic instead of the groups.")] = False,
    fail_if: FailIf = None,
) -> int:
    """Records of a topic that repeat another, in whichever partition.

    --by key: the same key; records without one are left out. --by key,value: also the same value; no key, or no value,
    is equal to none. --by sequence: the same number of the same producer in a partition, which idempotence is there to
    prevent; records without such numbers are left out, and after 2^31 records a producer's numbers begin anew.

    A group of N equal records has N-1 repeats. With --within only those count whose timestamp is at most that long
    after that of the copy before. Records of aborted transactions count, unless -X isolation.level=read_committed.
    """
    from kcli.cli.spark.findings import find
    from kcli.spark.pipelines import duplicates
    from kcli.spark.pipelines.duplicates import TOP, TOPIC_COLUMNS, DuplicateOptions, group_columns, parse_by

    if summary and top is not None:
        raise ConfigError("--top is for groups, of which --summary tells none")
    wish = DuplicateOptions(
        parse_by(by), None if within is None else parse_duration_option("--within", within, at_least=0)
    )
    source = job.source(topic)
    return find(
        job,
        "spark.duplicates",
        source,
        lambda spark: _findings(duplicates.run(spark, source, wish, top or TOP), summary=summary),
        columns=wish.columns,
        shown=TOPIC_COLUMNS if summary else group_columns(wish.by),
        fail_if=fail_if,
    )


def _findings(found: Duplicates, *, summary: bool) -> Findings:
    from kcli.cli.spark.findings import Findings

    if summary:
        return Findings(found.topics)
    words = [
        f"{row['topic']}: {row['repeats']:,} of {row['records']:,} records are repeats, {row['repeated']:,} of "
        f"{row['distinct']:,} groups have some; {row['left_out']:,} records left out"
        for row in found.topics.rows
    ]
    return Findings(found.groups, words)
