"""OffsetCommit (8), v2-10: store the committed offsets of a group.

Unknown topics and partitions (3; 100 for an unknown id) and metadata that is too long (12) are refused one by one. The
membership check covers all other partitions together. Unknown partitions come first in the response, as in Apache
Kafka. v2-4 may carry their own retention. From v9 on the generation is the epoch of a member of a consumer group, too
(KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from kcli.broker.group.offset_store import NewOffset
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster.cluster_values import TopicState

_IDS_SINCE_VERSION = 10

TopicKey: TypeAlias = tuple[str, UUID]


#: A topic as the request names it, a partition's number, and its result.
_Row: TypeAlias = tuple[TopicKey, int, ErrorCode]


def handle(broker: Broker, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    """Return a result per partition."""
    if not broker.authorizer.allows(context, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, context.api_version)
    rows: list[_Row] = []
    valid: list[tuple[TopicKey, int]] = []
    offsets: list[NewOffset] = []
    for topic in request.topics:
        key = topic.name, topic.topic_id
        existing = _find_topic(broker, topic, context)
        for row in topic.partitions:
            index = row.partition_index
            if isinstance(existing, ErrorCode):
                rows.append((key, index, existing))
            elif index not in existing.partitions:
                rows.append((key, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            else:
                tp = TopicPartition(existing.name, index)
                offsets.append(NewOffset(tp, row.committed_offset, row.committed_leader_epoch, row.committed_metadata))
                valid.append((key, index))
    errors = _commit(broker, request, offsets, context)
    rows += [(key, index, error) for (key, index), error in zip(valid, errors, strict=True)]
    return OffsetCommitResponse(topics=_by_topic(rows))


def _find_topic(broker: Broker, topic: OffsetCommitRequestTopic, context: RequestContext) -> TopicState | ErrorCode:
    """Return the topic, or the error of all its partitions."""
    by_id = context.api_version >= _IDS_SINCE_VERSION
    existing = broker.cluster.topic_by_id(topic.topic_id) if by_id else broker.cluster.topics.get(topic.name)
    if by_id and existing is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    name = topic.name if existing is None else existing.name
    if not broker.authorizer.allows(context, AclOperation.READ, ResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if existing is None else existing


def refused(request: OffsetCommitRequest, error: ErrorCode, version: int) -> OffsetCommitResponse:
    """Return the answer with an error for the whole group, which is in each row."""
    rows = [
        ((topic.name, topic.topic_id), row.partition_index, error)
        for topic in request.topics
        for row in topic.partitions
    ]
    return OffsetCommitResponse(topics=_by_topic(rows))


def _commit(
    broker: Broker, request: OffsetCommitRequest, offsets: list[NewOffset], context: RequestContext
) -> list[ErrorCode]:
    if not offsets:
        return []
    error = broker.groups.check_commit(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        api_version=context.api_version,
        partitions=[offset.partition for offset in offsets],
    )
    if error:
        return [error] * len(offsets)
    return broker.offsets.commit(request.group_id, offsets, context.now_wall_ms, retention_ms=request.retention_time_ms)


def _by_topic(rows: list[_Row]) -> list[OffsetCommitResponseTopic]:
    topics: dict[TopicKey, OffsetCommitResponseTopic] = {}
    for key, index, error in rows:
        topic = topics.setdefault(key, OffsetCommitResponseTopic(name=key[0], topic_id=key[1], partitions=[]))
        topic.partitions.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
    return list(topics.values())
