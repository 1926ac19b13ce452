"""`kcli offsets reset`: move committed offsets of groups to other offsets."""

from __future__ import annotations

from contextlib import closing

from kcli.cli.environment import Environment
from kcli.cli.group.selection import ChosenGroups, find_selected, without_collections
from kcli.cli.offsets.options import PolicyOptions, ResetScope, TargetOptions, file_name, read_text
from kcli.cli.options import Common
from kcli.cli.run_plan import Execute
from kcli.errors import NotFound


def run(
    env: Environment,
    common: Common,
    groups: ChosenGroups,
    to: TargetOptions,
    topics: ResetScope,
    policies: PolicyOptions,
    execute: Execute = False,
) -> int:
    """Move committed offsets of groups to other offsets.

    Without --execute the command only shows the plan: OLD and NEW offset, the number of records REREAD or SKIPPED,
    their size in BYTES (~: an estimate), time and key of the FIRST-RECORD at the new offset, and WHY. Saved as json or
    csv, it is a plan that `kcli offsets apply` applies unchanged.

    A PLACE is an offset, or a place in each log as in `kcli consume topic`. A TIME is also 2024-01-31, seconds (9 or 10
    digits) or milliseconds (12 or 13 digits) since 1970, or -1h30m. WHY has the time in UTC, and says if it is before
    the first record or after the last one.

    A plan is written only as a whole. A group with members, a partition without such an offset, and offsets that change
    meanwhile are refused with status 4; topics or partitions that do not exist with status 3. Status 1: some partitions
    failed during the write; their rows have the error. After a lost response the committed offsets are read; the status
    of a row that may be written is unknown, and the exit status is 5. Every --execute saves the previous offsets for
    `kcli offsets undo`.
    """
    from kcli.admin.offsets.checks import check_cluster
    from kcli.admin.offsets.reset import plan_group_reset, target_in_file, target_of_group
    from kcli.cli.offsets.offset_view import run_offset_plan

    target, scope = to.target(env.clock.wall_ms()), topics.scope(to)
    policy = policies.parse()
    cluster_id = None
    if to.from_file is not None:
        target, cluster_id = target_in_file(read_text(to.from_file, env.stdin_bytes), file_name(to.from_file))
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client, without_collections():
        check_cluster(client, cluster_id, deadline_ms)
        selected = find_selected(client, groups, deadline_ms)
        for error in selected.failed_brokers.values():
            raise error
        if not selected.groups:
            raise NotFound("no group name matches --match")
        target = target or target_of_group(client, to.to_group_of or "", deadline_ms)
        plan = plan_group_reset(client, selected.groups, target, deadline_ms, scope=scope, **policy)
        return run_offset_plan(env, common, client, plan, deadline_ms, execute=execute)
