"""Committed offsets forgotten again, as if they had never been (OffsetDelete, KIP-496)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.admin.offsets.pieces import Piece, Way, pieces_of, send_pieces
from kcli.client.requests import Results
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.admin.offsets.pieces import Outcomes
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
    tried: set[str] = set()

    def request(piece: Piece) -> OffsetDeleteRequest:
        if piece.tries:
            tried.add(piece.group)
        return _request(piece)

    pieces = [piece for group, partitions in changes.items() for piece in pieces_of(group, partitions)]
    outcomes = send_pieces(client, pieces, Way(request, _read), deadline_ms)
    return {key: None if key[0] in tried and _is_gone(error) else error for key, error in outcomes.items()}


def _request(piece: Piece) -> OffsetDeleteRequest:
    from kcli.protocol.messages.offset_delete import (
        OffsetDeleteRequest,
        OffsetDeleteRequestPartition,
        OffsetDeleteRequestTopic,
    )

    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for tp in piece.changes:
        topic = topics.setdefault(tp.topic, OffsetDeleteRequestTopic(name=tp.topic, partitions=[]))
        topic.partitions.append(OffsetDeleteRequestPartition(partition_index=tp.partition))
    return OffsetDeleteRequest(group_id=piece.group, topics=list(topics.values()))


def _read(response: OffsetDeleteResponse) -> Mapping[TopicPartition, int] | int:
    if response.error_code:
        return response.error_code
    return {
        TopicPartition(topic.name, it.partition_index): it.error_code
        for topic in response.topics
        for it in topic.partitions
    }


def _is_gone(error: KcliError | None) -> bool:
    """When an answer was lost and the group is not there at the second try, its last offsets went at the first."""
    return isinstance(error, BrokerError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND
