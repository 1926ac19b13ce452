"""Removal of groups, and of members of a group: plans, which change nothing, and their execution."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kcli.admin.groups.describe import describe_groups
from kcli.admin.groups.group import CLASSIC, CONSUMER, SHARE, Group, GroupMember, is_absent
from kcli.admin.plan import Plan, Row
from kcli.client.requests import Located, Results, fan_out_changes
from kcli.client.routing import Coordinators
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, UnsupportedVersion
from kcli.text import format_count, group_text

if TYPE_CHECKING:
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
    from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
    from kcli.structs import Node

_FIRST_WITH_MEMBERS = 3
_LONGEST_REASON = 255
_NAMED = 10  # groups in a sentence


def plan_group_deletion(
    client: ConsumerNetworkClient, groups: Iterable[str], deadline_ms: float
) -> Plan[Row[GroupSurvey]]:
    """Plan the deletion of these groups. One with members, or that does not exist, is a row with its error."""
    from kcli.admin.groups.listing import with_suggestions
    from kcli.admin.groups.survey import survey_groups

    names = list(groups)
    surveys = survey_groups(client, names, deadline_ms)
    surveys.errors = with_suggestions(client, surveys.errors, deadline_ms)
    rows = [plan_group(name, surveys.values.get(name) or surveys.errors[name]) for name in names]
    return Plan("group-delete", tuple(rows), permanent=permanent_part(rows))


def plan_group(name: str, survey: GroupSurvey | KcliError) -> Row[GroupSurvey]:
    """Plan the deletion of one group: only a group without members can be deleted. Pure."""
    if isinstance(survey, KcliError):
        return Row(name, error=survey)
    error = None
    if members := len(survey.group.members):
        message = f"the group has {format_count(members, 'member')}"
        error = BrokerError(ErrorCode.NON_EMPTY_GROUP, message, group=name)
    return Row(name, survey, action="delete", error=error)


def permanent_part(rows: Iterable[Row[GroupSurvey]]) -> str:
    """Return a sentence about the groups of which an undo has nothing to restore; "" if there are none. Pure."""
    deleted = [(row.key, row.old) for row in rows if row.is_change and row.old is not None]
    share = [name for name, survey in deleted if survey.group.type == SHARE]
    bare = [name for name, survey in deleted if name not in share and _is_bare(survey)]
    reasons = ((share, "the start offsets of share groups are not saved"), (bare, "without committed offsets"))
    named = [f"{_few(names)} ({why})" for names, why in reasons if names]
    return f"the deletion cannot be undone: {', '.join(named)}" if named else ""


def _is_bare(survey: GroupSurvey) -> bool:
    """Return whether the group has certainly no committed offset."""
    return survey.error is None and all(row.committed is None and row.error is None for row in survey.partitions)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(group_text, names[:_NAMED])) + more


def plan_member_removal(
    group: Group,
    members: Collection[str] = (),
    instances: Collection[str] = (),
    clients: Collection[str] = (),
    *,
    every: bool = False,
) -> Plan[Row[GroupMember]]:
    """Plan the removal of the members with these ids, instance ids or client ids, each once; or of `every` member.

    The key of a row is the member id. An id that no member has is a row with its error, UNKNOWN_MEMBER_ID. Pure.
    """
    selected = [m for m in group.members if every or _is_selected(m, members, instances, clients)]
    rows: list[Row[GroupMember]] = [Row(m.id, m, action="remove", error=_removal_error(group, m)) for m in selected]
    missing: Sequence[tuple[str, str]] = (
        *(("member", name) for name in members if name not in {m.id for m in selected}),
        *(("instance id", name) for name in instances if name not in {m.instance_id for m in selected}),
        *(("client id", name) for name in clients if name not in {m.client_id for m in selected}),
    )
    for kind, name in missing:
        message = f"no member of the group has the {kind} {name}"
        rows.append(Row(name, error=BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, message, group=group.group)))
    permanent = "a removal cannot be undone; a live member joins again by itself"
    return Plan("remove-members", tuple(rows), permanent=permanent)


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
    """Delete groups without members, with their offsets.

    Errors, by name: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, ...; OutcomeUnknown after a lost response if the group still
    exists.
    """

    def build(names: list[str]) -> DeleteGroupsRequest:
        from kcli.protocol.messages.delete_groups import DeleteGroupsRequest

        return DeleteGroupsRequest(groups_names=names)

    def read(response: DeleteGroupsResponse) -> Iterator[tuple[str, KcliError | None]]:
        for result in response.results:
            name, code = result.group_id, result.error_code
            yield name, response.broker_error(code, group=name) if code else None

    def confirm(names: Sequence[str], deadline_ms: float) -> Results[str, None]:
        errors = describe_groups(client, dict.fromkeys(names), deadline_ms).errors
        gone = [name for name, error in errors.items() if is_absent(error)]
        return Results(dict.fromkeys(gone), {name: error for name, error in errors.items() if name not in gone})

    return Coordinators(client).change(groups, build, read, confirm, deadline_ms)


def remove_members(
    client: ConsumerNetworkClient, group: str, members: Iterable[GroupMember], reason: str, deadline_ms: float
) -> Results[str, None]:
    """Remove members from a group; outcomes by member id. A live member joins again; a static one is fenced.

    Exactly these members are removed: FENCED_INSTANCE_ID for a static member that was replaced meanwhile,
    UNKNOWN_MEMBER_ID for one that has left, OutcomeUnknown for one that is still there after a lost response. `reason`
    is written to the broker's log (KIP-800, from 3.2 on; the first 255 characters).
    """
    by_id = {member.id: member for member in members}
    removed = _remove(client, group, by_id, reason, deadline_ms, one_by_one=False)
    if any(isinstance(error, UnsupportedVersion) for error in removed.errors.values()):
        return _remove(client, group, by_id, reason, deadline_ms, one_by_one=True)
    return removed


def _remove(
    client: ConsumerNetworkClient,
    group: str,
    members: Mapping[str, GroupMember],
    reason: str,
    deadline_ms: float,
    *,
    one_by_one: bool,
) -> Results[str, None]:
    """Remove all in one request (v3), or `one_by_one` at a broker before 2.4, whose request has no reason."""
    coordinators = Coordinators(client)

    def locate(ids: Sequence[str], failures: Mapping[str, KcliError], deadline_ms: float) -> Located[str]:
        found = coordinators.locate([group], [group] if failures else [], deadline_ms)
        located: Located[str] = Located()
        if group in found.errors:
            located.absent = dict.fromkeys(ids, found.errors[group])
        else:
            batches = [[member_id] for member_id in ids] if one_by_one else [list(ids)]
            located.requests = [(found.values[group], batch) for batch in batches]
        return located

    def build(_node: Node, ids: list[str]) -> LeaveGroupRequest:
        from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

        if one_by_one:
            return LeaveGroupRequest(group_id=group, member_id=ids[0])
        short = reason[:_LONGEST_REASON] or None
        leaving = [MemberIdentity(member_id=id, group_instance_id=members[id].instance_id, reason=short) for id in ids]
        return LeaveGroupRequest(group_id=group, members=leaving)

    def read(response: LeaveGroupResponse, ids: Sequence[str]) -> Iterator[tuple[str, KcliError | None]]:
        codes = {member.member_id: member.error_code for member in response.members or ()}
        for member_id in ids if one_by_one or response.error_code else codes:
            code = response.error_code or codes.get(member_id, 0)
            yield member_id, response.broker_error(code, group=group, member=member_id) if code else None

    def confirm(ids: Sequence[str], deadline_ms: float) -> Results[str, None]:
        described = describe_groups(client, {group: None}, deadline_ms)
        error = described.errors.get(group)
        if error is not None and not is_absent(error):
            return Results(errors=dict.fromkeys(ids, error))
        remaining = set() if error is not None else {member.id for member in described.values[group].members}
        return Results({member_id: None for member_id in ids if member_id not in remaining})

    first = _FIRST_WITH_MEMBERS
    lowest, highest = (None, first - 1) if one_by_one else (first, None)
    return fan_out_changes(
        client, members, locate, build, read, confirm, deadline_ms, min_version=lowest, max_version=highest
    )
