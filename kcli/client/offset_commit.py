"""OffsetCommit: the request of members and administrators, and the error codes in its response. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

# From v10 on topics have ids, which a caller with names does not have. They have no advantage either: a commit for a
# topic that was created again is refused anyway.
LAST_VERSION_WITH_NAMES = 9


def commit_request(
    group: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    generation: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
) -> OffsetCommitRequest:
    """Return the request of a member; by default that of an administrator, from outside the group.

    A broker accepts the latter only for a group without members.
    """
    from kcli.protocol.messages.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )

    topics: dict[str, OffsetCommitRequestTopic] = {}
    for tp, it in offsets.items():
        topic = topics.setdefault(tp.topic, OffsetCommitRequestTopic(name=tp.topic, partitions=[]))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=it.offset,
                committed_leader_epoch=it.leader_epoch,
                committed_metadata=it.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=list(topics.values()),
    )


def partition_codes(response: OffsetCommitResponse) -> dict[TopicPartition, int]:
    """Return the error code of each partition in the response; 0: stored."""
    return {
        TopicPartition(topic.name, it.partition_index): it.error_code
        for topic in response.topics
        for it in topic.partitions
    }
