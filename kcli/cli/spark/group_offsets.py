"""`kcli spark group-offsets`: what all groups have committed, kept as a file, or compared with one."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.cli.spark.files import check_file, write_whole
from kcli.cli.spark.findings import FailIf
from kcli.cli.spark.options import Job, Topics
from kcli.errors import ConfigError, KcliError, NotFound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.admin.offsets.plan_files import Positions
    from kcli.cli.environment import Environment
    from kcli.cli.spark.findings import Findings
    from kcli.cli.spark.options import Job
    from kcli.cli.spark.survey import Survey
    from kcli.spark.pipelines.source import KafkaSource


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
    from kcli.cli.spark.options import parse_groups
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


_GLANCE_MS = 5_000
"""How long brokers have to answer where Spark is not in want of them here."""


class Wishes(NamedTuple):
    """Groups, None for all; the file to save; what to compare with; whether to show what has not moved."""

    groups: tuple[str, ...] | None
    to: str | None
    old: Positions | None
    every: bool


def check_target(to: str | None) -> None:
    """ConfigError for a file that cannot be one."""
    if to in ("", "-"):
        raise ConfigError(f"--to names a file, not '{to}'")
    if to is not None:
        check_file("--to", to)


def read_old(path: str, env: Environment) -> Positions:
    """The positions in a file. ConfigError if it holds none, or those of no group in particular."""
    from kcli.admin.offsets.plan import Plan
    from kcli.admin.offsets.plan_reading import read_plan_file
    from kcli.cli.offsets.files import file_name, load_text

    found = read_plan_file(load_text(path, env.stdin_bytes), file_name(path))
    if isinstance(found, Plan):
        raise ConfigError(f"{file_name(path)} is a plan: --diff takes saved positions")
    if any(group is None for group, _ in found.offsets):
        raise ConfigError(f"{file_name(path)} does not say whose offsets these are")
    return found


def look(job: Job, source: KafkaSource, wishes: Wishes, cluster: list[str | None]) -> Survey:
    """Before Spark starts: do brokers answer, are the named groups and topics there, is it the old file's cluster? What
    cluster it is goes into `cluster`."""
    from kcli.admin.groups.describe import describe_groups
    from kcli.admin.offsets.inspection import check_cluster
    from kcli.admin.topics import find_partitions
    from kcli.cli.spark.survey import survey

    deadline_ms = job.common.deadline_ms()
    saved = set() if wishes.old is None else {tp.topic for _, tp in wishes.old.offsets}
    wanted = {topic: numbers for topic, numbers in source.topics.items() if topic not in saved}
    with closing(job.common.connect()) as client:
        check_cluster(client, None if wishes.old is None else wishes.old.cluster_id, deadline_ms)
        cluster.append(client.metadata.cluster.cluster_id)
        if wishes.groups is not None:
            for error in describe_groups(client, dict.fromkeys(wishes.groups), deadline_ms).errors.values():
                raise error
        if wanted:
            find_partitions(client, {topic: None if it is None else [*it] for topic, it in wanted.items()}, deadline_ms)
    groups = {} if wishes.groups is None else {"groups": ",".join(wishes.groups)}
    return survey(source._replace(topics={}, start={}, where=None, more={**source.more, **groups}), "lag")


def cluster_from_here(job: Job, wishes: Wishes) -> str | None:
    """With --remote brokers may be for the server alone to reach: None if none answers here. WrongCluster if it is not
    the old file's."""
    from kcli.admin.offsets.inspection import WrongCluster, check_cluster

    deadline_ms = min(job.common.deadline_ms(), job.env.clock.now_ms() + _GLANCE_MS)
    try:
        with closing(job.common.connect()) as client:
            check_cluster(client, None if wishes.old is None else wishes.old.cluster_id, deadline_ms)
            return client.metadata.cluster.cluster_id
    except WrongCluster:
        raise
    except (KcliError, OSError):
        return None


def findings(job: Job, spark: SparkSession, source: KafkaSource, wishes: Wishes, cluster_id: str | None) -> Findings:
    """Read, compare, save. NotFound if there is nothing to save."""
    from kcli.cli.spark.findings import Findings
    from kcli.spark.pipelines import group_offsets
    from kcli.spark.pipelines.result import Result

    now_ms = job.env.clock.wall_ms()
    found = group_offsets.run(spark, source, wishes.groups, wishes.old)
    words = _unsure(wishes, cluster_id)
    if wishes.to is not None:
        if not found.rows:
            raise NotFound(f"nothing of this is committed, so {wishes.to} is not written")
        save(wishes.to, group_offsets.positions_of(found, cluster_id, now_ms))
        words.append(f"{len(found.rows):,} positions of {len(found.groups):,} groups in {wishes.to}")
    if wishes.old is not None:
        every = group_offsets.difference(wishes.old, found, now_ms, source.topics, wishes.groups)
        moved = [row for row in every.rows if row["change"] != group_offsets.SAME]
        if not wishes.every:
            words.append(f"{len(every.rows) - len(moved):,} of {len(every.rows):,} have not moved")
        return Findings(every if wishes.every else Result(every.columns, moved), words, judged=every)
    rows = group_offsets.snapshot_result(found)
    if wishes.to is None:
        return Findings(rows, words)
    return Findings(Result(group_offsets.GROUP_COLUMNS, found.groups), words, judged=rows)


def _unsure(wishes: Wishes, cluster_id: str | None) -> list[str]:
    """What nobody has made sure of: offsets of one cluster mean nothing in another."""
    words = []
    if wishes.to is not None and cluster_id is None:
        words.append(f"no broker has told from here which cluster this is: {wishes.to} does not say it either")
    if wishes.old is not None and (cluster_id is None or wishes.old.cluster_id is None):
        who = "that file does not say" if cluster_id is not None else "no broker has told from here which this is"
        words.append(f"whether the file of --diff is of this cluster is not known: {who}")
    return words


def save(path: str, positions: Positions) -> None:
    """Write the file, or leave the one that is there as it is. OSError."""
    from kcli.admin.offsets.plan_files import positions_as_csv, positions_as_json

    text = positions_as_csv(positions) if path.endswith(".csv") else positions_as_json(positions)
    write_whole(path, lambda to: Path(to).write_text(text, encoding="utf-8", newline=""))
