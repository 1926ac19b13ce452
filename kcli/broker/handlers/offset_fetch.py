"""OffsetFetch (9), v1-10: the committed offsets of a group; from v8 of many groups.

An unknown group or partition has offset -1 and no error; only an unknown topic id (v10) is an error (100). With
`require_stable` an offset that an open transaction may change is returned as error 88. Group-level errors
are those of authorization, of members of consumer groups in another epoch (v9, KIP-848) and, on a node, of `refused`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kcli.broker.group.expiry import CommittedOffset
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

_GROUPS_SINCE_VERSION = 8
_IDS_SINCE_VERSION = 10
_ERROR_SINCE_VERSION = 2
_NO_OFFSET = CommittedOffset(-1)
# Consumers before 3.9 do not expect 15 here; 16 makes them look up the coordinator again, as in Apache Kafka.
_ERRORS = {ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_COORDINATOR}


def handle(broker: Broker, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    """Return the requested offsets, or all offsets of a group whose topics are null."""
    if context.api_version >= _GROUPS_SINCE_VERSION:
        by_id = context.api_version >= _IDS_SINCE_VERSION
        groups = [_fetch(broker, context, group, request.require_stable, by_id) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    topics = None
    if request.topics is not None:
        topics = [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in request.topics]
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    fetched = _fetch(broker, context, group, request.require_stable, by_id=False)
    if fetched.error_code:
        return refused(request, ErrorCode.of(fetched.error_code), context.api_version)
    return OffsetFetchResponse(topics=[_as_before_v8(topic) for topic in fetched.topics])


def refused(request: OffsetFetchRequest, error: ErrorCode, version: int) -> OffsetFetchResponse:
    """Return the answer with an error for the whole group; v1 has it in each row."""
    error = _ERRORS.get(error, error)
    if version >= _GROUPS_SINCE_VERSION:
        groups = [OffsetFetchResponseGroup(group_id=group.group_id, error_code=error) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    if version >= _ERROR_SINCE_VERSION:
        return OffsetFetchResponse(error_code=error)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(**vars(_row(index, _NO_OFFSET, error)))
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    )


def _fetch(
    broker: Broker, context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool, by_id: bool
) -> OffsetFetchResponseGroup:
    allows = broker.authorizer.allows
    if not allows(context, AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id):
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

    error = broker.groups.check_fetch(group.group_id, group.member_id, group.member_epoch)
    if error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error)

    def is_allowed(topic: str) -> bool:
        return allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, topic)

    def row(partition: TopicPartition, committed: CommittedOffset) -> OffsetFetchResponsePartitions:
        if require_stable and broker.offsets.is_unstable(group.group_id, partition):
            return _row(partition.partition, _NO_OFFSET, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return _row(partition.partition, committed)

    if group.topics is None:
        committed = broker.offsets.fetch(group.group_id)
        visible = {partition: offset for partition, offset in committed.items() if is_allowed(partition.topic)}
        topics = _all_topics(broker, visible, by_id, row)
    else:
        topics = _requested_topics(broker, group.group_id, group.topics, by_id, row, is_allowed)
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


_MakeRow = Callable[[TopicPartition, CommittedOffset], OffsetFetchResponsePartitions]


def _all_topics(
    broker: Broker, offsets: dict[TopicPartition, CommittedOffset], by_id: bool, row: _MakeRow
) -> list[OffsetFetchResponseTopics]:
    """Return all committed offsets. By id, deleted topics are left out, because their ids are unknown."""
    by_name: dict[str, OffsetFetchResponseTopics] = {}
    for partition, committed in offsets.items():
        topic = by_name.get(partition.topic)
        if topic is None:
            topic = by_name[partition.topic] = OffsetFetchResponseTopics(name=partition.topic)
        topic.partitions.append(row(partition, committed))
    if by_id:
        existing = broker.cluster.topics
        return [
            OffsetFetchResponseTopics(topic_id=existing[name].topic_id, partitions=topic.partitions)
            for name, topic in by_name.items()
            if name in existing
        ]
    return list(by_name.values())


def _requested_topics(
    broker: Broker,
    group_id: str,
    requested: Iterable[OffsetFetchRequestTopics],
    by_id: bool,
    row: _MakeRow,
    is_allowed: Callable[[str], bool],
) -> list[OffsetFetchResponseTopics]:
    """Return the requested offsets in the order of the request, with unknown ids and forbidden topics last."""
    known: list[OffsetFetchResponseTopics] = []
    refused: list[OffsetFetchResponseTopics] = []
    for topic in requested:
        name = topic.name
        response_topic = OffsetFetchResponseTopics(name=name, topic_id=topic.topic_id)
        error = ErrorCode.NONE
        if by_id:
            known_topic = broker.cluster.topic_by_id(topic.topic_id)
            error = ErrorCode.UNKNOWN_TOPIC_ID if known_topic is None else error
            name = known_topic.name if known_topic is not None else name
        if not error and not is_allowed(name):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if error:
            response_topic.partitions += (_row(index, _NO_OFFSET, error) for index in topic.partition_indexes)
            refused.append(response_topic)
            continue
        partitions = [TopicPartition(name, index) for index in topic.partition_indexes]
        offsets = broker.offsets.fetch(group_id, partitions)
        response_topic.partitions += (row(partition, offsets.get(partition, _NO_OFFSET)) for partition in partitions)
        known.append(response_topic)
    return known + refused


def _row(index: int, committed: CommittedOffset, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )


def _as_before_v8(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    rows = [OffsetFetchResponsePartition(**vars(row)) for row in topic.partitions]
    return OffsetFetchResponseTopic(name=topic.name, partitions=rows)
