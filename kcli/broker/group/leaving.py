"""LeaveGroup: members go, alone or in a batch, of themselves or removed by an administrator."""

from __future__ import annotations

from kcli.broker.group.group import Group
from kcli.broker.group.rebalance import Rebalancer
from kcli.broker.group.states import GroupState
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

FIRST_VERSION_WITH_BATCHES = 3


def leave(rounds: Rebalancer, group: Group | None, request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
    """Take out whoever is named; one round for all of them. A group that is not known has no such members."""
    named = request.members if version >= FIRST_VERSION_WITH_BATCHES else [MemberIdentity(member_id=request.member_id)]
    results = [_result(who, _take_out(rounds, group, who)) for who in named]
    if group is not None and any(result.error_code == ErrorCode.NONE for result in results):
        _go_on(rounds, group)
    if version >= FIRST_VERSION_WITH_BATCHES:
        return LeaveGroupResponse(members=results)
    return LeaveGroupResponse(error_code=results[0].error_code)


def _take_out(rounds: Rebalancer, group: Group | None, who: MemberIdentity) -> ErrorCode:
    """Administrators know static members by their instance id only and leave the member id empty."""
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    member_id = who.member_id
    if member_id == "":
        member_id = group.static_ids.get(who.group_instance_id or "", "")
    if member_id not in group.pending_ids:
        error = group.check_member(member_id, who.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
    rounds.drop(group, member_id)
    return ErrorCode.NONE


def _go_on(rounds: Rebalancer, group: Group) -> None:
    if group.state is not GroupState.EMPTY:
        rounds.member_changed(group)


def _result(who: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=who.member_id, group_instance_id=who.group_instance_id, error_code=error)
