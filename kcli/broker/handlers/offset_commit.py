"""OffsetCommit (8), v2-10: groups store how far they have read.

Unknown topics and partitions are refused one by one (3; 100 for an unknown id), and so are notes that are too long
(12); whether the group may commit is asked for all others together. The answer tells unknown ones first, as Kafka's
does. v2-4 may bring a retention of their own. Not here: members of KIP-848 groups, whose epochs v9 can carry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from uuid import UUID

from kcli.broker.group.offset_store import NewOffset
from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
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
    from kcli.broker.cluster_state import ClusterState
    from kcli.broker.topic_store import Topic

_IDS_SINCE_VERSION = 10

TopicKey: TypeAlias = tuple[str, UUID]


class _Asked(NamedTuple):
    """One partition of the request: under which topic it is answered, and the offset or why it is refused."""

    topic: TopicKey
    number: int
    new: NewOffset | None
    error: ErrorCode = ErrorCode.NONE


def handle(broker: Broker, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    """A result per partition."""
    by_id = context.api_version >= _IDS_SINCE_VERSION
    asked = [
        _look_up(topic, partition, found, by_id)
        for topic in request.topics
        for found in [_find_topic(broker.cluster, topic, by_id)]
        for partition in topic.partitions
    ]
    wanted = [one for one in asked if one.new is not None]
    errors = _commit(broker, request, [one.new for one in wanted if one.new is not None], context)
    answers = [(one, one.error) for one in asked if one.new is None]
    answers += zip(wanted, errors, strict=True)
    return OffsetCommitResponse(topics=_by_topic(answers))


def _find_topic(cluster: ClusterState, topic: OffsetCommitRequestTopic, by_id: bool) -> Topic | None:
    return cluster.topic_by_id(topic.topic_id) if by_id else cluster.topics.get(topic.name)


def _look_up(
    topic: OffsetCommitRequestTopic, partition: OffsetCommitRequestPartition, found: Topic | None, by_id: bool
) -> _Asked:
    key, index = (topic.name, topic.topic_id), partition.partition_index
    if found is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _Asked(key, index, None, unknown)
    if not 0 <= index < found.partitions:
        return _Asked(key, index, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    new = NewOffset(
        TopicPartition(found.name, index),
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata,
    )
    return _Asked(key, index, new)


def _commit(
    broker: Broker, request: OffsetCommitRequest, offsets: list[NewOffset], context: RequestContext
) -> list[ErrorCode]:
    if not offsets:
        return []
    refused = broker.groups.check_commit(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        api_version=context.api_version,
    )
    if refused:
        return [refused] * len(offsets)
    return broker.offsets.commit(request.group_id, offsets, context.now_wall_ms, retention_ms=request.retention_time_ms)


def _by_topic(answers: list[tuple[_Asked, ErrorCode]]) -> list[OffsetCommitResponseTopic]:
    topics: dict[TopicKey, OffsetCommitResponseTopic] = {}
    for one, error in answers:
        topic = topics.get(one.topic)
        if topic is None:
            name, topic_id = one.topic
            topic = topics[one.topic] = OffsetCommitResponseTopic(name=name, topic_id=topic_id)
        topic.partitions.append(OffsetCommitResponsePartition(partition_index=one.number, error_code=error))
    return list(topics.values())
