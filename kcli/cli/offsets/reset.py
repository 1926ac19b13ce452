"""`kcli offsets reset`: move what groups have committed, after showing what that means."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

from kcli.cli.environment import Environment
from kcli.cli.group.selection import Execute, GroupNames, Match
from kcli.cli.options import Common
from kcli.cli.parser import Option


def run(
    env: Environment,
    common: Common,
    group: GroupNames = None,
    match: Match = None,
    to_earliest: Annotated[bool, Option("--to-earliest", help="To the start of the log.")] = False,
    to_latest: Annotated[bool, Option("--to-latest", help="To the end of the log.")] = False,
    to_current: Annotated[
        bool, Option("--to-current", help="To where the group is; it shows, or saves, the positions.")
    ] = False,
    to_offset: Annotated[
        int | None, Option("--to-offset", metavar="N", help="To this offset in every partition.")
    ] = None,
    shift_by: Annotated[
        int | None, Option("--shift-by", metavar="N", help="So many offsets forward, or back: -100.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        Option(
            "--to-datetime",
            metavar="TIME",
            help="To the first record of this time or later: 2024-01-31T10:00:00.000, with Z or +02:00 (none: UTC).",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        Option("--by-duration", metavar="DURATION", help="The same, so long before now: 1h30m, or PT1H30M."),
    ] = None,
    from_file: Annotated[
        str | None,
        Option(
            "--from-file", metavar="FILE", help="To offsets of a plan, an export, or Apache's CSV; - is standard input."
        ),
    ] = None,
    to_group_of: Annotated[
        str | None, Option("--to-group-of", metavar="GROUP", help="To where this other group is.")
    ] = None,
    all_topics: Annotated[
        bool, Option("--all-topics", help="All partitions of the topics that the group has committed in.")
    ] = False,
    topic: Annotated[
        list[str] | None,
        Option("--topic", "-t", metavar="TOPIC[:P,P]", help="A topic, or some partitions of it; repeatable."),
    ] = None,
    if_no_record: Annotated[
        str,
        Option(
            "--if-no-record",
            metavar="refuse|end|skip",
            help="Without a record of that time or later, or a commit to move: go to the end, or leave it.",
        ),
    ] = "refuse",
    if_out_of_range: Annotated[
        str,
        Option(
            "--if-out-of-range",
            metavar="refuse|clamp|skip",
            help="An offset that is not in the log: take the nearer end of the log, or leave the partition.",
        ),
    ] = "refuse",
    execute: Execute = False,
) -> int:
    """Move what groups have committed to other offsets.

    Without --execute it only shows what would be done: OLD and NEW offset, how many records would be REREAD or
    SKIPPED, about how many BYTES these are (~: an estimate), time and key of the FIRST-RECORD at the new offset, and
    WHY. As json or csv that is a plan, which `kcli offsets apply` carries out as it is.

    A TIME is also 2024-01-31, seconds or milliseconds since 1970, or -1h30m.

    All is done or nothing. A group with members, a partition that has no such offset, and commits that change meanwhile
    are refused with status 4, topics or partitions that are not there with 3: then nothing is written. Status 1: some
    partitions failed while they were written; their rows say so. Every --execute saves the positions of before, for
    `kcli offsets undo`.
    """
    from kcli.admin.offsets.inspection import check_cluster
    from kcli.cli.group.look import without_collections
    from kcli.cli.group.selection import check_selection
    from kcli.cli.offsets.carry_out import carry_out
    from kcli.cli.offsets.files import file_name, load_text
    from kcli.cli.offsets.reset_plan import chosen_groups, make_reset_plan, positions_in, positions_of
    from kcli.cli.offsets.targets import Wanted, check_policies, parse_scope, simple_target

    found = check_selection(group or (), match)
    wanted = Wanted(
        to_earliest, to_latest, to_current, to_offset, shift_by, to_datetime, by_duration, from_file, to_group_of
    )
    target = simple_target(wanted, env.clock.wall_ms())
    scope = parse_scope(topic or [], all_topics=all_topics, optional=from_file is not None)
    policies = check_policies(if_no_record, if_out_of_range)
    cluster_id = None
    if from_file is not None:
        target, cluster_id = positions_in(load_text(from_file, env.stdin_bytes), file_name(from_file))
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client, without_collections():
        check_cluster(client, cluster_id, deadline_ms)
        names = chosen_groups(client, group or (), found, deadline_ms)
        target = target or positions_of(client, to_group_of or "", deadline_ms)
        plan = make_reset_plan(client, names, scope, target, deadline_ms, policies)
        return carry_out(env, common, client, plan, deadline_ms, execute=execute)
