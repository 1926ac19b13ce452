"""OffsetCommit and TxnOffsetCommit: the requests of members, administrators and transactional producers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from kcli.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
    from kcli.structs import GroupMetadata

T = TypeVar("T")

# From v10 on topics have ids instead of names.
LAST_VERSION_WITH_NAMES = 9


def commit_request(
    group: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    generation: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
    topic_ids: Mapping[str, UUID] | None = None,
) -> OffsetCommitRequest:
    """Return the request of a member; by default that of an administrator, from outside the group.

    A broker accepts the latter only for a group without members. v10 needs the `topic_ids` of all topics.
    """
    from kcli.protocol.messages.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )

    topics = _topics(offsets, OffsetCommitRequestTopic, OffsetCommitRequestPartition)
    for topic in topics:
        topic.topic_id = (topic_ids or {}).get(topic.name, topic.topic_id)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=topics,
    )


def transactional_commit_request(
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    group: GroupMetadata,
) -> TxnOffsetCommitRequest:
    """Return the request by which a producer commits the offsets of a group with its transaction (KIP-98, KIP-447)."""
    from kcli.protocol.messages.txn_offset_commit import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitRequestPartition,
        TxnOffsetCommitRequestTopic,
    )

    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        generation_id=group.generation,
        member_id=group.member_id,
        group_instance_id=group.instance_id,
        topics=_topics(offsets, TxnOffsetCommitRequestTopic, TxnOffsetCommitRequestPartition),
    )


def _topics(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], topic: Callable[..., T], partition: Callable[..., object]
) -> list[T]:
    """Return the offsets by topic, in the types of a request; both requests have the same fields."""
    partitions: dict[str, list[object]] = {}
    for tp, offset in offsets.items():
        row = partition(
            partition_index=tp.partition,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            committed_metadata=offset.metadata,
        )
        partitions.setdefault(tp.topic, []).append(row)
    return [topic(name=name, partitions=rows) for name, rows in partitions.items()]


def partition_codes(response: OffsetCommitResponse | TxnOffsetCommitResponse) -> dict[TopicPartition, int]:
    """Return the error code of each partition in the response; 0: stored."""
    return {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }


def name_topics(response: OffsetCommitResponse, topic_ids: Mapping[str, UUID]) -> None:
    """Give the topics of a response that has ids (v10) the names in the request."""
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    for topic in response.topics:
        topic.name = topic.name or names.get(topic.topic_id, "")
