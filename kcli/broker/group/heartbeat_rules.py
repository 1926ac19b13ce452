"""The rules that a ConsumerGroupHeartbeat request must meet (KIP-848). Pure; errors are BrokerError with Kafka's texts.

Source: the behaviour of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcli.broker.group.consumer_group import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, ConsumerGroup, ConsumerGroupMember
from kcli.broker.group.member_reconciliation import Owned, is_subset
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

FIRST_VERSION_WITH_OWN_MEMBER_ID = 1


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    """Raise INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for a request that is wrong whatever the group."""
    epoch = request.member_epoch
    needs_id = version >= FIRST_VERSION_WITH_OWN_MEMBER_ID or epoch > 0 or epoch == LEAVE_EPOCH
    if needs_id and request.member_id == "":
        raise _invalid("MemberId can't be empty.")
    for value, name in (
        (request.group_id, "GroupId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
    ):
        if value == "":
            raise _invalid(f"{name} can't be empty.")
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _invalid(message: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, message)


def owned_partitions(request: ConsumerGroupHeartbeatRequest) -> Owned:
    """Return the partitions that the client says it has; None if it does not say."""
    if request.topic_partitions is None:
        return None
    owned: dict[object, list[int]] = {}
    for topic in request.topic_partitions:
        owned.setdefault(topic.topic_id, []).extend(topic.partitions)
    return owned  # type: ignore[return-value]


def check_epoch(member: ConsumerGroupMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raise FENCED_MEMBER_EPOCH for another epoch than the member's.

    Epoch 0 joins again at any time. The previous epoch is that of a client which has not got the last response: it is
    accepted if it owns nothing but what is assigned to it.
    """
    epoch = request.member_epoch
    if epoch in (0, member.member_epoch):
        return
    is_greater = epoch > member.member_epoch
    is_previous = epoch == member.previous_member_epoch and is_subset(owned_partitions(request), member.assigned)
    if is_greater or not is_previous:
        raise BrokerError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {'greater' if is_greater else 'smaller'} member epoch ({epoch}) than the "
            f"one known by the group coordinator ({member.member_epoch}). The member must abandon all its partitions "
            "and rejoin.",
        )


def check_instance(holder: ConsumerGroupMember | None, member_id: str, instance_id: str) -> ConsumerGroupMember:
    """Return the holder of an instance id. UNKNOWN_MEMBER_ID if it has none, FENCED_INSTANCE_ID for others."""
    if holder is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        raise BrokerError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}.",
        )
    return holder


def check_released(holder: ConsumerGroupMember, instance_id: str, member_id: str) -> None:
    """Raise UNRELEASED_INSTANCE_ID if the holder of an instance id has not left; a classic member need not leave."""
    if holder.classic is None and holder.member_epoch != LEAVE_STATIC_EPOCH:
        raise BrokerError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
            f"id is owned by {holder.member_id} member.",
        )


def check_size(group: ConsumerGroup, member_id: str, most: int) -> None:
    """Raise GROUP_MAX_SIZE_REACHED for a new member of a full group."""
    if len(group.members) >= most and member_id not in group.members:
        raise BrokerError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {most} members.",
        )
