"""GroupCoordinator of classic groups: one method per group API, over the groups by name.

It coordinates all groups, because it is the only broker. Groups of the consumer protocol (KIP-848) are not served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.group.classic_group import ClassicGroup
from kcli.broker.group.expiry import GroupFacts
from kcli.broker.group.joining import JoinAttempt, join
from kcli.broker.group.rebalancer import GroupStore, Rebalancer
from kcli.broker.group.responses import fit_to_version, join_error, sync_error, sync_response
from kcli.broker.group.states import COMMIT_ERRORS, HEARTBEAT_ERRORS, SYNC_ERRORS, GroupEvent, GroupState
from kcli.broker.pending import Pending
from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kcli.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kcli.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kcli.protocol.offsets_topic import GroupMetadataValue

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.timer import Timer
    from kcli.clock import Clock

FIRST_COMMIT_VERSION_WITH_NOT_FOUND = 9
FIRST_LEAVE_VERSION_WITH_MEMBERS = 3
FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND = 6

CLASSIC = "classic"


class GroupCoordinator:
    """All groups by name. A method returns a response, or a pending one when the member has to wait for others."""

    def __init__(self, config: BrokerConfig, timer: Timer, clock: Clock, store: GroupStore) -> None:
        self._config = config
        self._clock = clock
        self._store = store
        self._rebalancer = Rebalancer(config.group_initial_rebalance_delay_ms, timer, clock, store)
        self._groups: dict[str, ClassicGroup] = {}

    def __repr__(self) -> str:
        return f"<GroupCoordinator {len(self._groups)} groups, {self._rebalancer.deadlines!r}>"

    # ---- member requests ----

    def join(self, request: JoinGroupRequest, context: RequestContext) -> Pending[JoinGroupResponse]:
        """Join a group or its next generation. Done at once with an error, else when the join phase ends."""
        response = Pending[JoinGroupResponse]()
        versioned = Pending[JoinGroupResponse]()
        response.on_done(lambda completed: versioned.complete(fit_to_version(completed, context.api_version)))
        group, error = self._group_to_join(request)
        if group is None:
            response.complete(join_error(error, request.member_id))
        else:
            join(self._rebalancer, group, JoinAttempt(request, context, response), self._config.group_max_size)
        return versioned

    def _group_to_join(self, request: JoinGroupRequest) -> tuple[ClassicGroup | None, ErrorCode]:
        """Return the group, or create it for a new member."""
        config = self._config
        if request.group_id == "":
            return None, ErrorCode.INVALID_GROUP_ID
        if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
            return None, ErrorCode.INVALID_SESSION_TIMEOUT
        group = self._groups.get(request.group_id)
        if group is not None:
            return group, ErrorCode.NONE
        if request.member_id != "":
            return None, ErrorCode.UNKNOWN_MEMBER_ID
        group = ClassicGroup(request.group_id, now_wall_ms=self._clock.wall_ms())
        error = self._rebalancer.save(group)
        if error is not ErrorCode.NONE:
            return None, error
        self._groups[request.group_id] = group
        return group, ErrorCode.NONE

    def sync(
        self, request: SyncGroupRequest, context: RequestContext
    ) -> Pending[SyncGroupResponse] | SyncGroupResponse:
        """Accept the leader's assignment and return the member's part of it, or park until the leader has sent it."""
        if request.group_id == "":
            return sync_error(ErrorCode.INVALID_GROUP_ID)
        group = self._groups.get(request.group_id)
        error = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _check_sync(group, request)
        if group is None or error is not ErrorCode.NONE:
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
        if request.group_id == "":
            return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        group = self._groups.get(request.group_id)
        if group is None:
            return HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        error = _check_heartbeat(group, request)
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._rebalancer.start_session(group, group.members[request.member_id])
        return HeartbeatResponse(error_code=error)

    def leave(self, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
        """Remove members, on their own request or an administrator's, with one rebalance for all of them."""
        if request.group_id == "":
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        group = self._groups.get(request.group_id)
        has_list = context.api_version >= FIRST_LEAVE_VERSION_WITH_MEMBERS
        leaving = request.members if has_list else [MemberIdentity(member_id=request.member_id)]
        results = [
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=ErrorCode.UNKNOWN_MEMBER_ID if group is None else self._remove(group, identity),
            )
            for identity in leaving
        ]
        removed_any = any(result.error_code == ErrorCode.NONE for result in results)
        if group is not None and removed_any and group.state is not GroupState.EMPTY:
            self._rebalancer.rebalance_or_complete_join(group)
        return LeaveGroupResponse(members=results) if has_list else LeaveGroupResponse(error_code=results[0].error_code)

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

    def check_commit(
        self,
        group_id: str,
        generation_id: int,
        member_id: str,
        group_instance_id: str | None,
        *,
        api_version: int = FIRST_COMMIT_VERSION_WITH_NOT_FOUND,
    ) -> ErrorCode:
        """Return NONE if this sender may commit offsets; a member's commit counts as a heartbeat.

        Without a generation (-1) the group need not exist: the store then creates a "simple" group.
        """
        group = self._groups.get(group_id)
        if group is None:
            if generation_id < 0:
                return ErrorCode.NONE
            is_new = api_version >= FIRST_COMMIT_VERSION_WITH_NOT_FOUND
            return ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
        error = _check_commit(group, generation_id, member_id, group_instance_id)
        if error is ErrorCode.NONE and member_id in group.members:
            self._rebalancer.start_session(group, group.members[member_id])
        return error

    # ---- admin requests ----

    def describe_groups(self, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
        """Return state and members of the requested groups."""
        described = []
        for group_id in request.groups:
            group = self._groups.get(group_id)
            if group is None:
                described.append(_describe_unknown(group_id, context.api_version))
            else:
                described.append(_describe(group))
        return DescribeGroupsResponse(groups=described)

    def list_groups(self, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        """Return the groups in one of the requested states and types (none given: all). Case does not matter."""
        states = {state.strip().lower() for state in request.states_filter}
        types = {group_type.strip().lower() for group_type in request.types_filter}
        if types and CLASSIC not in types:
            return ListGroupsResponse(groups=[])
        return ListGroupsResponse(
            groups=[
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state.value,
                    group_type=CLASSIC,
                )
                for group in self._groups.values()
                if not states or group.state.value.lower() in states
            ]
        )

    def delete_groups(self, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
        """Delete groups without members, with their offsets."""
        names = dict.fromkeys(request.groups_names)
        return DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id=name, error_code=self._delete_one(name)) for name in names]
        )

    def _delete_one(self, group_id: str) -> ErrorCode:
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not group.can(GroupEvent.DELETED):
            return ErrorCode.NON_EMPTY_GROUP
        error = self._store.delete_group(group_id, self._clock.wall_ms())
        if error is ErrorCode.NONE:
            self.forget(group_id)
        return error

    # ---- the offset store's interface (GroupRegistry) ----

    def restore(self, group_id: str, value: GroupMetadataValue | None) -> None:
        """Restore a group from its record; None: a group that only has offsets. The members' sessions start now."""
        previous = self._groups.pop(group_id, None)
        if previous is not None:
            self._rebalancer.forget(previous)
        if value is None:
            self._groups[group_id] = ClassicGroup(group_id, now_wall_ms=self._clock.wall_ms())
            return
        group = self._groups[group_id] = ClassicGroup.from_record(group_id, value)
        for member in group.members.values():
            self._rebalancer.start_session(group, member)
        if len(group.members) > self._config.group_max_size:  # lowered since: the last members to rejoin are refused
            self._rebalancer.prepare_rebalance(group)

    def group_ids(self) -> list[str]:
        """Return the names of all groups."""
        return [*self._groups]

    def facts(self, group_id: str) -> GroupFacts | None:
        """Return the facts that the expiry of a group's offsets depends on; None for an unknown group."""
        group = self._groups.get(group_id)
        return None if group is None else group.facts()

    def forget(self, group_id: str) -> None:
        """Drop an Empty group after its tombstones are written. ValueError when it has members."""
        group = self._groups[group_id]
        group.move(GroupEvent.DELETED, self._clock.wall_ms())
        self._rebalancer.forget(group)
        del self._groups[group_id]


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


def _check_commit(group: ClassicGroup, generation_id: int, member_id: str, group_instance_id: str | None) -> ErrorCode:
    """Return NONE for a member of this generation, and for any sender without a generation while the group is Empty."""
    if generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation_id < 0 and member_id == "" and group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(member_id, group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    return ErrorCode.ILLEGAL_GENERATION if generation_id != group.generation_id else COMMIT_ERRORS[group.state]


def _describe(group: ClassicGroup) -> DescribedGroup:
    """Describe a group; protocol and subscriptions only when Stable, because they change until then."""
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=m.member_id,
                group_instance_id=m.group_instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                member_metadata=m.metadata(group.protocol) if is_stable else b"",
                member_assignment=m.assignment,
            )
            for m in group.members.values()
        ],
    )


def _describe_unknown(group_id: str, version: int) -> DescribedGroup:
    """Describe an unknown group as Dead; from v6 on with GROUP_ID_NOT_FOUND."""
    if version >= FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND:
        return DescribedGroup(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} not found.",
        )
    return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
