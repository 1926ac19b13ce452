"""Committed offsets forgotten again, as if they had never been (OffsetDelete, KIP-496)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.admin.offsets.changes import send_changes
from kcli.client.requests import Results
from kcli.error_codes import ErrorCode
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.admin.offsets.changes import Changes, Outcomes
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


def delete_offsets(
    client: ConsumerNetworkClient, group: str, partitions: Iterable[TopicPartition], deadline_ms: float
) -> Results[TopicPartition, None]:
    """Forget what a group has committed in these partitions; done, too, where it has committed nothing.

    Each by itself: GROUP_SUBSCRIBED_TO_TOPIC (a member reads it), UNKNOWN_TOPIC_OR_PARTITION; all together:
    GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (members that are no consumers), GROUP_AUTHORIZATION_FAILED.
    """
    outcomes = forget(client, {group: dict.fromkeys(partitions)}, deadline_ms)
    gathered: Results[TopicPartition, None] = Results()
    for (_, tp), error in outcomes.items():
        gathered.put(tp, error)
    return gathered


def forget(
    client: ConsumerNetworkClient, changes: Mapping[str, dict[TopicPartition, None]], deadline_ms: float
) -> Outcomes:
    """The same for many groups at once."""
    # After a lost response, a group that is not there was deleted with its last offsets.
    gone = (ErrorCode.GROUP_ID_NOT_FOUND,)
    return send_changes(client, changes, _request, _read, deadline_ms, done_if_repeated=gone)


def _request(group: str, offsets: Changes) -> OffsetDeleteRequest:
    from kcli.protocol.messages.offset_delete import (
        OffsetDeleteRequest,
        OffsetDeleteRequestPartition,
        OffsetDeleteRequestTopic,
    )

    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for tp in offsets:
        topic = topics.setdefault(tp.topic, OffsetDeleteRequestTopic(name=tp.topic, partitions=[]))
        topic.partitions.append(OffsetDeleteRequestPartition(partition_index=tp.partition))
    return OffsetDeleteRequest(group_id=group, topics=list(topics.values()))


def _read(response: OffsetDeleteResponse) -> Mapping[TopicPartition, int] | int:
    if response.error_code:
        return response.error_code
    return {
        TopicPartition(topic.name, it.partition_index): it.error_code
        for topic in response.topics
        for it in topic.partitions
    }
