"""`kcli offsets delete`: delete committed offsets of a group for some topics."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.run_plan import Execute


def run(
    env: Environment,
    common: Common,
    group: Annotated[str, Argument(metavar="GROUP", help="Group with the offsets.")],
    topic: Annotated[
        list[str],
        Option(
            "--topic",
            "-t",
            metavar="TOPIC[:P,P]",
            help="Delete the offsets in this topic, or in these partitions; repeatable.",
        ),
    ],
    execute: Execute = False,
) -> int:
    """Delete committed offsets; members then start there as their auto.offset.reset says.

    Without --execute the command only shows the plan. A group with members is refused with status 4; if a named topic
    or partition has no committed offset, the status is 3. Then nothing is deleted. A group whose last offsets are
    deleted may be deleted too; `kcli offsets undo` restores everything.
    """
    from kcli.admin.offsets.reset import plan_delete
    from kcli.cli.offsets.offset_view import run_offset_plan
    from kcli.cli.offsets.options import parse_scope

    scope = parse_scope(topic)
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        plan = plan_delete(client, group, scope, deadline_ms)
        return run_offset_plan(env, common, client, plan, deadline_ms, execute=execute)
