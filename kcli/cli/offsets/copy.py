"""`kcli offsets copy`: copy the committed offsets of one group to another."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

from kcli.cli.environment import Environment
from kcli.cli.offsets.options import IfOutOfRangeText, PolicyOptions, TopicScope, parse_scope
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.run_plan import Execute
from kcli.errors import ConfigError
from kcli.text import group_text


def run(
    env: Environment,
    common: Common,
    group: Annotated[str, Argument(metavar="GROUP", help="Group to copy from; it is not changed.")],
    to_group: Annotated[str, Option("--to-group", metavar="GROUP", help="Group to commit for.")],
    topic: TopicScope = None,
    if_out_of_range: IfOutOfRangeText = "refuse",
    execute: Execute = False,
) -> int:
    """Copy the committed offsets of one group to another: offsets, leader epochs and metadata.

    Without --execute the command only shows the plan. The group to commit for must have no members (status 4); it is
    created if it does not exist, and keeps its other offsets. Everything is written or nothing, and `kcli offsets undo`
    restores the previous offsets, as for `kcli offsets reset`.
    """
    from kcli.admin.offsets.reset import plan_copy
    from kcli.cli.offsets.offset_view import run_offset_plan

    if not to_group.strip():
        raise ConfigError("--to-group: the group name must not be empty")
    if group == to_group:
        raise ConfigError(f"cannot copy group {group_text(group)} to itself")
    scope = parse_scope(topic)
    policy = PolicyOptions(if_out_of_range=if_out_of_range).parse()["if_out_of_range"]
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        plan, state = plan_copy(client, group, to_group, deadline_ms, scope=scope, if_out_of_range=policy)
        if state not in ("Empty", "Dead"):
            env.report(f"{group_text(group)} is {state}; its members continue to commit")
        return run_offset_plan(env, common, client, plan, deadline_ms, execute=execute)
