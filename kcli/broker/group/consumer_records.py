"""The records of a consumer group (KIP-848), made from its members and epochs. Pure.

A record is a pair of a decoded key and a decoded value (None: a tombstone), which `encode_group_record` makes bytes and
`ConsumerGroup.apply` takes. Their order within a change is Kafka's: subscriptions, group epoch, target assignments,
assignment epoch, current assignments; tombstones the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from kcli.broker.group.consumer_group import ConsumerGroup, ConsumerGroupMember, Partitions, ResolvedRegex, Target
from kcli.protocol.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentPartitions,
    TargetPartitions,
)

Record: TypeAlias = tuple[Any, Any]  # key, value


def subscription_record(group_id: str, member: ConsumerGroupMember) -> Record:
    """Return the record of a member's identity and subscription."""
    return ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), (
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topics),
            subscribed_topic_regex=member.subscribed_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        )
    )


def group_epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Return the record of the group epoch."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return ConsumerGroupMetadataKey(group_id=group_id), value


def target_record(group_id: str, member_id: str, target: Target) -> Record:
    """Return the record of a member's target assignment."""
    topics = [TargetPartitions(topic_id=topic_id, partitions=sorted(target[topic_id])) for topic_id in target]
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)
    return ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value


def assignment_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Return the record of the epoch of the target assignment and the wall clock time when it was computed."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value


def current_record(group_id: str, member: ConsumerGroupMember) -> Record:
    """Return the record of a member's epochs and partitions."""
    return ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), (
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state,
            assigned_partitions=_current(member.assigned),
            partitions_pending_revocation=_current(member.pending_revocation),
        )
    )


def _current(partitions: Partitions) -> list[CurrentPartitions]:
    return [
        CurrentPartitions(
            topic_id=topic_id,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[number] for number in sorted(epochs)],
        )
        for topic_id, epochs in partitions.items()
    ]


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex | None) -> Record:
    """Return the record of a resolved regular expression; None: its tombstone."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return key, None if resolved is None else ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Return the tombstones of a member that leaves."""
    return [
        (ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        (ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        (ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_records(group: ConsumerGroup) -> list[Record]:
    """Return all records of a group, as when it is made from a classic one."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(subscription_record(group_id, member) for member in members),
        group_epoch_record(group_id, group.group_epoch, group.metadata_hash),
        *(target_record(group_id, member.member_id, group.target(member.member_id)) for member in members),
        assignment_epoch_record(group_id, group.assignment_epoch, group.assignment_timestamp_ms),
        *(current_record(group_id, member) for member in members),
    ]


def group_tombstones(group: ConsumerGroup, member_ids: Iterable[str] | None = None) -> list[Record]:
    """Return the tombstones of a group, of the group's members or of others in their place."""
    group_id, ids = group.group_id, list(group.members if member_ids is None else member_ids)
    return [
        *((ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=id), None) for id in ids),
        *((ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=id), None) for id in ids),
        (ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *((ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=id), None) for id in ids),
        *(regex_record(group_id, regex, None) for regex in group.resolved_regexes),
        (ConsumerGroupMetadataKey(group_id=group_id), None),
    ]
