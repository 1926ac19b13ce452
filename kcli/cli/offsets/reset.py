"""`kcli offsets reset`: move committed offsets of groups to other offsets."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

from kcli.cli.environment import Environment
from kcli.cli.group.selection import GroupNames, Match
from kcli.cli.mutation import Execute
from kcli.cli.offsets.options import IfOutOfRangeText
from kcli.cli.options import Common
from kcli.cli.parser import Option


def run(
    env: Environment,
    common: Common,
    group: GroupNames = None,
    match: Match = None,
    to_earliest: Annotated[bool, Option("--to-earliest", help="Move to the start of the log.")] = False,
    to_latest: Annotated[bool, Option("--to-latest", help="Move to the end of the log.")] = False,
    to_current: Annotated[
        bool, Option("--to-current", help="Keep the current offsets: show or save them as a plan.")
    ] = False,
    to_offset: Annotated[
        int | None, Option("--to-offset", metavar="N", help="Move to this offset in every partition.")
    ] = None,
    shift_by: Annotated[
        int | None, Option("--shift-by", metavar="N", help="Move by N offsets, back if N is negative.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        Option(
            "--to-datetime",
            metavar="TIME",
            help="Move to the first record at or after this time: 2024-01-31T10:00, with Z or +02:00 (none: UTC).",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        Option(
            "--by-duration",
            metavar="DURATION",
            help="Move to the first record of this time before now: 1h30m, PT1H30M.",
        ),
    ] = None,
    from_file: Annotated[
        str | None,
        Option(
            "--from-file", metavar="FILE", help="Move to the offsets of a plan, an export, or Apache's CSV; -: stdin."
        ),
    ] = None,
    to_group_of: Annotated[
        str | None, Option("--to-group-of", metavar="GROUP", help="Move to the committed offsets of this other group.")
    ] = None,
    all_topics: Annotated[
        bool, Option("--all-topics", help="Move all partitions of the topics in which the group has committed.")
    ] = False,
    topic: Annotated[
        list[str] | None,
        Option("--topic", "-t", metavar="TOPIC[:P,P]", help="Move only this topic, or these partitions; repeatable."),
    ] = None,
    if_no_record: Annotated[
        str,
        Option(
            "--if-no-record",
            metavar="refuse|end|skip",
            help="Without a record since that time, or an offset to shift: refuse, use the log end, or skip. [refuse]",
        ),
    ] = "refuse",
    if_out_of_range: IfOutOfRangeText = "refuse",
    execute: Execute = False,
) -> int:
    """Move committed offsets of groups to other offsets.

    Without --execute the command only shows the plan: OLD and NEW offset, the number of records REREAD or SKIPPED,
    their size in BYTES (~: an estimate), time and key of the FIRST-RECORD at the new offset, and WHY. Saved as json or
    csv, it is a plan that `kcli offsets apply` applies unchanged.

    A TIME is also 2024-01-31, seconds (9 or 10 digits) or milliseconds (12 or 13 digits) since 1970, or -1h30m. WHY has
    the time in UTC, and says if it is before the first record or after the last one.

    A plan is written only as a whole. A group with members, a partition without such an offset, and offsets that change
    meanwhile are refused with status 4; topics or partitions that do not exist with status 3. Status 1: some partitions
    failed during the write; their rows have the error. After a lost response the committed offsets are read; the status
    of a row that may be written is unknown, and the exit status is 5. Every --execute saves the previous offsets for
    `kcli offsets undo`.
    """
    from kcli.admin.groups.listing import select_groups
    from kcli.admin.offsets.checks import check_cluster
    from kcli.admin.offsets.reset import plan_group_reset, target_in_file, target_of_group
    from kcli.cli.group.selection import check_selection, without_collections
    from kcli.cli.offsets.options import TargetOptions, file_name, parse_policies, parse_reset_scope, read_text
    from kcli.cli.offsets.run_plan import run_plan
    from kcli.errors import NotFound

    found = check_selection(group or (), match)
    target = TargetOptions(
        to_earliest, to_latest, to_current, to_offset, shift_by, to_datetime, by_duration, from_file, to_group_of
    ).target(env.clock.wall_ms())
    scope = parse_reset_scope(topic or [], all_topics=all_topics, optional=from_file is not None)
    policies = parse_policies(if_no_record, if_out_of_range)
    cluster_id = None
    if from_file is not None:
        target, cluster_id = target_in_file(read_text(from_file, env.stdin_bytes), file_name(from_file))
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client, without_collections():
        check_cluster(client, cluster_id, deadline_ms)
        selected = select_groups(client, group or (), found, deadline_ms)
        for error in selected.failed_brokers.values():
            raise error
        if not selected.groups:
            raise NotFound("no group name matches --match")
        target = target or target_of_group(client, to_group_of or "", deadline_ms)
        plan = plan_group_reset(client, selected.groups, target, deadline_ms, scope=scope, **policies)
        return run_plan(env, common, client, plan, deadline_ms, execute=execute)
