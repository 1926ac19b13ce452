"""`kcli spark group-offsets`: show, save or compare the committed offsets of all groups."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, NamedTuple

from kcli.cli.environment import Environment
from kcli.cli.parser import Option
from kcli.cli.spark.files import check_file, output_file
from kcli.cli.spark.findings import FailIf, Findings, report_findings
from kcli.cli.spark.options import Job, Topics, parse_groups
from kcli.errors import ConfigError, KcliError, NotFound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.admin.offsets.plan_files import Positions
    from kcli.spark.pipelines.source import KafkaSource
    from kcli.spark.pipelines.survey import Survey


def run(
    env: Environment,
    job: Job,
    topic: Topics = None,
    groups: Annotated[str | None, Option("--groups", metavar="GROUP,...", help="Read only these groups. [all]")] = None,
    to: Annotated[
        str | None, Option("--to", metavar="FILE", help="Save the positions as JSON, or as CSV if it ends in .csv.")
    ] = None,
    diff: Annotated[str | None, Option("--diff", metavar="OLD", help="Compare with a saved file.")] = None,
    every: Annotated[bool, Option("--all", help="With --diff, also show unmoved positions.")] = False,
    fail_if: FailIf = None,
) -> int:
    """Show committed offsets and lag of all groups: a row for each partition.

    --to saves the offsets with leader epochs and metadata, for `kcli offsets apply` and `kcli offsets reset
    --from-file`; the rows are then those of groups. If anything cannot be read, or nothing is committed, no file is
    written. Share groups are left out: they commit no offsets.

    --diff compares with a file saved by --to or `kcli offsets export`: each position has moved forward or back, is gone
    or new, or with --all the same; with the number of offsets and the rate. --fail-if always applies to unmoved
    positions as well: --fail-if 'moved=0' finds groups that do not progress. With --to and --diff, the comparison is
    made first.

    --where applies to present offsets, for example --where 'lag > 0'; a position that is gone has only group, topic and
    partition.
    """
    from kcli.spark.pipelines import group_offsets

    if every and diff is None:
        raise ConfigError("--all requires --diff")
    job.refuse("cannot be used: group-offsets reads the present offsets", "--from", "--until")
    check_target(to)
    options = SnapshotOptions(parse_groups(groups), to, None if diff is None else read_old(diff, env), every)
    source = job.source(topic, needs_topics=False)
    cluster: list[str | None] = []

    def find(spark: SparkSession) -> Findings:
        return findings(job, spark, source, options, cluster[0] if cluster else cluster_from_here(job, options))

    columns = group_offsets.DIFF_COLUMNS if diff else group_offsets.COLUMNS
    return report_findings(
        job,
        "spark.group-offsets",
        source,
        find,
        shown_columns=columns,
        fail_if=fail_if,
        preflight=lambda: preflight(job, source, options, cluster),
    )


_OPTIONAL_TIMEOUT_MS = 5_000
"""Timeout for brokers that are optional here."""


class SnapshotOptions(NamedTuple):
    """Groups (None: all), the file to save, the positions to compare with, and whether unmoved ones are shown."""

    groups: tuple[str, ...] | None
    to: str | None
    old: Positions | None
    every: bool


def check_target(to: str | None) -> None:
    """Raise ConfigError for a file that cannot be written."""
    if to in ("", "-"):
        raise ConfigError(f"--to: {to!r} is not a file name")
    if to is not None:
        check_file("--to", to)


def read_old(path: str, env: Environment) -> Positions:
    """Return the positions in a file. ConfigError if it has none, or they belong to no named group."""
    from kcli.admin.offsets.offset_plan import OffsetPlan
    from kcli.admin.offsets.plan_reading import read_plan_file
    from kcli.cli.offsets.options import file_name, read_text

    positions = read_plan_file(read_text(path, env.stdin_bytes), file_name(path))
    if isinstance(positions, OffsetPlan):
        raise ConfigError(f"{file_name(path)} is a plan; --diff takes saved positions")
    if any(group is None for group, _ in positions.offsets):
        raise ConfigError(f"{file_name(path)} does not name the groups of its offsets")
    return positions


def preflight(job: Job, source: KafkaSource, options: SnapshotOptions, cluster: list[str | None]) -> Survey:
    """Check before Spark starts that brokers answer, named groups and topics exist, and the old file is of this
    cluster.

    Appends the cluster id to `cluster`.
    """
    from kcli.admin.groups.describe import describe_groups
    from kcli.admin.offsets.checks import check_cluster
    from kcli.admin.topics import find_partitions
    from kcli.spark.pipelines.survey import survey

    deadline_ms = job.common.deadline_ms()
    saved = set() if options.old is None else {tp.topic for _, tp in options.old.offsets}
    unsaved = {topic: numbers for topic, numbers in source.topics.items() if topic not in saved}
    with closing(job.common.connect()) as client:
        check_cluster(client, None if options.old is None else options.old.cluster_id, deadline_ms)
        cluster.append(client.metadata.cluster.cluster_id)
        if options.groups is not None:
            for error in describe_groups(client, dict.fromkeys(options.groups), deadline_ms).errors.values():
                raise error
        if unsaved:
            find_partitions(
                client,
                {topic: None if numbers is None else [*numbers] for topic, numbers in unsaved.items()},
                deadline_ms,
            )
    groups = {} if options.groups is None else {"groups": ",".join(options.groups)}
    return survey(source._replace(topics={}, start={}, where=None, more={**source.more, **groups}), "lag")


def cluster_from_here(job: Job, options: SnapshotOptions) -> str | None:
    """Return the cluster id, or None if no broker answers here: with --remote only the server may reach them.

    WrongCluster if the old file is of another cluster.
    """
    from kcli.admin.offsets.checks import WrongCluster, check_cluster

    deadline_ms = min(job.common.deadline_ms(), job.env.clock.now_ms() + _OPTIONAL_TIMEOUT_MS)
    try:
        with closing(job.common.connect()) as client:
            check_cluster(client, None if options.old is None else options.old.cluster_id, deadline_ms)
            return client.metadata.cluster.cluster_id
    except WrongCluster:
        raise
    except (KcliError, OSError):
        return None


def findings(
    job: Job, spark: SparkSession, source: KafkaSource, options: SnapshotOptions, cluster_id: str | None
) -> Findings:
    """Read, compare and save the offsets. NotFound if there are none to save."""
    from kcli.spark.pipelines import group_offsets
    from kcli.spark.pipelines.result import Result

    now_ms = job.env.clock.wall_ms()
    snapshot = group_offsets.run(spark, source, options.groups, options.old)
    notes = _cluster_warnings(options, cluster_id)
    if options.to is not None:
        if not snapshot.rows:
            raise NotFound(f"no committed offsets found; {options.to} was not written")
        save(options.to, group_offsets.positions_of(snapshot, cluster_id, now_ms))
        notes.append(f"{len(snapshot.rows):,} positions of {len(snapshot.groups):,} groups saved to {options.to}")
    if options.old is not None:
        every = group_offsets.difference(options.old, snapshot, now_ms, source.topics, options.groups)
        moved = [row for row in every.rows if row["change"] != group_offsets.SAME]
        if not options.every:
            notes.append(f"{len(every.rows) - len(moved):,} of {len(every.rows):,} positions have not moved")
        return Findings(every if options.every else Result(every.columns, moved), notes, condition_rows=every)
    rows = group_offsets.snapshot_result(snapshot)
    if options.to is None:
        return Findings(rows, notes)
    return Findings(Result(group_offsets.GROUP_COLUMNS, snapshot.groups), notes, condition_rows=rows)


def _cluster_warnings(options: SnapshotOptions, cluster_id: str | None) -> list[str]:
    """Return warnings about an unknown cluster id: offsets of one cluster have no meaning in another."""
    notes = []
    if options.to is not None and cluster_id is None:
        notes.append(f"the cluster id is unknown, because no broker answers here; {options.to} does not have it")
    if options.old is not None and (cluster_id is None or options.old.cluster_id is None):
        reason = "the file has no cluster id" if cluster_id is not None else "no broker answers here"
        notes.append(f"cannot check that the file of --diff is of this cluster: {reason}")
    return notes


def save(path: str, positions: Positions) -> None:
    """Write the file atomically. OSError."""
    from kcli.admin.offsets.plan_files import positions_as_csv, positions_as_json

    text = positions_as_csv(positions) if path.endswith(".csv") else positions_as_json(positions)
    with output_file(path) as file:
        file.write(text.encode())
