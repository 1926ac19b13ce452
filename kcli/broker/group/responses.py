"""JoinGroup and SyncGroup responses built from a group. Pure."""

from __future__ import annotations

from kcli.broker.group.classic_group import ClassicGroup, ClassicGroupMember
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_SYNC_VERSION_WITH_PROTOCOL = 5

FIRST_VERSION_WITH_NULL_PROTOCOL = 7


def join_response(group: ClassicGroup, member: ClassicGroupMember) -> JoinGroupResponse:
    """Return the successful response for a member of this generation; only the leader gets the list of members."""
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=_member_list(group) if group.leader_id == member.member_id else [],
    )


def _member_list(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=m.member_id, group_instance_id=m.group_instance_id, metadata=m.metadata(group.protocol)
        )
        for m in group.members.values()
    ]


def join_error(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """Return a response with an error; with MEMBER_ID_REQUIRED, `member_id` is the id to join again with."""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)


def fit_to_version(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Encode "no protocol" as null from v7 on and as "" before. A parked response is built without its version."""
    if version < FIRST_VERSION_WITH_NULL_PROTOCOL and response.protocol_name is None:
        response.protocol_name = ""
    return response


def sync_response(group: ClassicGroup, member: ClassicGroupMember) -> SyncGroupResponse:
    """Return the successful response with the member's assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """Return a response with an error and an empty assignment."""
    return SyncGroupResponse(error_code=error)


def lacks_protocol(request: SyncGroupRequest, version: int) -> bool:
    """Return whether the request must name its protocol, and does not."""
    return version >= FIRST_SYNC_VERSION_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name)
