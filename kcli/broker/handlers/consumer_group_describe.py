"""ConsumerGroupDescribe (69), v0-1: epochs, state and members of consumer groups (KIP-848).

Partitions of deleted topics are left out. A group with a topic that the client must not describe is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.group.consumer_group import ConsumerGroup, ConsumerGroupMember, Target
from kcli.broker.group.target_assignment import preferred_assignor
from kcli.broker.handlers.rights import allowed_names
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster.view import ClusterView

_CLASSIC, _CONSUMER = 0, 1  # types of members


def handle(
    broker: Broker, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    """Return a row per group; those that the client must not describe come first, as in Apache Kafka."""
    if not broker.groups.serves_consumer_groups:
        return refused(request, ErrorCode.UNSUPPORTED_VERSION, context.api_version)
    authorizer = broker.authorizer
    allowed = allowed_names(authorizer, context, AclOperation.DESCRIBE, ResourceType.GROUP, request.group_ids)
    denied = [
        DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in request.group_ids
        if group_id not in allowed
    ]
    rows = [_row(broker, group_id, context) for group_id in request.group_ids if group_id in allowed]
    if request.include_authorized_operations:
        for row in rows:
            if not row.error_code:
                row.authorized_operations = authorizer.operations(context, ResourceType.GROUP, row.group_id)
    return ConsumerGroupDescribeResponse(groups=denied + rows)


def refused(request: ConsumerGroupDescribeRequest, error: ErrorCode, version: int) -> ConsumerGroupDescribeResponse:
    """Return the answer of a broker that does not coordinate the groups, or cannot answer now."""
    return ConsumerGroupDescribeResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=error) for group_id in request.group_ids]
    )


def _row(broker: Broker, group_id: str, context: RequestContext) -> DescribedGroup:
    if group_id == "":
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        row = _describe(broker.groups.consumer_group(group_id), broker.cluster)
    except BrokerError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.detail)
    topics = {
        part.topic_name
        for member in row.members
        for assignment in (member.assignment, member.target_assignment)
        for part in assignment.topic_partitions
    }
    if topics != allowed_names(broker.authorizer, context, AclOperation.DESCRIBE, ResourceType.TOPIC, topics):
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="The group has described topic(s) that the client is not authorized to describe.",
        )
    return row


def _describe(group: ConsumerGroup, cluster: ClusterView) -> DescribedGroup:
    assignor = preferred_assignor(group.server_assignors()) or cluster.settings.group_consumer_assignors[0]
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor,
        members=[_member(member, group.target(member.member_id), cluster) for member in group.members.values()],
    )


def _member(member: ConsumerGroupMember, target: Target, cluster: ClusterView) -> Member:
    """Describe a member. Partitions that it is giving up still belong to its assignment."""
    current = {
        topic_id: {*member.assigned.get(topic_id, ()), *member.pending_revocation.get(topic_id, ())}
        for topic_id in {**member.assigned, **member.pending_revocation}
    }
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topics),
        subscribed_topic_regex=member.subscribed_regex,
        assignment=_assignment(current.items(), cluster),
        target_assignment=_assignment(target.items(), cluster),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(partitions: Iterable[tuple[UUID, Iterable[int]]], cluster: ClusterView) -> Assignment:
    rows = []
    for topic_id, numbers in partitions:
        topic = cluster.topic_by_id(topic_id)
        if topic is not None:
            rows.append(TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(numbers)))
    return Assignment(topic_partitions=rows)
