"""Conversions of groups between the classic and the consumer protocol while members live (KIP-848). Pure.

A classic group becomes a consumer group when a member of the consumer protocol joins it, and a consumer group becomes a
classic one when its last member of the consumer protocol leaves. Members keep their ids, sessions and partitions. The
generation of a classic group is the group epoch of the consumer group, and the member epoch of its classic members.

`group.consumer.migration.policy` allows neither, one or both directions. Source: the behaviour of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.broker.group.classic_group import ClassicGroup, ClassicGroupMember, choose_protocol
from kcli.broker.group.consumer_group import ConsumerGroup, ConsumerGroupMember, MemberState, Target
from kcli.broker.group.expiry import CONSUMER
from kcli.broker.group.states import GroupState
from kcli.broker.group.topic_hash import group_hash
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ProtocolError
from kcli.protocol.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from kcli.protocol.consumer_protocol import (
    Assignment,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_of,
)

if TYPE_CHECKING:
    from kcli.broker.cluster.view import ClusterView
    from kcli.broker.config import BrokerConfig
    from kcli.broker.group.classic_group import Protocols

_UPGRADES, _DOWNGRADES = ("upgrade", "bidirectional"), ("downgrade", "bidirectional")
_CANNOT = "Cannot upgrade classic group {} to consumer group because "


# ---- classic to consumer ----


def upgrade(group: ClassicGroup, cluster: ClusterView) -> ConsumerGroup:
    """Return the consumer group with the members, the assignment and the generation of a classic group.

    BrokerError GROUP_ID_NOT_FOUND if the settings do not allow it, or the group cannot be converted.
    """
    cannot = _CANNOT.format(group.group_id)
    settings = cluster.settings
    if settings.group_consumer_migration_policy not in _UPGRADES:
        raise _refused(cannot + "online upgrade is disabled.")
    if group.protocol_type != CONSUMER:
        raise _refused(cannot + "the group does not use the consumer embedded protocol.")
    if len(group.members) > settings.group_consumer_max_size:
        raise _refused(cannot + "the group size exceeds the consumer group maximum size.")
    upgraded = ConsumerGroup(group.group_id)
    upgraded.group_epoch = upgraded.assignment_epoch = group.generation_id
    try:
        for member in group.members.values():
            _take_over(upgraded, member, group, cluster)
    except ProtocolError:
        raise _refused(cannot + "the embedded consumer protocol is malformed.") from None
    upgraded.metadata_hash = group_hash(upgraded.subscribed_topics(), cluster)
    return upgraded


def _refused(message: str) -> BrokerError:
    return BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _take_over(upgraded: ConsumerGroup, member: ClassicGroupMember, group: ClassicGroup, cluster: ClusterView) -> None:
    epoch = group.generation_id
    assigned: dict[str, list[int]] = {}
    if member.assignment:  # empty until the member has synced for the first time
        assignment = decode_assignment(member.assignment)
        if assignment.user_data:
            raise _refused(
                f"{_CANNOT.format(group.group_id)}an unsupported custom assignor is in use. Please refer to the "
                "documentation or switch to a default assignor before re-attempting the upgrade."
            )
        for topic in assignment.assigned_partitions:
            assigned.setdefault(topic.topic, []).extend(topic.partitions)
    # A group in its first join phase has not chosen a protocol yet.
    subscription = decode_subscription(member.metadata(group.protocol or choose_protocol(group.members.values())))
    target = {
        cluster.topics[name].topic_id: frozenset(numbers)
        for name, numbers in assigned.items()
        if name in cluster.topics
    }
    upgraded.targets[member.member_id] = target
    upgraded.update(
        ConsumerGroupMember(
            member.member_id,
            member_epoch=epoch,
            previous_member_epoch=epoch,
            state=MemberState.STABLE,
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topics=frozenset(subscription.topics),
            assigned={topic_id: dict.fromkeys(numbers, epoch) for topic_id, numbers in target.items()},
            classic=classic_metadata(member.session_timeout_ms, member.protocols),
        )
    )


def classic_metadata(session_timeout_ms: int, protocols: Protocols) -> ClassicMemberMetadata:
    """Return what a consumer group keeps of a member that uses the classic protocol."""
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in protocols],
    )


# ---- consumer to classic ----


def can_downgrade(group: ConsumerGroup, remaining: Iterable[ConsumerGroupMember], config: BrokerConfig) -> bool:
    """Return whether the group becomes a classic one with these members: all of them use the classic protocol."""
    members = list(remaining)
    return (
        bool(members)
        and all(member.classic is not None for member in members)
        and config.group_consumer_migration_policy in _DOWNGRADES
        and len(members) <= config.group_max_size
    )


def downgrade(
    group: ConsumerGroup, members: Iterable[ConsumerGroupMember], cluster: ClusterView, now_wall_ms: int
) -> ClassicGroup:
    """Return the classic group with these members of a consumer group, and their target assignment.

    The target of a static member with a new id is that of the member which had its instance id before.
    BrokerError GROUP_ID_NOT_FOUND if a member's metadata is malformed.
    """
    classic = ClassicGroup(group.group_id, now_wall_ms=now_wall_ms)
    classic.state = GroupState.STABLE
    classic.generation_id = group.group_epoch
    for member in members:
        metadata = member.classic
        assert metadata is not None, member
        classic.add(
            ClassicGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=metadata.session_timeout_ms,
                protocols=tuple((protocol.name, protocol.metadata) for protocol in metadata.supported_protocols),
            ),
            CONSUMER,
        )
    classic.protocol = choose_protocol(classic.members.values())
    classic.update_subscribed_topics()
    try:
        for joined in classic.members.values():
            target = group.target(joined.member_id, joined.group_instance_id)
            joined.assignment = encode_target(target, joined.metadata(classic.protocol), cluster)
    except ProtocolError as error:
        raise _refused(f"Cannot downgrade the classic group {group.group_id}: {error}.") from None
    return classic


def encode_target(target: Target, metadata: bytes, cluster: ClusterView) -> bytes:
    """Encode partitions as the assignment of a classic member, in the version of its subscription."""
    assigned = [
        TopicPartitions(topic=topic.name, partitions=sorted(numbers))
        for topic_id, numbers in target.items()
        if (topic := cluster.topic_by_id(topic_id)) is not None
    ]
    return encode_assignment(Assignment(assigned_partitions=assigned), version_of(metadata))
