"""A group as the record that lies in __consumer_offsets, and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.broker.group.group import Group
from kcli.broker.group.members import Member
from kcli.broker.group.states import GroupState
from kcli.protocol.offsets_topic import GroupMetadataValue, MemberMetadata


def to_record(group: Group, assignments: Mapping[str, bytes] | None = None) -> GroupMetadataValue:
    """The group as it is, or as it will be with these assignments by member id (members not among them: nothing)."""
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol,
        leader=group.leader_id,
        current_state_timestamp=group.state_since_ms,
        members=[
            _to_member_record(
                m, group.protocol, m.assignment if assignments is None else assignments.get(m.member_id, b"")
            )
            for m in group.members.values()
        ],
    )


def from_record(group_id: str, value: GroupMetadataValue) -> Group:
    """The group as it was: Stable with its members, or Empty. Of each member's protocols the chosen one is left."""
    group = Group(group_id, now_wall_ms=value.current_state_timestamp)
    group.state = GroupState.STABLE if value.members else GroupState.EMPTY
    group.generation_id = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol = value.protocol
    group.leader_id = value.leader
    for record in value.members:
        group.add(_from_member_record(record, value.protocol or ""), value.protocol_type)
    group.learn_topics()
    return group


def _to_member_record(member: Member, protocol: str | None, assignment: bytes) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignment,
    )


def _from_member_record(record: MemberMetadata, protocol: str) -> Member:
    return Member(
        member_id=record.member_id,
        group_instance_id=record.group_instance_id,
        client_id=record.client_id,
        client_host=record.client_host,
        rebalance_timeout_ms=record.session_timeout if record.rebalance_timeout == -1 else record.rebalance_timeout,
        session_timeout_ms=record.session_timeout,
        protocols=((protocol, record.subscription),),
        assignment=record.assignment,
    )
