"""A group's committed offsets, moved from outside the group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kcli.client.routing import ask_coordinator
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient

# From v10 on topics are named by id, which a caller that names partitions does not have.
_LAST_VERSION_WITH_NAMES = 9


def commit_offsets(
    client: ConsumerNetworkClient, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: float
) -> dict[TopicPartition, ErrorCode]:
    """Commit for a group without members; the error of each partition (0: stored), in the order of `offsets`.

    A group with members refuses (UNKNOWN_MEMBER_ID): only they may move their offsets.
    """
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for tp, committed in offsets.items():
        topic = topics.setdefault(tp.topic, OffsetCommitRequestTopic(name=tp.topic, partitions=[]))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    request = OffsetCommitRequest(group_id=group, topics=list(topics.values()))
    answer = ask_coordinator(client, group, request, deadline_ms, codes=_codes, max_version=_LAST_VERSION_WITH_NAMES)
    found = {
        TopicPartition(topic.name, partition.partition_index): ErrorCode.of(partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    }
    return {tp: found.get(tp, ErrorCode.of(ErrorCode.UNKNOWN_SERVER_ERROR)) for tp in offsets}


def _codes(answer: OffsetCommitResponse) -> Iterator[int]:
    return (partition.error_code for topic in answer.topics for partition in topic.partitions)
