"""Requests of members that use the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

In a consumer group with members they are served by `classic_members`; an empty one becomes a classic group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.broker.group.classic_group import ClassicGroup
from kcli.broker.group.joining import JoinAttempt, join
from kcli.broker.group.rebalancer import Rebalancer
from kcli.broker.group.responses import fit_to_version, join_error, sync_error, sync_response
from kcli.broker.group.states import HEARTBEAT_ERRORS, SYNC_ERRORS, GroupState
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.group.classic_members import ClassicMembers
    from kcli.broker.group.consumer_changes import ConsumerChanges
    from kcli.broker.group.consumer_group import ConsumerGroup, Groups
    from kcli.clock import Clock

FIRST_LEAVE_VERSION_WITH_MEMBERS = 3


class ClassicRequests:
    """The requests of classic members. `groups` are all groups; `of_consumers` gives what serves consumer groups."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        rebalancer: Rebalancer,
        groups: Groups,
        of_consumers: Callable[[], tuple[ClassicMembers, ConsumerChanges]],
    ) -> None:
        self._of_consumers = of_consumers
        self._config = config
        self._clock = clock
        self._rebalancer = rebalancer
        self._groups = groups

    def __repr__(self) -> str:
        return f"<ClassicRequests {self._rebalancer.deadlines!r}>"

    def join(self, request: JoinGroupRequest, context: RequestContext) -> Pending[JoinGroupResponse]:
        """Join a group or its next generation. Done at once with an error, else when the join phase ends."""
        response = Pending[JoinGroupResponse]()
        group, error = self._group_to_join(request)
        attempt = JoinAttempt(request, context, response)
        if group is None:
            response.complete(join_error(error, request.member_id))
        elif isinstance(group, ClassicGroup):
            join(self._rebalancer, group, attempt, self._config.group_max_size)
        else:
            try:
                response.complete(self._of_consumers()[0].join(group, attempt))
            except BrokerError as refusal:
                response.complete(join_error(refusal.code))
        return response.then(lambda answer: fit_to_version(answer, context.api_version))

    def _group_to_join(self, request: JoinGroupRequest) -> tuple[ClassicGroup | ConsumerGroup | None, ErrorCode]:
        """Return the group, or create it for a new member, also in place of a consumer group without members."""
        config = self._config
        if request.group_id == "":
            return None, ErrorCode.INVALID_GROUP_ID
        if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
            return None, ErrorCode.INVALID_SESSION_TIMEOUT
        group = self._groups.get(request.group_id)
        if group is not None and (isinstance(group, ClassicGroup) or group.members):
            return group, ErrorCode.NONE
        if request.member_id != "":
            return None, ErrorCode.UNKNOWN_MEMBER_ID
        created = ClassicGroup(request.group_id, now_wall_ms=self._clock.wall_ms())
        error = self._rebalancer.save(created) if group is None else self._of_consumers()[1].replace(group, created)
        if error is not ErrorCode.NONE:
            return None, error
        self._groups[request.group_id] = created
        return created, ErrorCode.NONE

    def sync(
        self, request: SyncGroupRequest, context: RequestContext
    ) -> Pending[SyncGroupResponse] | SyncGroupResponse:
        """Accept the leader's assignment and return the member's part of it, or park until the leader has sent it."""
        try:
            group = self._group(request.group_id)
            if not isinstance(group, ClassicGroup):
                return self._of_consumers()[0].sync(group, request)
        except BrokerError as refusal:
            return sync_error(refusal.code)
        error = _check_sync(group, request)
        if error is not ErrorCode.NONE:
            return sync_error(error)
        member = group.members[request.member_id]
        self._rebalancer.sync_received(group, member.member_id)
        if group.state is GroupState.STABLE:
            return sync_response(group, member)
        if member.awaiting_sync is not None:  # an older request on a connection that the member has lost
            member.awaiting_sync.complete(sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        response = member.awaiting_sync = Pending[SyncGroupResponse]()
        if group.leader_id == member.member_id:
            self._rebalancer.assign(group, {part.member_id: part.assignment for part in request.assignments})
        return response

    def heartbeat(self, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        """Restart a member's session timeout; REBALANCE_IN_PROGRESS requests it to join again."""
        try:
            group = self._group(request.group_id)
            if not isinstance(group, ClassicGroup):
                return self._of_consumers()[0].heartbeat(group, request)
        except BrokerError as refusal:
            return HeartbeatResponse(error_code=refusal.code)
        error = _check_heartbeat(group, request)
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._rebalancer.start_session(group, group.members[request.member_id])
        return HeartbeatResponse(error_code=error)

    def _group(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        """Return the group of a member. BrokerError if there is none."""
        if group_id == "":
            raise BrokerError(ErrorCode.INVALID_GROUP_ID)
        group = self._groups.get(group_id)
        if group is None:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def leave(self, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
        """Remove members, on their own request or an administrator's, with one rebalance for all of them."""
        if request.group_id == "":
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        has_list = context.api_version >= FIRST_LEAVE_VERSION_WITH_MEMBERS
        leaving = request.members if has_list else [MemberIdentity(member_id=request.member_id)]
        try:
            errors = self._leave(request.group_id, leaving)
        except BrokerError as refusal:
            return LeaveGroupResponse(error_code=refusal.code)
        if not has_list:
            return LeaveGroupResponse(error_code=errors[0])
        return LeaveGroupResponse(
            members=[
                MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error)
                for member, error in zip(leaving, errors, strict=True)
            ]
        )

    def _leave(self, group_id: str, leaving: list[MemberIdentity]) -> list[ErrorCode]:
        group = self._groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        if not isinstance(group, ClassicGroup):
            return self._of_consumers()[0].leave(group, leaving)
        errors = [self._remove(group, identity) for identity in leaving]
        if ErrorCode.NONE in errors and group.state is not GroupState.EMPTY:
            self._rebalancer.rebalance_or_complete_join(group)
        return errors

    def _remove(self, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
        """Remove one member. Administrators identify static members by instance id only, with an empty member id."""
        member_id = identity.member_id
        if member_id == "":
            member_id = group.static_member_ids.get(identity.group_instance_id or "", "")
        if member_id not in group.pending_join_ids:
            error = group.check_member(member_id, identity.group_instance_id)
            if error is not ErrorCode.NONE:
                return error
        self._rebalancer.remove_member(group, member_id)
        return ErrorCode.NONE


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    """Return NONE for a member that joined this generation under this protocol."""
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return SYNC_ERRORS[group.state]


def _differ(requested: str | None, actual: str | None) -> bool:
    """Compare protocols; versions before 5 do not send them."""
    return requested is not None and actual is not None and requested != actual


def _check_heartbeat(group: ClassicGroup, request: HeartbeatRequest) -> ErrorCode:
    """Return NONE or REBALANCE_IN_PROGRESS for a member of this generation; other errors do not extend its session."""
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return HEARTBEAT_ERRORS[group.state]
