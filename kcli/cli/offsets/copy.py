"""`kcli offsets copy`: the positions of one group for another."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

from kcli.cli.environment import Environment
from kcli.cli.group.selection import Execute
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError


def run(
    env: Environment,
    common: Common,
    group: Annotated[str, Argument(metavar="GROUP", help="The group to copy from; it is left as it is.")],
    to_group: Annotated[str, Option("--to-group", metavar="GROUP", help="The group to commit for.")],
    topic: Annotated[
        list[str] | None,
        Option("--topic", "-t", metavar="TOPIC[:P,P]", help="Only this topic, or these partitions; repeatable."),
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
    """Have one group go on where another one is: offsets, leader epochs and notes.

    Without --execute it only shows what would be done. The group copied to must have no members (status 4), and is made
    if it is not there; what it has committed elsewhere stays. All is done or nothing, and `kcli offsets undo` takes it
    back, as with `kcli offsets reset`.
    """
    from kcli.admin.offsets.targets import FromOffsets
    from kcli.cli.offsets.carry_out import carry_out
    from kcli.cli.offsets.positions import check_scope, read_positions
    from kcli.cli.offsets.reset_plan import make_reset_plan
    from kcli.cli.offsets.targets import check_policies
    from kcli.errors import NotFound
    from kcli.text import parse_topics

    if not group or not to_group:
        raise ConfigError("a group has a name: '' is none")
    if group == to_group:
        raise ConfigError(f"{group} is both the group to copy from and the group to copy to")
    scope = parse_topics(topic) if topic else None
    policies = check_policies("refuse", if_out_of_range)
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        source = read_positions(client, {group: None}, scope, deadline_ms)[group]
        check_scope(source.offsets, scope, f"{group} has committed")
        if not source.offsets:
            raise NotFound(f"group {group} has committed nothing")
        target = FromOffsets({(to_group, tp): at for tp, at in source.offsets.items()}, f"group {group}")
        plan = make_reset_plan(client, [to_group], None, target, deadline_ms, policies)._replace(kind="copy")
        if source.state not in ("Empty", "Dead"):
            env.say(f"{group} is {source.state}: its members go on committing")
        return carry_out(env, common, client, plan, deadline_ms, execute=execute)
