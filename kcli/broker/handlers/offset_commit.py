"""OffsetCommit (8), v2-10: store the committed offsets of a group.

Unknown topics and partitions (3; 100 for an unknown id) and metadata that is too long (12) are refused one by one. The
membership check covers all other partitions together. Unknown partitions come first in the response, as in Apache
Kafka. v2-4 may carry their own retention. From v9 on the generation is the epoch of a member of a consumer group, too
(KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from uuid import UUID

from kcli.broker.group.offset_store import NewOffset
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster.cluster_values import TopicState
    from kcli.broker.cluster.view import ClusterView
    from kcli.broker.security.allow_all import AnyAuthorizer

_IDS_SINCE_VERSION = 10

TopicKey: TypeAlias = tuple[str, UUID]


class _Entry(NamedTuple):
    """One partition of the request: its topic in the response, and the new offset or the error."""

    topic: TopicKey
    number: int
    new: NewOffset | None
    error: ErrorCode = ErrorCode.NONE


def handle(broker: Broker, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    """Return a result per partition."""
    by_id = context.api_version >= _IDS_SINCE_VERSION
    if not broker.authorizer.allows(context, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, context.api_version)
    entries = [
        entry
        for topic in request.topics
        for entry in _entries(topic, _find_topic(broker.cluster, topic, by_id), broker.authorizer, context)
    ]
    valid = [entry for entry in entries if entry.new is not None]
    errors = _commit(broker, request, [entry.new for entry in valid if entry.new is not None], context)
    results = [(entry, entry.error) for entry in entries if entry.new is None]
    results += zip(valid, errors, strict=True)
    return OffsetCommitResponse(topics=_by_topic(results))


def _find_topic(cluster: ClusterView, topic: OffsetCommitRequestTopic, by_id: bool) -> TopicState | None:
    return cluster.topic_by_id(topic.topic_id) if by_id else cluster.topics.get(topic.name)


def refused(request: OffsetCommitRequest, error: ErrorCode, version: int) -> OffsetCommitResponse:
    """Return the answer with an error for the whole group, which is in each row."""
    return OffsetCommitResponse(
        topics=_by_topic(
            [
                (_Entry((topic.name, topic.topic_id), row.partition_index, None), error)
                for topic in request.topics
                for row in topic.partitions
            ]
        )
    )


def _entries(
    topic: OffsetCommitRequestTopic, existing: TopicState | None, authorizer: AnyAuthorizer, context: RequestContext
) -> list[_Entry]:
    key = topic.name, topic.topic_id
    by_id = context.api_version >= _IDS_SINCE_VERSION
    error = ErrorCode.NONE
    if by_id and existing is None:
        error = ErrorCode.UNKNOWN_TOPIC_ID
    elif not authorizer.allows(
        context, AclOperation.READ, ResourceType.TOPIC, topic.name if existing is None else existing.name
    ):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif existing is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if existing is None or error:
        return [_Entry(key, row.partition_index, None, error) for row in topic.partitions]
    return [_entry(key, partition, existing) for partition in topic.partitions]


def _entry(key: TopicKey, partition: OffsetCommitRequestPartition, existing: TopicState) -> _Entry:
    index = partition.partition_index
    if index not in existing.partitions:
        return _Entry(key, index, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    new_offset = NewOffset(
        TopicPartition(existing.name, index),
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata,
    )
    return _Entry(key, index, new_offset)


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


def _by_topic(results: list[tuple[_Entry, ErrorCode]]) -> list[OffsetCommitResponseTopic]:
    topics: dict[TopicKey, OffsetCommitResponseTopic] = {}
    for entry, error in results:
        topic = topics.get(entry.topic)
        if topic is None:
            name, topic_id = entry.topic
            topic = topics[entry.topic] = OffsetCommitResponseTopic(name=name, topic_id=topic_id)
        topic.partitions.append(OffsetCommitResponsePartition(partition_index=entry.number, error_code=error))
    return list(topics.values())
