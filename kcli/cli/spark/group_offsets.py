"""`kcli spark group-offsets`: what all groups have committed, kept as a file, or compared with one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.cli.spark.findings import FailIf
from kcli.cli.spark.options import Job, Topics
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.cli.spark.findings import Findings


def run(
    env: Environment,
    common: Common,
    job: Job,
    topic: Topics = None,
    groups: Annotated[str | None, Option("--groups", metavar="GROUP,...", help="Only these. [all]")] = None,
    to: Annotated[
        str | None, Option("--to", metavar="FILE", help="Save the positions, as json, or csv if it ends in .csv.")
    ] = None,
    diff: Annotated[
        str | None, Option("--diff", metavar="OLD", help="What has moved since this file was saved.")
    ] = None,
    every: Annotated[bool, Option("--all", help="With --diff: also what has not moved.")] = False,
    fail_if: FailIf = None,
) -> int:
    """What groups have committed, and their lag: a row for each partition.

    --to saves the positions with leader epochs and notes; `kcli offsets apply` and `kcli offsets reset --from-file`
    take the file. The rows are then those of groups. It is all or nothing: if anything cannot be read, or nothing is
    committed, no file is written. Share groups are left out: they commit no offsets.

    --diff tells what became of each position in a file that --to or `kcli offsets export` has saved: forward, back,
    gone, new, with --all also same; by how many offsets, and how fast. --fail-if looks at those that are the same, too:
    --fail-if 'moved=0' finds who stands still. Both together compare first and then save.

    --where is about what is committed now, as in --where 'lag > 0'; of what is gone only group, topic and partition are
    known to it.
    """
    from kcli.cli.spark.findings import find
    from kcli.cli.spark.group_names import parse_groups
    from kcli.cli.spark.offset_snapshots import Wishes, check_target, cluster_from_here, findings, look, read_old
    from kcli.spark.pipelines import group_offsets

    if every and diff is None:
        raise ConfigError("--all is for --diff")
    job.refuse("is not for group-offsets, which are those of now", "--from", "--until")
    check_target(to)
    wishes = Wishes(parse_groups(groups), to, None if diff is None else read_old(diff, env), every)
    source = job.source(topic, needs_topics=False)
    cluster: list[str | None] = []

    def work(spark: SparkSession) -> Findings:
        return findings(job, spark, source, wishes, cluster[0] if cluster else cluster_from_here(job, wishes))

    shown = group_offsets.DIFF_COLUMNS if diff else group_offsets.COLUMNS
    return find(
        job,
        "spark.group-offsets",
        source,
        work,
        shown=shown,
        fail_if=fail_if,
        look=lambda: look(job, source, wishes, cluster),
    )
