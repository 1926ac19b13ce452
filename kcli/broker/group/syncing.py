"""SyncGroup: the leader hands in who reads what, everybody fetches its part."""

from __future__ import annotations

from kcli.broker.group.answers import sync_refused, synced
from kcli.broker.group.group import Group
from kcli.broker.group.rebalance import Rebalancer
from kcli.broker.group.states import SYNC_ANSWERS, GroupState
from kcli.broker.pending import Pending
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def check_sync(group: Group, request: SyncGroupRequest) -> ErrorCode:
    """Whether the sender is a member of this generation, and joined it under this protocol. Pure."""
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return SYNC_ANSWERS[group.state]


def sync(rounds: Rebalancer, group: Group, request: SyncGroupRequest) -> Pending[SyncGroupResponse] | SyncGroupResponse:
    """Answer with the assignment, or park the request until the leader's is there."""
    error = check_sync(group, request)
    if error is not ErrorCode.NONE:
        return sync_refused(error)
    member = group.members[request.member_id]
    rounds.synced(group, member.member_id)
    if group.state is GroupState.STABLE:
        return synced(group, member)
    if member.sync is not None:  # on a connection that the member left behind
        member.sync.complete(sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
    answer = member.sync = Pending[SyncGroupResponse]()
    if group.leader_id == member.member_id:
        rounds.assign(group, {part.member_id: part.assignment for part in request.assignments})
    return answer


def _differ(asked: str | None, actual: str | None) -> bool:
    """Versions before 5 do not tell."""
    return asked is not None and actual is not None and asked != actual
