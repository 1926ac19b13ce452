"""`kcli offsets apply`: apply a saved plan, or commit exported offsets."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Annotated

from kcli.cli.environment import Environment
from kcli.cli.offsets.options import IfOutOfRangeText, PolicyOptions, file_name, read_text
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.run_plan import Execute


def run(
    env: Environment,
    common: Common,
    file: Annotated[str, Argument(metavar="FILE", help="A plan, an export, or Apache's CSV; - is standard input.")],
    group: Annotated[
        list[str] | None,
        Option("--group", "-g", metavar="GROUP", help="Apply only this group of the file; repeatable."),
    ] = None,
    to_group: Annotated[
        str | None, Option("--to-group", metavar="GROUP", help="Commit for this group instead of the one in the file.")
    ] = None,
    if_out_of_range: IfOutOfRangeText = "refuse",
    execute: Execute = False,
) -> int:
    """Apply a file: a plan (json or csv of reset, copy, delete or undo), or offsets.

    Without --execute the command only shows the plan. A plan is applied as it was shown: it is refused with status 4,
    and nothing is written, if a committed offset has changed since, if a new offset is no longer in the log, or if it
    was made for another cluster. Offsets are an export, or lines topic,partition,offset, with or without the group in
    front, as Apache's tool writes them; the command makes a new plan from them. A file without groups needs --group or
    --to-group.
    """
    from kcli.admin.offsets.checks import check_cluster, check_commits, refuse_unreachable
    from kcli.admin.offsets.offset_plan import OffsetPlan
    from kcli.admin.offsets.plan_files import offsets_for_groups, rows_of_groups
    from kcli.admin.offsets.plan_reading import read_plan_file
    from kcli.admin.offsets.reset import plan_group_reset
    from kcli.cli.offsets.offset_view import run_offset_plan

    policies = PolicyOptions(if_out_of_range=if_out_of_range).parse()
    source = file_name(file)
    content = read_plan_file(read_text(file, env.stdin_bytes), source)
    if isinstance(content, OffsetPlan):
        plan = rows_of_groups(content, group or (), to_group, if_out_of_range, source)
    else:
        offsets = offsets_for_groups(content, group or (), to_group, source)
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        check_cluster(client, content.cluster_id, deadline_ms)
        if isinstance(content, OffsetPlan):
            plan = refuse_unreachable(client, plan, deadline_ms)
            if not execute and not plan.refused:
                check_commits(client, plan.rows, deadline_ms)  # with --execute, apply_plan does it
        else:
            plan = plan_group_reset(client, offsets.groups, offsets.target(source), deadline_ms, **policies)
            plan = replace(plan, kind="apply")
        return run_offset_plan(env, common, client, plan, deadline_ms, execute=execute)
