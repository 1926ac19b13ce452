"""`kcli group remove-members`: remove members from a group."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.run_plan import Execute, View, run_plan
from kcli.errors import ConfigError
from kcli.structs import numbers_by_topic

if TYPE_CHECKING:
    from kcli.admin.groups.group import GroupMember
    from kcli.admin.plan import Applied, Row
    from kcli.cli.output.report import Item

COLUMNS = ["group", "member", "status", "instance_id", "host", "client_id", "partitions"]
DEFAULT_REASON = "removed with kcli"


def run(
    env: Environment,
    common: Common,
    group: Annotated[str, Argument(metavar="GROUP", help="Group with the members.")],
    member: Annotated[
        list[str] | None, Option("--member", metavar="ID", help="Remove this member id; repeatable.")
    ] = None,
    instance_id: Annotated[
        list[str] | None, Option("--instance-id", metavar="ID", help="Remove this static member; repeatable.")
    ] = None,
    client_id: Annotated[
        list[str] | None, Option("--client-id", metavar="ID", help="Remove all members of this client id; repeatable.")
    ] = None,
    all_members: Annotated[bool, Option("--all", help="Remove all members.")] = False,
    reason: Annotated[str, Option("--reason", help="Reason for the broker's log.")] = DEFAULT_REASON,
    execute: Execute = False,
) -> int:
    """Remove members from a classic or consumer group; the other members take over their partitions.

    Without --execute the command only shows the plan. It is meant for static members that will not come back: their
    partitions are free at once instead of after the session time-out. A live member usually joins again at once; a live
    static member is fenced and stops. If a member does not exist, no member is removed.
    """
    from kcli.admin.groups.describe import describe_groups
    from kcli.admin.groups.listing import with_suggestions
    from kcli.admin.groups.removal import plan_member_removal, remove_members

    ids = member or [], instance_id or [], client_id or []
    if all_members == any(ids):
        raise ConfigError("select members with --member, --instance-id and --client-id, or all of them with --all")
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        described = describe_groups(client, {group: None}, deadline_ms)
        for error in with_suggestions(client, described.errors, deadline_ms).values():
            raise error
        plan = plan_member_removal(described.values[group], *ids, every=all_members)

        def apply(_: object) -> Applied:
            leaving = [row.old for row in plan.changes if row.old is not None]
            return plan.outcome(remove_members(client, group, leaving, reason, deadline_ms).errors)

        view = View("group.remove-members", COLUMNS, "removed", lambda row, status: item(group, row, status))
        return run_plan(env, common, plan, view, apply, execute=execute)


def item(group: str, row: Row[GroupMember], status: str) -> Item:
    """Return the row of a member."""
    result: Item = {"group": group, "member": row.key, "status": status}
    member = row.old
    if member is not None:
        result.update(member=member.id, instance_id=member.instance_id, client_id=member.client_id, host=member.host)
        result.update(partitions=len(member.owned), assignment=numbers_by_topic(member.owned))
    return result
