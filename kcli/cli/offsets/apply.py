"""`kcli offsets apply`: carry out a plan that was saved, or commit the positions of an export."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

from kcli.cli.environment import Environment
from kcli.cli.group.selection import Execute
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option


def run(
    env: Environment,
    common: Common,
    file: Annotated[str, Argument(metavar="FILE", help="A plan, an export, or Apache's CSV; - is stdin.")],
    group: Annotated[
        list[str] | None,
        Option("--group", "-g", metavar="GROUP", help="Only this group of the file; repeatable."),
    ] = None,
    to_group: Annotated[
        str | None, Option("--to-group", metavar="GROUP", help="Commit for this group instead of the file's one.")
    ] = None,
    if_out_of_range: Annotated[
        str,
        Option(
            "--if-out-of-range",
            metavar="refuse|clamp|skip",
            help="An offset that is not in the log: take the nearer end of the log, or leave the partition. [refuse]",
        ),
    ] = "refuse",
    execute: Execute = False,
) -> int:
    """Carry out what a file says: a plan (json or csv of reset, copy, delete or undo), or positions.

    Without --execute it only shows what would be done. A plan is applied as it was shown: if an offset has been
    committed in between, if a new one is not in the log any more, or if it was made on another cluster, it is refused
    with status 4 and nothing is written.
    Positions are what an export has saved, or lines topic,partition,offset with or without the group in front, as
    Apache's tool writes them: a new plan is made from these. Files without a group take --group or --to-group.
    """
    from kcli.admin.offsets.inspection import check_cluster, check_commits
    from kcli.admin.offsets.plan import Plan
    from kcli.admin.offsets.plan_reading import read_plan_file
    from kcli.admin.offsets.reach import within_reach
    from kcli.cli.offsets.carry_out import carry_out
    from kcli.cli.offsets.chosen import chosen_plan, chosen_positions
    from kcli.cli.offsets.files import file_name, load_text
    from kcli.cli.offsets.reset_plan import make_reset_plan
    from kcli.cli.offsets.targets import check_policies

    policies = check_policies("refuse", if_out_of_range)
    source = file_name(file)
    found = read_plan_file(load_text(file, env.stdin_bytes), source)
    if isinstance(found, Plan):
        plan = chosen_plan(found, group or (), to_group, if_out_of_range, source)
    else:
        positions = chosen_positions(found, group or (), to_group, source)
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        check_cluster(client, found.cluster_id, deadline_ms)
        if isinstance(found, Plan):
            plan = within_reach(client, plan, deadline_ms)
            if not execute and not plan.refused:
                check_commits(client, plan.rows, deadline_ms)  # as --execute will, when it has saved what is there
        else:
            target = positions.target(source)
            plan = make_reset_plan(client, positions.groups, None, target, deadline_ms, policies)._replace(kind="apply")
        return carry_out(env, common, client, plan, deadline_ms, execute=execute)
