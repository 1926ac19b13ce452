"""`kcli spark compare`: whether a mirror has what its original has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.spark.options import Job
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.spark.findings import Findings
    from kcli.spark.pipelines.compare import Comparison


def run(
    env: Environment,
    common: Common,
    job: Job,
    first: Annotated[str, Argument(metavar="TOPIC[:P,P..]", help="The original, or some partitions of it.")],
    second: Annotated[
        str | None, Argument(metavar="[TOPIC[:P,P..]]", help="What to compare it with. [the same topic]")
    ] = None,
    bootstrap2: Annotated[
        str | None, Option("--bootstrap2", metavar="HOST:PORT,...", help="The second topic's brokers, if others.")
    ] = None,
    command_config2: Annotated[
        str | None,
        Option("--command-config2", metavar="FILE", help="Properties for those, instead of all of the first's."),
    ] = None,
    by: Annotated[
        str,
        Option("--by", metavar="WHAT,...", help="key, value, headers, timestamp, partition: must be equal."),
    ] = "key,value",
    top: Annotated[
        int | None, Option("--top", metavar="N", min=1, help="So many differences, the largest. [20]")
    ] = None,
    summary: Annotated[bool, Option("--summary", help="One row of totals instead of the differences.")] = False,
    fail_if: Annotated[
        str | None,
        Option("--fail-if", metavar="COLUMN[>N]", help="Exit with 6 if it is so of the totals, as 'different'."),
    ] = None,
) -> int:
    """Compare two topics, of one cluster or of two: which records are not equally often in both.

    Records are the same if they are equal in all that --by names. --by key counts each key's records, whatever their
    values; partitions, offsets and order never matter, but for --by partition. Rows are what differs: how often it is
    in the first and in the second topic, the difference, and the PARTITION:OFFSET of one of them in each. Of values and
    headers sizes are shown.

    Totals: records of the first and second; kinds of records that are the same, different, and of these only_first and
    only_second; records that are lacking in the second, and extra there. --from, --until, --where and the options of
    the source are for both; a topic that still grows differs by what comes between the two looks, so end both at one
    --until. A mirror does not copy aborted records: -X isolation.level=read_committed leaves them out.
    """
    from kcli.cli.spark.comparing import look_at, sources_of
    from kcli.cli.spark.findings import find
    from kcli.cli.spark.threshold import or_any
    from kcli.spark.pipelines import compare

    if summary and top is not None:
        raise ConfigError("--top is for differences, of which --summary tells none")
    ways = compare.parse_by(by)
    one, two = sources_of(job, first, second, bootstrap2, command_config2)
    return find(
        job,
        "spark.compare",
        one,
        lambda spark: _findings(compare.run(spark, one, two, ways, top or compare.TOP), summary=summary),
        shown=compare.SUMMARY_COLUMNS,
        fail_if=or_any(fail_if),
        look=lambda: look_at(one, two, compare.columns(ways)),
    )


def _findings(found: Comparison, *, summary: bool) -> Findings:
    from kcli.cli.spark.findings import Findings

    [row] = found.summary.rows
    words = (
        f"{row['first']:,} records in the first, {row['second']:,} in the second: {row['lacking']:,} lacking, "
        f"{row['extra']:,} extra"
    )
    return Findings(found.summary if summary else found.differences, () if summary else [words], judged=found.summary)
