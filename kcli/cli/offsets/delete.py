"""`kcli offsets delete`: have a group forget what it has committed in some topics."""

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
    group: Annotated[str, Argument(metavar="GROUP", help="The group.")],
    topic: Annotated[
        list[str],
        Option("--topic", "-t", metavar="TOPIC[:P,P]", help="A topic, or some partitions of it; repeatable."),
    ],
    execute: Execute = False,
) -> int:
    """Delete committed offsets: the group begins there anew, as its members' auto.offset.reset says.

    Without --execute it only shows what would go. A group with members is refused with status 4; where nothing is
    committed in a topic or partition that is named, the status is 3. Then nothing is deleted. A group whose last
    offsets go may vanish; `kcli offsets undo` brings all of it back.
    """
    from kcli.admin.offsets.inspection import check_cluster
    from kcli.admin.offsets.plan import Row, make_plan
    from kcli.cli.offsets.carry_out import carry_out
    from kcli.cli.offsets.positions import check_scope, read_positions
    from kcli.text import parse_topics

    if not group:
        raise ConfigError("a group has a name: '' is none")
    scope = parse_topics(topic)
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        found = read_positions(client, {group: None}, scope, deadline_ms)[group]
        check_scope(found.offsets, scope, f"{group} has committed")
        check_cluster(client, None, deadline_ms)  # so that the plan knows where it was made
        rows = [Row(group, tp, at, None, "delete", "to be forgotten") for tp, at in found.offsets.items()]
        cluster_id = client.metadata.cluster.cluster_id
        plan = make_plan("delete", rows, env.clock.wall_ms(), {group: found.state}, cluster_id)
        return carry_out(env, common, client, plan, deadline_ms, execute=execute)
