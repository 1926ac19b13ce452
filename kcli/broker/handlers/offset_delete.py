"""OffsetDelete (47), v0: delete committed offsets of a group (KIP-496).

The request is refused as a whole if the group is unknown (69), its id is empty (24), or it has members that are not
consumers (68). Subscribed topics (86) and unknown partitions (3) are refused one by one. A partition without an offset
is deleted with success.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.group.expiry import CONSUMER, GroupFacts, is_subscribed
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster.view import ClusterView


# The errors whose rows come first.
_FIRST = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def handle(broker: Broker, request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    """Return a result per partition, or one error for all."""
    authorizer = broker.authorizer
    if not authorizer.allows(context, AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    group = broker.groups.facts(request.group_id) if request.group_id else None
    error = _group_error(request.group_id, group)
    if group is None or error:
        return OffsetDeleteResponse(error_code=error)
    requested = [TopicPartition(t.name, p.partition_index) for t in request.topics for p in t.partitions]
    errors = {
        partition: _check(partition, broker.cluster, group)
        if authorizer.allows(context, AclOperation.READ, ResourceType.TOPIC, partition.topic)
        else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for partition in requested
    }
    allowed = [partition for partition in requested if errors[partition] is ErrorCode.NONE]
    failed = broker.offsets.delete(request.group_id, allowed, context.now_wall_ms)
    if failed:
        return OffsetDeleteResponse(error_code=failed)
    return OffsetDeleteResponse(topics=_by_topic(requested, errors))


def _group_error(group_id: str, group: GroupFacts | None) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.state == "Dead":
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state != "Empty" and group.protocol_type != CONSUMER:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _check(partition: TopicPartition, cluster: ClusterView, group: GroupFacts) -> ErrorCode:
    topic = cluster.topics.get(partition.topic)
    if topic is None or partition.partition not in topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if is_subscribed(group, partition.topic):
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    return ErrorCode.NONE


def _by_topic(
    requested: list[TopicPartition], errors: dict[TopicPartition, ErrorCode]
) -> list[OffsetDeleteResponseTopic]:
    """Group the results by topic, forbidden and unknown topics and partitions first, as Apache Kafka does."""
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for partition in sorted(requested, key=lambda p: errors[p] not in _FIRST):
        topic = topics.setdefault(partition.topic, OffsetDeleteResponseTopic(name=partition.topic))
        row = OffsetDeleteResponsePartition(partition_index=partition.partition, error_code=errors[partition])
        topic.partitions.append(row)
    return list(topics.values())
