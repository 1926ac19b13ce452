"""JoinGroup: admission of members, their ids, and whether a join starts a rebalance."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kcli.broker.group.classic_group import ClassicGroup, ClassicGroupMember, Protocols, choose_protocol, new_member_id
from kcli.broker.group.rebalancer import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalancer
from kcli.broker.group.responses import join_error, join_response
from kcli.broker.group.states import GroupState
from kcli.broker.serving.client_address import host_of_member
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITH_MEMBER_ID_REQUIRED = 4  # KIP-394
FIRST_VERSION_WITH_SKIP_ASSIGNMENT = 9  # KIP-814


class JoinAttempt(NamedTuple):
    """A JoinGroup request in progress and its pending response."""

    request: JoinGroupRequest
    context: RequestContext
    response: Pending[JoinGroupResponse]

    @property
    def version(self) -> int:
        return self.context.api_version

    @property
    def protocols(self) -> Protocols:
        return tuple((p.name, p.metadata) for p in self.request.protocols)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The rebalance timeout; v0 has only the session timeout."""
        request = self.request
        return request.rebalance_timeout_ms if self.context.api_version > 0 else request.session_timeout_ms

    def fail(self, error: ErrorCode, member_id: str = "") -> None:
        self.response.complete(join_error(error, member_id))


def join(rebalancer: Rebalancer, group: ClassicGroup, attempt: JoinAttempt, max_size: int) -> None:
    """Answer the request, or add or update the member and park the request until the join phase ends."""
    member_id = attempt.request.member_id
    if not group.has_room_for(member_id, max_size):
        rebalancer.remove_member(group, member_id)  # a restored group may exceed the limit: its last ones are removed
        attempt.fail(ErrorCode.GROUP_MAX_SIZE_REACHED)
        rebalancer.maybe_complete_join_phase(group)
    elif not group.supports(attempt.request.protocol_type, attempt.protocols):
        attempt.fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    elif member_id == "":
        _join_without_id(rebalancer, group, attempt)
    elif member_id in group.pending_join_ids:
        _join_with_pending_id(rebalancer, group, attempt)
    else:
        error = group.check_member(member_id, attempt.request.group_instance_id)
        if error is ErrorCode.NONE:
            _rejoin(rebalancer, group, attempt, group.members[member_id])
        else:
            attempt.fail(error, member_id)


def _join_without_id(rebalancer: Rebalancer, group: ClassicGroup, attempt: JoinAttempt) -> None:
    instance_id = attempt.request.group_instance_id
    member_id = new_member_id(instance_id if instance_id is not None else attempt.context.client_id or "")
    if instance_id is not None and instance_id in group.static_member_ids:
        _replace_static(rebalancer, group, attempt, group.members[group.static_member_ids[instance_id]], member_id)
    elif instance_id is not None or attempt.context.api_version < FIRST_VERSION_WITH_MEMBER_ID_REQUIRED:
        _add_member(rebalancer, group, attempt, member_id)
    else:
        # The client must join again with this id: if its response is lost, only a pending id expires, not a member.
        group.pending_join_ids.add(member_id)
        rebalancer.start_session_of(group, member_id, attempt.request.session_timeout_ms)
        attempt.fail(ErrorCode.MEMBER_ID_REQUIRED, member_id)


def _join_with_pending_id(rebalancer: Rebalancer, group: ClassicGroup, attempt: JoinAttempt) -> None:
    if attempt.request.group_instance_id is not None:
        attempt.fail(ErrorCode.UNKNOWN_SERVER_ERROR)  # only dynamic members get pending ids; the code is Kafka's
    else:
        _add_member(rebalancer, group, attempt, attempt.request.member_id)


def _add_member(rebalancer: Rebalancer, group: ClassicGroup, attempt: JoinAttempt, member_id: str) -> None:
    request, context = attempt.request, attempt.context
    member = ClassicGroupMember(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host=host_of_member(context.client_host),
        rebalance_timeout_ms=attempt.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=attempt.protocols,
        is_new=True,
        awaiting_join=attempt.response,
    )
    group.new_member_added = group.is_initial_rebalance  # extends the initial delay
    group.add(member, request.protocol_type)
    rebalancer.start_session(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalancer.rebalance_or_complete_join(group)


def _rejoin(rebalancer: Rebalancer, group: ClassicGroup, attempt: JoinAttempt, member: ClassicGroupMember) -> None:
    """Join of a known member: changed metadata, or any join of the leader while Stable, starts a rebalance."""
    unchanged = member.protocols == attempt.protocols
    leads = group.leader_id == member.member_id
    if unchanged and (group.state is GroupState.COMPLETING or (group.state is GroupState.STABLE and not leads)):
        attempt.response.complete(join_response(group, member))  # its previous response was lost, or it will only sync
    else:
        _await_join(attempt, member)
        rebalancer.rebalance_or_complete_join(group)


def _replace_static(
    rebalancer: Rebalancer, group: ClassicGroup, attempt: JoinAttempt, old: ClassicGroupMember, new_id: str
) -> None:
    """Join of a static member after a restart: it gets a new member id, and the old id is fenced.

    While Stable there is no rebalance if the group's protocol does not change (KIP-345).
    """
    leader_before = group.leader_id
    new = replace(old, member_id=new_id, awaiting_join=None, awaiting_sync=None, is_new=False)
    _await_join(attempt, new)
    rebalancer.replace_member(group, old, new)
    if group.state is GroupState.STABLE and choose_protocol(group.members.values()) == group.protocol:
        new.awaiting_join = None
        attempt.response.complete(_keep_generation(rebalancer, group, attempt, old, new, leader_before))
    else:
        rebalancer.rebalance_or_complete_join(group)


def _keep_generation(
    rebalancer: Rebalancer,
    group: ClassicGroup,
    attempt: JoinAttempt,
    old: ClassicGroupMember,
    new: ClassicGroupMember,
    leader_before: str | None,
) -> JoinGroupResponse:
    """Return the response for a static member that rejoins without a rebalance, after its new id is stored.

    A leader must not assign again: v9 says so with `skip_assignment` and the list of members; before v9 the response
    names the old leader id, so that the member does not take itself for the leader.
    """
    error = rebalancer.save(group)
    response = join_response(group, new)
    if error is not ErrorCode.NONE:
        rebalancer.replace_member(group, new, old)
        response.error_code, response.member_id = error, ""
        response.leader, response.members = leader_before or "", []
    elif attempt.context.api_version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT:
        response.skip_assignment = group.leader_id == new.member_id
    else:
        response.leader, response.members = leader_before or "", []
    return response


def _await_join(attempt: JoinAttempt, member: ClassicGroupMember) -> None:
    """Update the member and park its request. An older parked request, of a lost connection, is answered."""
    if member.awaiting_join is not None:
        member.awaiting_join.complete(join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    member.protocols = attempt.protocols
    member.rebalance_timeout_ms = attempt.rebalance_timeout_ms
    member.session_timeout_ms = attempt.request.session_timeout_ms
    member.awaiting_join = attempt.response
