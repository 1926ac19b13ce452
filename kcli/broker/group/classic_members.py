"""Members of consumer groups that use the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (KIP-848).

While a group migrates, some of its members use the classic protocol. To such a member the coordinator is a leader that
has assigned already: JoinGroup is answered at once, with the member epoch as generation and without a list of members,
and SyncGroup returns the partitions that the member has now. Heartbeat requests another join after each step of its
reconciliation. A member that does not join again, or does not sync, within its rebalance timeout is fenced.

Source: the behaviour of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.group.consumer_group import ConsumerGroup, ConsumerGroupMember, MemberState
from kcli.broker.group.consumer_heartbeats import MemberChange, new_member_id, replace_static
from kcli.broker.group.group_conversion import can_downgrade, classic_metadata, encode_target
from kcli.broker.group.heartbeat_rules import check_instance, check_size
from kcli.broker.group.joining import FIRST_VERSION_WITH_MEMBER_ID_REQUIRED, JoinAttempt
from kcli.broker.group.responses import sync_error
from kcli.broker.serving.client_address import host_of_member
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ProtocolError
from kcli.protocol.consumer_protocol import PROTOCOL_TYPE, Subscription, decode_subscription
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupResponse
from kcli.protocol.messages.leave_group import MemberIdentity
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from kcli.broker.cluster.view import ClusterView
    from kcli.broker.group.consumer_changes import ConsumerChanges
    from kcli.broker.group.consumer_heartbeats import ConsumerHeartbeats
    from kcli.broker.group.consumer_records import Record


class ClassicMembers:
    """The requests of classic members of consumer groups. Methods raise BrokerError with the error of the response."""

    def __init__(self, cluster: ClusterView, changes: ConsumerChanges, heartbeats: ConsumerHeartbeats) -> None:
        self._cluster = cluster
        self._changes = changes
        self._heartbeats = heartbeats

    def __repr__(self) -> str:
        return f"<ClassicMembers {self._changes!r}>"

    # ---- JoinGroup ----

    def join(self, group: ConsumerGroup, attempt: JoinAttempt) -> JoinGroupResponse:
        """Add or update a member, and take its next step to the target assignment."""
        request, settings = attempt.request, self._cluster.settings
        if settings.group_consumer_migration_policy == "disabled":
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member_id = request.member_id or new_member_id()
        check_size(group, member_id, settings.group_consumer_max_size)
        _check_protocols(group, attempt)
        is_static = request.group_instance_id is not None
        if request.member_id == "" and not is_static and attempt.version >= FIRST_VERSION_WITH_MEMBER_ID_REQUIRED:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id, protocol_name=None)
        records: list[Record] = []
        holder = group.static_member(request.group_instance_id)
        replaces = holder is not None and request.member_id == ""
        if holder is not None and replaces:
            before = replace_static(group, holder, member_id, records)
        elif is_static and request.member_id:
            before = check_instance(holder, member_id, request.group_instance_id or "")
        else:
            before = group.members.get(member_id) or ConsumerGroupMember(member_id)
        subscription = _decoded(attempt)
        after = _joined(before, attempt, subscription)
        change = MemberChange(before, after, holder.member_id if holder is not None and replaces else None)
        group_epoch = self._heartbeats.subscribe(group, change, records, None)
        owned = self._owned(subscription)
        if holder is not None and holder.classic is None and can_downgrade(group, change.members(group), settings):
            member = self._join_by_downgrade(group, change, group_epoch, owned)
        else:
            member = self._heartbeats.advance(group, change, group_epoch, owned, records)
            if error := self._changes.write(group, records):
                raise BrokerError(error)
            self._changes.joined(group, member)
        return JoinGroupResponse(
            member_id=member.member_id,
            generation_id=member.member_epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=attempt.protocols[0][0],
        )

    def _join_by_downgrade(
        self, group: ConsumerGroup, change: MemberChange, group_epoch: int, owned: dict[UUID, list[int]]
    ) -> ConsumerGroupMember:
        """Replace the last member of the consumer protocol, a static one: the group becomes a classic one.

        It rebalances only if its assignment is of an older epoch.
        """
        member, is_stale = change.after, group.assignment_epoch < group_epoch
        if not is_stale:
            target = group.assignment_epoch, group.target(member.member_id, member.instance_id)
            member = self._heartbeats.reconcile(group, change, target, owned, [])
        if error := self._changes.downgrade(group, change.members(group), rebalance=is_stale):
            raise BrokerError(error)
        return member

    def _owned(self, subscription: Subscription) -> dict[UUID, list[int]]:
        topics = self._cluster.topics
        return {
            topics[topic.topic].topic_id: topic.partitions
            for topic in subscription.owned_partitions
            if topic.topic in topics
        }

    # ---- SyncGroup and Heartbeat ----

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
        """Return the partitions that the member has now."""
        member = _find(group, request.member_id, request.group_instance_id)
        metadata = member.classic
        if metadata is None:
            return sync_error(ErrorCode.UNKNOWN_MEMBER_ID)
        if request.generation_id != member.member_epoch:
            return sync_error(ErrorCode.ILLEGAL_GENERATION)
        first = metadata.supported_protocols[0]
        if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, first.name):
            return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._changes.await_join(group, member)
            return sync_error(ErrorCode.REBALANCE_IN_PROGRESS)
        self._changes.synced(group, member)
        assigned = {topic_id: frozenset(numbers) for topic_id, numbers in member.assigned.items()}
        return SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=encode_target(assigned, first.metadata, self._cluster),
        )

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> HeartbeatResponse:
        """Restart the member's session; REBALANCE_IN_PROGRESS requests it to join again, for its next step."""
        member = _find(group, request.member_id, request.group_instance_id)
        if member.classic is None:
            return HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        if request.generation_id != member.member_epoch:
            return HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)
        self._changes.start_session(group, member.member_id)
        if (
            member.member_epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
        ):
            self._changes.await_join(group, member)
            return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        return HeartbeatResponse()

    # ---- LeaveGroup ----

    def leave(self, group: ConsumerGroup, leaving: Collection[MemberIdentity]) -> list[ErrorCode]:
        """Remove members of either protocol with one change of the group; return an error code for each.

        Administrators identify static members by instance id only, with an empty member id.
        """
        errors: list[ErrorCode] = []
        members: dict[str, ConsumerGroupMember] = {}
        for identity in leaving:
            instance_id = identity.group_instance_id
            try:
                if instance_id is not None and identity.member_id == "":
                    holder = group.static_member(instance_id)
                    member = check_instance(holder, "" if holder is None else holder.member_id, instance_id)
                else:
                    member = _find(group, identity.member_id, instance_id)
                members[member.member_id] = member
                errors.append(ErrorCode.NONE)
            except BrokerError as refusal:
                errors.append(refusal.code)
        if members and (error := self._changes.remove(group, list(members.values()))):
            raise BrokerError(error)
        return errors


