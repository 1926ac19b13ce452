"""Removal of groups, and of members of a group: plans, which change nothing, and their execution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.group import CLASSIC, CONSUMER, Group, GroupMember
from kcli.client.requests import Results
from kcli.client.routing import Coordinators
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, UnsupportedVersion
from kcli.text import format_count

if TYPE_CHECKING:
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
    from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

_FIRST_WITH_MEMBERS = 3
_LONGEST_REASON = 255


class PlannedGroup(NamedTuple):
    """A group to delete, with its committed offsets in `survey`; or the `error` that prevents it."""

    group: str
    survey: GroupSurvey | None = None
    error: KcliError | None = None


def plan_group_deletion(client: ConsumerNetworkClient, groups: Iterable[str], deadline_ms: float) -> list[PlannedGroup]:
    """Plan the deletion of these groups. One with members, or that does not exist, is planned with its error."""
    from kcli.admin.groups.survey import survey_groups

    names = list(groups)
    surveys = survey_groups(client, names, deadline_ms)
    return [plan_group(name, surveys.values.get(name) or surveys.errors[name]) for name in names]


def plan_group(name: str, survey: GroupSurvey | KcliError) -> PlannedGroup:
    """Plan the deletion of one group: only a group without members can be deleted. Pure."""
    if isinstance(survey, KcliError):
        return PlannedGroup(name, error=survey)
    members = len(survey.group.members)
    if members:
        message = f"the group has {format_count(members, 'member')}"
        return PlannedGroup(name, survey, BrokerError(ErrorCode.NON_EMPTY_GROUP, message, group=name))
    return PlannedGroup(name, survey)


class PlannedMember(NamedTuple):
    """A member to remove, or the `error` that prevents it. `name` is the member id, or the id that was not found."""

    name: str
    member: GroupMember | None = None
    error: KcliError | None = None


def plan_member_removal(
    group: Group,
    members: Collection[str] = (),
    instances: Collection[str] = (),
    clients: Collection[str] = (),
    *,
    every: bool = False,
) -> list[PlannedMember]:
    """Plan the removal of the members with these ids, instance ids or client ids, each once; or of `every` member.

    An id that no member has is planned with its error, UNKNOWN_MEMBER_ID. Pure.
    """
    selected = [m for m in group.members if every or _is_selected(m, members, instances, clients)]
    plan = [PlannedMember(m.id, m, _removal_error(group, m)) for m in selected]
    missing: Sequence[tuple[str, str]] = (
        *(("member", name) for name in members if name not in {m.id for m in selected}),
        *(("instance id", name) for name in instances if name not in {m.instance_id for m in selected}),
        *(("client id", name) for name in clients if name not in {m.client_id for m in selected}),
    )
    for kind, name in missing:
        message = f"no member of the group has the {kind} {name}"
        plan.append(PlannedMember(name, error=BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, message, group=group.group)))
    return plan


def _is_selected(
    member: GroupMember, members: Collection[str], instances: Collection[str], clients: Collection[str]
) -> bool:
    return member.id in members or member.instance_id in instances or member.client_id in clients


def _removal_error(group: Group, member: GroupMember) -> KcliError | None:
    """LeaveGroup is for classic and consumer groups; for other types a broker answers that the member is unknown."""
    if group.type in (CLASSIC, CONSUMER):
        return None
    return KcliError(f"members of {group.type} groups cannot be removed; stop the member instead", member=member.id)


def delete_groups(client: ConsumerNetworkClient, groups: Iterable[str], deadline_ms: float) -> Results[str, None]:
    """Delete groups without members, with their offsets. Errors, by name: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, ...

    A group that a repeated request does not find was deleted by the first request, whose response was lost.
    """
    attempts: Counter[str] = Counter()

    def build(names: list[str]) -> DeleteGroupsRequest:
        from kcli.protocol.messages.delete_groups import DeleteGroupsRequest

        attempts.update(names)
        return DeleteGroupsRequest(groups_names=names)

    def read(response: DeleteGroupsResponse) -> Iterator[tuple[str, KcliError | None]]:
        for result in response.results:
            name = result.group_id
            done = not result.error_code or (result.error_code == ErrorCode.GROUP_ID_NOT_FOUND and attempts[name] > 1)
            yield name, None if done else BrokerError(result.error_code, group=name)

    return Coordinators(client).ask(groups, build, read, deadline_ms)


def remove_members(
    client: ConsumerNetworkClient, group: str, members: Iterable[GroupMember], reason: str, deadline_ms: float
) -> Results[str, None]:
    """Remove members from a group; outcomes by member id. A live member joins again; a static one is fenced.

    Exactly these members are removed: FENCED_INSTANCE_ID for a static member that was replaced meanwhile,
    UNKNOWN_MEMBER_ID for one that has left. `reason` is written to the broker's log (KIP-800, from 3.2 on; the first
    255 characters).
    """
    by_id = {member.id: member for member in members}
    if not by_id:
        return Results()
    coordinators = Coordinators(client)
    removed = _remove(coordinators, group, by_id.values(), reason, deadline_ms)
    error = removed.errors.get(group)
    if isinstance(error, UnsupportedVersion):
        return _remove_one_by_one(coordinators, group, by_id.values(), deadline_ms)
    if error is not None:
        return Results(errors=dict.fromkeys(by_id, error))
    outcomes: Results[str, None] = Results()
    for member_id in by_id:
        code = removed.values[group].get(member_id, ErrorCode.UNKNOWN_SERVER_ERROR)
        outcomes.put(member_id, BrokerError(code, group=group, member=member_id) if code else None)
    return outcomes


def _remove(
    coordinators: Coordinators, group: str, members: Iterable[GroupMember], reason: str, deadline_ms: float
) -> Results[str, dict[str, int]]:
    """Remove all in one request (v3); return the error code of each member id."""
    from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

    request = LeaveGroupRequest(
        group_id=group,
        members=[
            MemberIdentity(
                member_id=member.id, group_instance_id=member.instance_id, reason=reason[:_LONGEST_REASON] or None
            )
            for member in members
        ],
    )

    def read(response: LeaveGroupResponse) -> Iterator[tuple[str, dict[str, int] | KcliError]]:
        if response.error_code:
            yield group, BrokerError(response.error_code, group=group)
        else:
            yield group, {member.member_id: member.error_code for member in response.members}

    return coordinators.ask([group], lambda _groups: request, read, deadline_ms, min_version=_FIRST_WITH_MEMBERS)


def _remove_one_by_one(
    coordinators: Coordinators, group: str, members: Iterable[GroupMember], deadline_ms: float
) -> Results[str, None]:
    """Remove members at a broker before 2.4, whose request has one member and no reason."""

    def read(response: LeaveGroupResponse) -> Iterator[tuple[str, KcliError | None]]:
        yield group, BrokerError(response.error_code, group=group) if response.error_code else None

    outcomes: Results[str, None] = Results()
    for member in members:
        build = partial(_leave_request, member.id)
        result = coordinators.ask([group], build, read, deadline_ms, max_version=_FIRST_WITH_MEMBERS - 1)
        outcomes.put(member.id, result.errors.get(group))
    return outcomes


def _leave_request(member_id: str, groups: list[str]) -> LeaveGroupRequest:
    from kcli.protocol.messages.leave_group import LeaveGroupRequest

    return LeaveGroupRequest(group_id=groups[0], member_id=member_id)
