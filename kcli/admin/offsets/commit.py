"""Groups' committed offsets, moved from outside the groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kcli.admin.offsets.changes import send_changes
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
    from kcli.admin.offsets.changes import Changes, Outcomes
    from kcli.client.consumer_network_client import ConsumerNetworkClient

# From v10 on topics are named by id, which a caller that names partitions does not have.
_LAST_VERSION_WITH_NAMES = 9


def commit_offsets(
    client: ConsumerNetworkClient, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: float
) -> dict[TopicPartition, ErrorCode]:
    """Commit for a group without members; the error of each partition (0: stored), in the order of `offsets`.

    A group with members refuses (UNKNOWN_MEMBER_ID): only they may move their offsets.
    """
    request = _request(group, offsets)
    answer = ask_coordinator(client, group, request, deadline_ms, codes=_codes, max_version=_LAST_VERSION_WITH_NAMES)
    found = _read(answer)
    return {tp: ErrorCode.of(found.get(tp, ErrorCode.UNKNOWN_SERVER_ERROR)) for tp in offsets}


def commit_many(
    client: ConsumerNetworkClient,
    wanted: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]],
    deadline_ms: float,
) -> Outcomes:
    """Commit for many groups side by side, in as few requests as brokers can store; None for what is stored.

    An error for each other partition, among them TimeoutExpired and DisconnectedError: not known whether it is stored.
    """
    return send_changes(client, wanted, _request, _read, deadline_ms, max_version=_LAST_VERSION_WITH_NAMES)


def _request(group: str, offsets: Changes) -> OffsetCommitRequest:
    """As nobody's member: generation -1, no member id."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for tp, committed in offsets.items():
        if committed is None:
            continue
        topic = topics.setdefault(tp.topic, OffsetCommitRequestTopic(name=tp.topic, partitions=[]))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return OffsetCommitRequest(group_id=group, topics=list(topics.values()))


def _read(answer: OffsetCommitResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
    }


def _codes(answer: OffsetCommitResponse) -> Iterator[int]:
    return iter(_read(answer).values())