def _check_protocols(group: ConsumerGroup, attempt: JoinAttempt) -> None:
    """Raise INCONSISTENT_GROUP_PROTOCOL unless a protocol of the member is one of all classic members."""
    supported = [
        {protocol.name for protocol in member.classic.supported_protocols}
        for member in group.members.values()
        if member.classic
    ]
    names = [name for name, _ in attempt.protocols]
    is_common = any(all(name in of_member for of_member in supported) for name in names)
    if attempt.request.protocol_type != PROTOCOL_TYPE or not is_common:
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _decoded(attempt: JoinAttempt) -> Subscription:
    """Return the subscription of the first protocol. UNKNOWN_SERVER_ERROR, as in Kafka, if it is malformed."""
    try:
        return decode_subscription(attempt.protocols[0][1])
    except ProtocolError as error:
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None


def _joined(before: ConsumerGroupMember, attempt: JoinAttempt, subscription: Subscription) -> ConsumerGroupMember:
    """Return the member as its JoinGroup request describes it."""
    request, context = attempt.request, attempt.context
    return replace(
        before,
        instance_id=before.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=attempt.rebalance_timeout_ms,
        subscribed_topics=frozenset(subscription.topics),
        subscribed_regex="",
        client_id=context.client_id or "",
        client_host=host_of_member(context.client_host),
        classic=classic_metadata(request.session_timeout_ms, attempt.protocols),
    )


def _find(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerGroupMember:
    """Return a member. BrokerError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    if instance_id is not None:
        return check_instance(group.static_member(instance_id), member_id, instance_id)
    member = group.members.get(member_id)
    if member is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def _waits_for_others(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Return whether other members still have a partition of this member's target."""
    return any(
        number not in member.assigned.get(topic_id, ()) and group.owner_epoch(topic_id, number) != -1
        for topic_id, numbers in group.target(member.member_id).items()
        for number in numbers
    )
