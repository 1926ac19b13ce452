"""Plans to remove groups, or members of one, as items: what would go, and why it cannot. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.lag import total_lag
from kcli.admin.groups.model import CLASSIC, CONSUMER
from kcli.cli.output.report import error_field
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.structs import numbers_by_topic
from kcli.text import format_count

if TYPE_CHECKING:
    from kcli.admin.groups.model import Group, GroupMember
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.output.report import Item


class PlannedGroup(NamedTuple):
    """A group to delete, with all that it has committed; or the `error` why it cannot be deleted."""

    group: str
    survey: GroupSurvey | None = None
    error: KcliError | None = None

    def item(self, status: str) -> Item:
        """`offsets` is what would have to be committed again to have the group back."""
        item: Item = {"group": self.group, "status": status}
        if self.survey is not None:
            found, rows = self.survey.group, self.survey.partitions
            stored = [row for row in rows if row.committed is not None]
            item.update(type=found.type, state=found.state, members=len(found.members), partitions=len(stored))
            item["lag"] = total_lag(rows).lag if rows else None
            item["offsets"] = [
                {"topic": row.tp.topic, "partition": row.tp.partition, "offset": row.committed.offset}
                for row in stored
                if row.committed is not None
            ]
        return item


def plan_group(name: str, found: GroupSurvey | KcliError) -> PlannedGroup:
    """Can this group be deleted? Only one without members."""
    if isinstance(found, KcliError):
        return PlannedGroup(name, error=found)
    members = len(found.group.members)
    if members:
        words = f"the group has {format_count(members, 'member')}"
        return PlannedGroup(name, found, BrokerError(ErrorCode.NON_EMPTY_GROUP, words, group=name))
    return PlannedGroup(name, found)


class PlannedMember(NamedTuple):
    """A member to remove, or the `error` why it cannot be."""

    name: str
    member: GroupMember | None = None
    error: KcliError | None = None

    def item(self, group: str, status: str) -> Item:
        item: Item = {"group": group, "member": self.name, "status": status}
        if self.member is not None:
            it = self.member
            item.update(member=it.id, instance_id=it.instance_id, client_id=it.client_id, host=it.host)
            item.update(partitions=len(it.owned), assignment=numbers_by_topic(it.owned))
        return item


def plan_members(
    group: Group, members: Collection[str], instances: Collection[str], clients: Collection[str], *, every: bool
) -> list[PlannedMember]:
    """The members with these ids, instance ids or client ids, each once; who is not found is an error."""
    chosen = [m for m in group.members if every or _is_meant(m, members, instances, clients)]
    plan = [PlannedMember(m.id, m, _objection(group, m)) for m in chosen]
    missing: Sequence[tuple[str, str]] = (
        *(("member", name) for name in members if name not in {m.id for m in chosen}),
        *(("instance id", name) for name in instances if name not in {m.instance_id for m in chosen}),
        *(("client id", name) for name in clients if name not in {m.client_id for m in chosen}),
    )
    for kind, name in missing:
        words = f"no member of the group has the {kind} {name}"
        plan.append(PlannedMember(name, error=BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, words, group=group.group)))
    return plan


def _is_meant(
    member: GroupMember, members: Collection[str], instances: Collection[str], clients: Collection[str]
) -> bool:
    return member.id in members or member.instance_id in instances or member.client_id in clients


def _objection(group: Group, member: GroupMember) -> KcliError | None:
    """LeaveGroup is for classic and consumer groups; to others a broker answers that it does not know the member."""
    if group.type in (CLASSIC, CONSUMER):
        return None
    return KcliError(f"members of {group.type} groups cannot be removed from outside: stop it", member=member.id)


def with_error(item: Item, error: KcliError | None) -> Item:
    return item if error is None else {**item, "error": error_field(error)}
