"""Groups deleted and members removed: the only module of this package that changes anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kcli.admin.groups.model import GroupMember
from kcli.client.requests import Results
from kcli.client.routing import Coordinators
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, UnsupportedVersion

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
    from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

_FIRST_WITH_MEMBERS = 3
_LONGEST_REASON = 255


def delete_groups(client: ConsumerNetworkClient, groups: Iterable[str], deadline_ms: float) -> Results[str, None]:
    """Delete groups without members, with their offsets. NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, ... under their names.

    When an answer was lost and the group is not there at the second try, the first one has deleted it.
    """
    tries: Counter[str] = Counter()

    def build(names: list[str]) -> DeleteGroupsRequest:
        from kcli.protocol.messages.delete_groups import DeleteGroupsRequest

        tries.update(names)
        return DeleteGroupsRequest(groups_names=names)

    def read(response: DeleteGroupsResponse) -> Iterator[tuple[str, KcliError | None]]:
        for result in response.results:
            name = result.group_id
            done = not result.error_code or (result.error_code == ErrorCode.GROUP_ID_NOT_FOUND and tries[name] > 1)
            yield name, None if done else BrokerError(result.error_code, group=name)

    return Coordinators(client).ask(groups, build, read, deadline_ms)


def remove_members(
    client: ConsumerNetworkClient, group: str, members: Iterable[GroupMember], reason: str, deadline_ms: float
) -> Results[str, None]:
    """Make members leave a group; by member id. A live one joins again, unless it is static: then it is fenced.

    What is meant is exactly these members: a static one that was replaced meanwhile is FENCED_INSTANCE_ID, one that
    has gone UNKNOWN_MEMBER_ID. `reason` goes to the broker's log (KIP-800, from 3.2 on; 255 characters of it).
    """
    wanted = {member.id: member for member in members}
    if not wanted:
        return Results()
    coordinators = Coordinators(client)
    found = _remove(coordinators, group, wanted.values(), reason, deadline_ms)
    error = found.errors.get(group)
    if isinstance(error, UnsupportedVersion):
        return _remove_one_by_one(coordinators, group, wanted.values(), deadline_ms)
    if error is not None:
        return Results(errors=dict.fromkeys(wanted, error))
    outcomes: Results[str, None] = Results()
    for member_id in wanted:
        code = found.values[group].get(member_id, ErrorCode.UNKNOWN_SERVER_ERROR)
        outcomes.put(member_id, BrokerError(code, group=group, member=member_id) if code else None)
    return outcomes


def _remove(
    coordinators: Coordinators, group: str, members: Iterable[GroupMember], reason: str, deadline_ms: float
) -> Results[str, dict[str, int]]:
    """All in one request (v3); the error code by member id."""
    from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

    request = LeaveGroupRequest(
        group_id=group,
        members=[
            MemberIdentity(member_id=it.id, group_instance_id=it.instance_id, reason=reason[:_LONGEST_REASON] or None)
            for it in members
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
    """From a broker before 2.4, whose requests have room for one member and for no reason."""

    def read(response: LeaveGroupResponse) -> Iterator[tuple[str, KcliError | None]]:
        yield group, BrokerError(response.error_code, group=group) if response.error_code else None

    outcomes: Results[str, None] = Results()
    for member in members:
        build = partial(_removal_of_one, member.id)
        found = coordinators.ask([group], build, read, deadline_ms, max_version=_FIRST_WITH_MEMBERS - 1)
        outcomes.put(member.id, found.errors.get(group))
    return outcomes


def _removal_of_one(member_id: str, groups: list[str]) -> LeaveGroupRequest:
    from kcli.protocol.messages.leave_group import LeaveGroupRequest

    return LeaveGroupRequest(group_id=groups[0], member_id=member_id)
