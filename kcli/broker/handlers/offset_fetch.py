"""OffsetFetch (9), v1-10: the offsets that groups have committed; v8 and later ask for many groups at once.

A group or partition that is not known has offset -1 and no error; only an unknown topic id (v10) is one (100). With
`require_stable` an offset that an open transaction may change is told as error 88. A group's own errors are none of a
single broker that has loaded everything before it answers anybody. Not here: the epochs of KIP-848 members (v9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kcli.broker.group.expiry import CommittedOffset
from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
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
_NOTHING = CommittedOffset(-1)


def handle(broker: Broker, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    """The offsets that were asked for, or all of a group whose topics are null."""
    if context.api_version >= _GROUPS_SINCE_VERSION:
        by_id = context.api_version >= _IDS_SINCE_VERSION
        groups = [_fetch(broker, group, request.require_stable, by_id) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    topics = None
    if request.topics is not None:
        topics = [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in request.topics]
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    answer = _fetch(broker, group, request.require_stable, by_id=False)
    return OffsetFetchResponse(topics=[_as_before_v8(topic) for topic in answer.topics])


def _fetch(
    broker: Broker, group: OffsetFetchRequestGroup, require_stable: bool, by_id: bool
) -> OffsetFetchResponseGroup:
    def tell(partition: TopicPartition, committed: CommittedOffset) -> OffsetFetchResponsePartitions:
        if require_stable and broker.offsets.is_unstable(group.group_id, partition):
            return _row(partition.partition, _NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return _row(partition.partition, committed)

    if group.topics is None:
        topics = _all_topics(broker, broker.offsets.fetch(group.group_id), by_id, tell)
    else:
        topics = _wanted_topics(broker, group.group_id, group.topics, by_id, tell)
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


_Tell = Callable[[TopicPartition, CommittedOffset], OffsetFetchResponsePartitions]


def _all_topics(
    broker: Broker, offsets: dict[TopicPartition, CommittedOffset], by_id: bool, tell: _Tell
) -> list[OffsetFetchResponseTopics]:
    """By id, topics that are not there (any more) cannot be told."""
    told: dict[str, OffsetFetchResponseTopics] = {}
    for partition, committed in offsets.items():
        topic = told.get(partition.topic)
        if topic is None:
            topic = told[partition.topic] = OffsetFetchResponseTopics(name=partition.topic)
        topic.partitions.append(tell(partition, committed))
    if by_id:
        there = broker.cluster.topics
        return [
            OffsetFetchResponseTopics(topic_id=there[name].topic_id, partitions=topic.partitions)
            for name, topic in told.items()
            if name in there
        ]
    return list(told.values())


def _wanted_topics(
    broker: Broker, group_id: str, wanted: Iterable[OffsetFetchRequestTopics], by_id: bool, tell: _Tell
) -> list[OffsetFetchResponseTopics]:
    """In the order of the request, unknown ids behind the others."""
    told: list[OffsetFetchResponseTopics] = []
    unknown: list[OffsetFetchResponseTopics] = []
    for topic in wanted:
        name = topic.name
        answer = OffsetFetchResponseTopics(name=name, topic_id=topic.topic_id)
        if by_id:
            found = broker.cluster.topic_by_id(topic.topic_id)
            if found is None:
                answer.partitions += (_row(i, _NOTHING, ErrorCode.UNKNOWN_TOPIC_ID) for i in topic.partition_indexes)
                unknown.append(answer)
                continue
            name = found.name
        partitions = [TopicPartition(name, index) for index in topic.partition_indexes]
        offsets = broker.offsets.fetch(group_id, partitions)
        answer.partitions += (tell(partition, offsets.get(partition, _NOTHING)) for partition in partitions)
        told.append(answer)
    return told + unknown


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
