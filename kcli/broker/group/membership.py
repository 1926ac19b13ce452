"""Whether a request comes from a member of this generation: heartbeats and commits. Pure."""

from __future__ import annotations

from kcli.broker.group.group import Group
from kcli.broker.group.states import COMMIT_ANSWERS, HEARTBEAT_ANSWERS, GroupState
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.heartbeat import HeartbeatRequest


def check_heartbeat(group: Group, request: HeartbeatRequest) -> ErrorCode:
    """NONE or 27 for a member of this generation; anything else does not keep a session alive."""
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return HEARTBEAT_ANSWERS[group.state]


def check_commit(group: Group, generation_id: int, member_id: str, group_instance_id: str | None) -> ErrorCode:
    """NONE for a member of this generation, and for anybody without a generation while nobody is a member."""
    if generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation_id < 0 and member_id == "" and group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(member_id, group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    return ErrorCode.ILLEGAL_GENERATION if generation_id != group.generation_id else COMMIT_ANSWERS[group.state]
