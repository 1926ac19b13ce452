"""The answers to JoinGroup and SyncGroup, made of a group. Pure."""

from __future__ import annotations

from kcli.broker.group.group import Group
from kcli.broker.group.members import Member
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kcli.protocol.messages.sync_group import SyncGroupResponse

FIRST_VERSION_WITH_NULL_PROTOCOL = 7

_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def joined(group: Group, member: Member) -> JoinGroupResponse:
    """You are in this generation; the leader is told of everybody."""
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=everybody(group) if group.leader_id == member.member_id else [],
    )


def everybody(group: Group) -> list[JoinGroupResponseMember]:
    """All members with what they say under the group's protocol."""
    return [
        JoinGroupResponseMember(
            member_id=m.member_id, group_instance_id=m.group_instance_id, metadata=m.metadata(group.protocol)
        )
        for m in group.members.values()
    ]


def join_refused(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """You are not in, and why; with 79, `member_id` is the one to come back with."""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)


def fit_to_version(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """No protocol is null from v7 on and empty before. The parked answer is made by who does not know the version."""
    if version < FIRST_VERSION_WITH_NULL_PROTOCOL and response.protocol_name is None:
        response.protocol_name = ""
    return response


def synced(group: Group, member: Member) -> SyncGroupResponse:
    """This is what you read."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


def sync_refused(error: ErrorCode) -> SyncGroupResponse:
    """You get nothing, and why."""
    return SyncGroupResponse(error_code=error)


def append_error(error: ErrorCode) -> ErrorCode:
    """What a member is told when the group could not be stored: codes that make it look for the coordinator again."""
    return _APPEND_ERRORS.get(error, error)
