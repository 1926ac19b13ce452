"""JoinGroup: who is let into a group, under which id, and whether that starts a round."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kcli.broker.group.answers import append_error, join_refused, joined
from kcli.broker.group.group import Group
from kcli.broker.group.members import Member, Protocols, new_member_id
from kcli.broker.group.protocols import choose_protocol
from kcli.broker.group.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalancer
from kcli.broker.group.states import GroupState
from kcli.broker.pending import Pending
from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITH_ID_ROUND_TRIP = 4  # KIP-394
FIRST_VERSION_WITH_SKIP_ASSIGNMENT = 9  # KIP-814


class Join(NamedTuple):
    """A JoinGroup under way; `answer` is what its sender waits for."""

    request: JoinGroupRequest
    context: RequestContext
    answer: Pending[JoinGroupResponse]

    @property
    def protocols(self) -> Protocols:
        return tuple((p.name, p.metadata) for p in self.request.protocols)

    @property
    def rebalance_timeout_ms(self) -> int:
        """v0 has only one time-out."""
        request = self.request
        return request.rebalance_timeout_ms if self.context.api_version > 0 else request.session_timeout_ms

    def refuse(self, error: ErrorCode, member_id: str = "") -> None:
        self.answer.complete(join_refused(error, member_id))


def join(rounds: Rebalancer, group: Group, request: Join, max_size: int) -> None:
    """Let somebody in, park the request or answer it."""
    member_id = request.request.member_id
    if not group.has_room_for(member_id, max_size):
        rounds.drop(group, member_id)  # of a group that has become too large, the last ones to join again
        request.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
        rounds.end_join_phase_if_complete(group)
    elif not group.accepts(request.request.protocol_type, request.protocols):
        request.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    elif member_id == "":
        _join_as_somebody_new(rounds, group, request)
    elif member_id in group.pending_ids:
        _join_with_handed_out_id(rounds, group, request)
    else:
        error = group.check_member(member_id, request.request.group_instance_id)
        if error is ErrorCode.NONE:
            _join_again(rounds, group, request, group.members[member_id])
        else:
            request.refuse(error, member_id)


def _join_as_somebody_new(rounds: Rebalancer, group: Group, request: Join) -> None:
    instance_id = request.request.group_instance_id
    member_id = new_member_id(instance_id if instance_id is not None else request.context.client_id or "")
    if instance_id is not None and instance_id in group.static_ids:
        _join_in_place_of(rounds, group, request, group.members[group.static_ids[instance_id]], member_id)
    elif instance_id is not None or request.context.api_version < FIRST_VERSION_WITH_ID_ROUND_TRIP:
        _add(rounds, group, request, member_id)
    else:
        # The client has to come back with the id: one whose answer got lost leaves an id behind, not a member.
        group.pending_ids.add(member_id)
        rounds.start_session_of(group, member_id, request.request.session_timeout_ms)
        request.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)


def _join_with_handed_out_id(rounds: Rebalancer, group: Group, request: Join) -> None:
    if request.request.group_instance_id is not None:
        request.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)  # ids are handed out to dynamic members only; as Kafka answers
    else:
        _add(rounds, group, request, request.request.member_id)


def _add(rounds: Rebalancer, group: Group, request: Join, member_id: str) -> None:
    asked, context = request.request, request.context
    member = Member(
        member_id=member_id,
        group_instance_id=asked.group_instance_id,
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",  # as Java prints an address without a name
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=asked.session_timeout_ms,
        protocols=request.protocols,
        is_new=True,
        join=request.answer,
    )
    group.somebody_came = group.is_first_round  # which then waits longer
    group.add(member, asked.protocol_type)
    rounds.start_session(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
    rounds.member_changed(group)


def _join_again(rounds: Rebalancer, group: Group, request: Join, member: Member) -> None:
    """A known member: a change of its metadata, or any join of the leader while Stable, starts a round."""
    unchanged = member.protocols == request.protocols
    leads = group.leader_id == member.member_id
    if unchanged and (group.state is GroupState.COMPLETING or (group.state is GroupState.STABLE and not leads)):
        request.answer.complete(joined(group, member))  # its first answer got lost, or it only wants to sync
    else:
        _park(request, member)
        rounds.member_changed(group)


def _join_in_place_of(rounds: Rebalancer, group: Group, request: Join, old: Member, new_id: str) -> None:
    """A static member is back after a restart: who else goes by its instance id is fenced off.

    While Stable the others need not know, if the group's protocol stays what it is.
    """
    leader_before = group.leader_id
    new = replace(old, member_id=new_id, join=None, sync=None, is_new=False)
    _park(request, new)
    rounds.replace(group, old, new)
    if group.state is GroupState.STABLE and choose_protocol(group.members.values()) == group.protocol:
        new.join = None
        request.answer.complete(_keep_generation(rounds, group, request, old, new, leader_before))
    else:
        rounds.member_changed(group)


def _keep_generation(
    rounds: Rebalancer, group: Group, request: Join, old: Member, new: Member, leader_before: str | None
) -> JoinGroupResponse:
    """Answer a static member that is back without a round, once its new id is stored.

    As leader it must not assign anew: v9 says so, with everybody's metadata; before it is not told that it leads.
    """
    error = append_error(rounds.save(group))
    answer = joined(group, new)
    if error is not ErrorCode.NONE:
        rounds.replace(group, new, old)
        answer.error_code, answer.member_id, answer.leader, answer.members = error, "", leader_before or "", []
    elif request.context.api_version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT:
        answer.skip_assignment = group.leader_id == new.member_id
    else:
        answer.leader, answer.members = leader_before or "", []
    return answer


def _park(request: Join, member: Member) -> None:
    """The member waits for the end of the join phase, with what it says now. A connection it left behind is freed."""
    if member.join is not None:
        member.join.complete(join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    member.protocols = request.protocols
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.request.session_timeout_ms
    member.join = request.answer
