"""What `kcli spark group-offsets` does beside Spark: the file to save, the old one, the groups that are named."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.admin.offsets.plan_files import Positions
    from kcli.cli.environment import Environment
    from kcli.cli.spark.findings import Findings
    from kcli.cli.spark.options import Job
    from kcli.cli.spark.survey import Survey
    from kcli.spark.pipelines.source import KafkaSource


class Wishes(NamedTuple):
    """Groups, None for all; the file to save; what to compare with; whether to show what has not moved."""

    groups: tuple[str, ...] | None
    to: str | None
    old: Positions | None
    every: bool


def check_target(to: str | None) -> None:
    """ConfigError for a file that cannot be one."""
    if to is None:
        return
    folder = os.path.dirname(to) or "."
    if to in ("", "-") or os.path.isdir(to):
        raise ConfigError(f"--to names a file, not '{to}'")
    if not os.path.isdir(folder):
        raise ConfigError(f"--to: there is no folder {folder}")


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
    """Before Spark starts: do brokers answer, are the named groups there, is it the old file's cluster? What cluster
    it is goes into `cluster`."""
    from kcli.admin.groups.describe import describe_groups
    from kcli.admin.offsets.inspection import check_cluster
    from kcli.cli.spark.survey import survey

    deadline_ms = job.common.deadline_ms()
    with closing(job.common.connect()) as client:
        check_cluster(client, None if wishes.old is None else wishes.old.cluster_id, deadline_ms)
        cluster.append(client.metadata.cluster.cluster_id)
        if wishes.groups is not None:
            for error in describe_groups(client, dict.fromkeys(wishes.groups), deadline_ms).errors.values():
                raise error
    groups = {} if wishes.groups is None else {"groups": ",".join(wishes.groups)}
    return survey(source._replace(topics={}, start={}, where=None, more={**source.more, **groups}), "lag")


def findings(job: Job, spark: SparkSession, source: KafkaSource, wishes: Wishes, cluster_id: str | None) -> Findings:
    """Read, compare, save."""
    from kcli.cli.spark.findings import Findings
    from kcli.spark.pipelines import group_offsets
    from kcli.spark.pipelines.result import Result

    now_ms = job.env.clock.wall_ms()
    found = group_offsets.run(spark, source, wishes.groups)
    words = []
    if wishes.to is not None:
        save(wishes.to, group_offsets.positions_of(found, cluster_id, now_ms))
        words.append(f"{len(found.rows):,} positions of {len(found.groups):,} groups in {wishes.to}")
    if wishes.old is not None:
        every = group_offsets.difference(wishes.old, found, now_ms, source.topics, wishes.groups)
        moved = [row for row in every.rows if row["change"] != group_offsets.SAME]
        if not wishes.every:
            words.append(f"{len(every.rows) - len(moved):,} of {len(every.rows):,} have not moved")
        return Findings(every if wishes.every else Result(every.columns, moved), words, judged=every)
    rows = group_offsets.shown(found)
    if wishes.to is None:
        return Findings(rows, words)
    return Findings(Result(group_offsets.GROUP_COLUMNS, found.groups), words, judged=rows)


def save(path: str, positions: Positions) -> None:
    """Write the file, or leave the one that is there as it is. OSError."""
    from kcli.admin.offsets.plan_files import positions_as_csv, positions_as_json

    text = positions_as_csv(positions) if path.endswith(".csv") else positions_as_json(positions)
    beside = f"{path}.part"
    with open(beside, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.replace(beside, path)
