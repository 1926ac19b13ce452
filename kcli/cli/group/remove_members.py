"""`kcli group remove-members`: make members of a group leave it, after showing who would."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.group.selection import Execute
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.cli.group.removal import PlannedMember
    from kcli.errors import KcliError

COLUMNS = ["group", "member", "status", "instance_id", "host", "client_id", "partitions"]
DEFAULT_REASON = "removed with kcli"


def run(
    env: Environment,
    common: Common,
    group: Annotated[str, Argument(metavar="GROUP", help="The group whose members are meant.")],
    member: Annotated[
        list[str] | None, Option("--member", metavar="ID", help="A member by its id; repeatable.")
    ] = None,
    instance_id: Annotated[
        list[str] | None, Option("--instance-id", metavar="ID", help="A static member; repeatable.")
    ] = None,
    client_id: Annotated[
        list[str] | None, Option("--client-id", metavar="ID", help="All members of this client id; repeatable.")
    ] = None,
    all_members: Annotated[bool, Option("--all", help="All members.")] = False,
    reason: Annotated[str, Option("--reason", help="Why, for the broker's log.")] = DEFAULT_REASON,
    execute: Execute = False,
) -> int:
    """Make members of a classic or consumer group leave it; their partitions go to the others.

    Without --execute it only shows who would leave. It is meant for static members that are gone for good: their
    partitions are free at once instead of after the session time-out. A member that is alive usually joins again at
    once; a static one is fenced and stops. If anyone meant is not there, nobody is removed.
    """
    from kcli.admin.groups.deletion import remove_members
    from kcli.admin.groups.describe import describe_groups
    from kcli.cli.group.removal import plan_members
    from kcli.cli.group.selection import check_names

    check_names([group])
    chosen = member or [], instance_id or [], client_id or []
    if all_members == any(chosen):
        raise ConfigError("say who shall leave: --member, --instance-id and --client-id, or --all")
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        described = describe_groups(client, {group: None}, deadline_ms)
        if group in described.errors:
            raise described.errors[group]
        plan = plan_members(described.values[group], *chosen, every=all_members)
        blocked = [p.error for p in plan if p.error]
        if blocked or not execute:
            _show(env, common, group, plan, "not-removed" if blocked else "would-be-removed")
            env.say("nobody was removed" if blocked else "nobody was removed: that takes --execute")
            return exit_status.status_of_all(blocked)
        leaving = [p.member for p in plan if p.member]
        failed = remove_members(client, group, leaving, reason, deadline_ms).errors if leaving else {}
    _show(env, common, group, plan, "removed", failed)
    return exit_status.status_of_all(failed.values())


def _show(
    env: Environment,
    common: Common,
    group: str,
    plan: list[PlannedMember],
    status: str,
    failed: Mapping[str, KcliError] | None = None,
) -> None:
    from kcli.cli.group.removal import with_error
    from kcli.cli.output.report import Report, show

    items = []
    for planned in plan:
        error = planned.error or (failed or {}).get(planned.name)
        items.append(with_error(planned.item(group, "failed" if error else status), error))
    show(env, Report("group.remove-members", COLUMNS, items), common.output)
