"""The coordinator of classic groups: finds the group a request means, and has it answered.

It coordinates all groups, as the only broker there is. Groups of KIP-848 are not served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.group import describing
from kcli.broker.group.answers import append_error, fit_to_version, join_refused, sync_refused
from kcli.broker.group.expiry import GroupFacts
from kcli.broker.group.group import Group
from kcli.broker.group.joining import Join, join
from kcli.broker.group.leaving import leave
from kcli.broker.group.membership import check_commit, check_heartbeat
from kcli.broker.group.rebalance import GroupStore, Rebalancer
from kcli.broker.group.states import GroupEvent, GroupState
from kcli.broker.group.stored import from_record
from kcli.broker.group.syncing import sync
from kcli.broker.pending import Pending
from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kcli.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kcli.protocol.offsets_topic import GroupMetadataValue

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.timer import Timer
    from kcli.clock import Clock

FIRST_COMMIT_VERSION_WITH_NOT_FOUND = 9
FIRST_SYNC_VERSION_WITH_PROTOCOL = 5


class GroupCoordinator:
    """All groups by name. Answers are responses, or pending ones where a member waits for others."""

    def __init__(self, config: BrokerConfig, timer: Timer, clock: Clock, store: GroupStore) -> None:
        self._config = config
        self._clock = clock
        self._store = store
        self._rounds = Rebalancer(config.group_initial_rebalance_delay_ms, timer, clock, store)
        self._groups: dict[str, Group] = {}

    def __repr__(self) -> str:
        return f"<GroupCoordinator {len(self._groups)} groups, {self._rounds.deadlines!r}>"

    # ---- members ----

    def join(self, request: JoinGroupRequest, context: RequestContext) -> Pending[JoinGroupResponse]:
        """Enter a group, or enter its next generation. Done at once with an error, else when the join phase ends."""
        answer = Pending[JoinGroupResponse]()
        told = Pending[JoinGroupResponse]()
        answer.on_done(lambda response: told.complete(fit_to_version(response, context.api_version)))
        group, error = self._group_to_join(request)
        if group is None:
            answer.complete(join_refused(error, request.member_id))
        else:
            join(self._rounds, group, Join(request, context, answer), self._config.group_max_size)
        return told

    def _group_to_join(self, request: JoinGroupRequest) -> tuple[Group | None, ErrorCode]:
        """The group, made if somebody new asks for one that is not there."""
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
        group = Group(request.group_id, now_wall_ms=self._clock.wall_ms())
        error = append_error(self._rounds.save(group))
        if error is not ErrorCode.NONE:
            return None, error
        self._groups[request.group_id] = group
        return group, ErrorCode.NONE

    def sync(
        self, request: SyncGroupRequest, context: RequestContext
    ) -> Pending[SyncGroupResponse] | SyncGroupResponse:
        """Hand in the assignment, or fetch one's part of it."""
        is_named = request.protocol_type is not None and request.protocol_name is not None
        if context.api_version >= FIRST_SYNC_VERSION_WITH_PROTOCOL and not is_named:
            return sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.group_id == "":
            return sync_refused(ErrorCode.INVALID_GROUP_ID)
        group = self._groups.get(request.group_id)
        return sync_refused(ErrorCode.UNKNOWN_MEMBER_ID) if group is None else sync(self._rounds, group, request)

    def heartbeat(self, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        """Keep a member's session alive, and tell it of a round."""
        if request.group_id == "":
            return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        group = self._groups.get(request.group_id)
        if group is None:
            return HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        error = check_heartbeat(group, request)
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._rounds.start_session(group, group.members[request.member_id])
        return HeartbeatResponse(error_code=error)

    def leave(self, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
        """Take members out of a group."""
        if request.group_id == "":
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        return leave(self._rounds, self._groups.get(request.group_id), request, context.api_version)

    def check_commit(
        self,
        group_id: str,
        generation_id: int,
        member_id: str,
        group_instance_id: str | None,
        *,
        now_ms: float,
        api_version: int = FIRST_COMMIT_VERSION_WITH_NOT_FOUND,
    ) -> ErrorCode:
        """Whether this sender may commit offsets; if it is a member, the commit counts as a heartbeat.

        Without a generation (-1) it may for a group that is not there, too: the store then makes a "simple" one.
        """
        group = self._groups.get(group_id)
        if group is None:
            if generation_id < 0:
                return ErrorCode.NONE
            is_new = api_version >= FIRST_COMMIT_VERSION_WITH_NOT_FOUND
            return ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
        error = check_commit(group, generation_id, member_id, group_instance_id)
        if error is ErrorCode.NONE and member_id in group.members:
            self._rounds.start_session(group, group.members[member_id])
        return error

    # ---- administrators ----

    def describe_groups(self, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
        """State and members of the groups asked for."""
        asked = [self._describe_one(group_id, request, context.api_version) for group_id in request.groups]
        return DescribeGroupsResponse(groups=asked)

    def _describe_one(self, group_id: str, request: DescribeGroupsRequest, version: int) -> DescribedGroup:
        group = self._groups.get(group_id)
        with_operations = request.include_authorized_operations
        if group is None:
            return describing.describe_unknown(group_id, version, with_operations=with_operations)
        return describing.describe(group, with_operations=with_operations)

    def list_groups(self, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        """All groups, or those that pass the filters."""
        found = describing.listed(self._groups.values(), request.states_filter, request.types_filter)
        return ListGroupsResponse(groups=found)

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

    # ---- what the offset store asks ----

    def restore(self, group_id: str, value: GroupMetadataValue | None) -> None:
        """Have a group as its record says; None: one of which there are only offsets. Sessions begin now."""
        known = self._groups.pop(group_id, None)
        if known is not None:
            self._rounds.forget(known)
        if value is None:
            self._groups[group_id] = Group(group_id, now_wall_ms=self._clock.wall_ms())
            return
        group = self._groups[group_id] = from_record(group_id, value)
        for member in group.members.values():
            self._rounds.start_session(group, member)
        if len(group.members) > self._config.group_max_size:
            self._rounds.begin_round(group)  # the setting was lowered: the last ones to join again are turned away

    def group_ids(self) -> list[str]:
        """Every group there is."""
        return [*self._groups]

    def facts(self, group_id: str) -> GroupFacts | None:
        """What the expiry of offsets must know of a group; None for a group that is not there."""
        group = self._groups.get(group_id)
        return None if group is None else group.facts()

    def state(self, group_id: str) -> GroupState:
        """The group's state; Dead when there is none."""
        group = self._groups.get(group_id)
        return GroupState.DEAD if group is None else group.state

    def subscribed_topics(self, group_id: str) -> frozenset[str] | None:
        """The topics that a consumer group's members read; None when that is not known."""
        group = self._groups.get(group_id)
        return None if group is None else group.subscribed_topics

    def forget(self, group_id: str) -> None:
        """Drop an Empty group whose records are written away already. ValueError when it has members."""
        group = self._groups[group_id]
        group.move(GroupEvent.DELETED, self._clock.wall_ms())
        self._rounds.forget(group)
        del self._groups[group_id]
