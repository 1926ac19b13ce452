"""`kcli group remove-members`: remove members from a group."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.mutation import Execute, Mutation, PlanRow
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.admin.groups.removal import PlannedMember
    from kcli.cli.output.report import Item
    from kcli.errors import KcliError

REMOVAL = Mutation(
    "group.remove-members",
    ["group", "member", "status", "instance_id", "host", "client_id", "partitions"],
    done="removed",
)
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

        def apply(names: list[str]) -> Mapping[str, KcliError]:
            leaving = [planned.member for planned in plan if planned.member and planned.name in names]
            return remove_members(client, group, leaving, reason, deadline_ms).errors

        rows = [PlanRow(p.name, lambda status, p=p: item(group, p, status), p.error) for p in plan]  # type: ignore[misc]
        return REMOVAL.run(env, common, rows, apply, execute=execute)


def item(group: str, planned: PlannedMember, status: str) -> Item:
    """Return the row of a member."""
    from kcli.structs import numbers_by_topic

    result: Item = {"group": group, "member": planned.name, "status": status}
    member = planned.member
    if member is not None:
        result.update(member=member.id, instance_id=member.instance_id, client_id=member.client_id, host=member.host)
        result.update(partitions=len(member.owned), assignment=numbers_by_topic(member.owned))
    return result
