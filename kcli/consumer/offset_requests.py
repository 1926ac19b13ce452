"""Questions to leaders about offsets, and their answers by partition. Pure: messages in, messages out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.consumer.subscription import FetchPosition
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import Node, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from kcli.client.metadata import Metadata
    from kcli.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
    from kcli.protocol.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
    )

CONSUMER = -1
TIMESTAMP_OF_POLICY = {"earliest": -2, "latest": -1}


class EpochEnd(NamedTuple):
    """The largest epoch not above the asked one, and the offset behind its last record; -1: unknown."""

    epoch: int
    end_offset: int


def by_leader(
    metadata: Metadata, partitions: Iterable[TopicPartition]
) -> tuple[dict[Node, list[TopicPartition]], list[TopicPartition]]:
    """The partitions of each leader, and those without one."""
    led: dict[Node, list[TopicPartition]] = {}
    leaderless = []
    for tp in partitions:
        node = metadata.leader(tp).node
        if node is None:
            leaderless.append(tp)
        else:
            led.setdefault(node, []).append(tp)
    return led, leaderless


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """The partitions of each topic."""
    topics: dict[str, list[TopicPartition]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp)
    return topics


def offsets_request(metadata: Metadata, wanted: Mapping[TopicPartition, int], isolation: int) -> ListOffsetsRequest:
    """Ask one leader for the offset of a timestamp (or -1 end, -2 start) in each partition."""
    from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[
                ListOffsetsPartition(
                    partition_index=tp.partition, current_leader_epoch=metadata.leader(tp).epoch, timestamp=wanted[tp]
                )
                for tp in partitions
            ],
        )
        for topic, partitions in by_topic(wanted).items()
    ]
    return ListOffsetsRequest(replica_id=CONSUMER, isolation_level=isolation, topics=topics)


def read_offsets(response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, OffsetAndTimestamp | BrokerError]]:
    """The answer to `offsets_request`."""
    for topic in response.topics:
        for it in topic.partitions:
            tp = TopicPartition(topic.name, it.partition_index)
            if it.error_code:
                yield tp, _error("ListOffsets", it.error_code, tp)
            else:
                yield tp, OffsetAndTimestamp(it.offset, it.timestamp, it.leader_epoch)


def epochs_request(
    metadata: Metadata, positions: Mapping[TopicPartition, FetchPosition]
) -> OffsetForLeaderEpochRequest:
    """Ask one leader where the epochs of these positions end in its log."""
    from kcli.protocol.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
        OffsetForLeaderTopic,
    )

    topics = [
        OffsetForLeaderTopic(
            topic=topic,
            partitions=[
                OffsetForLeaderPartition(
                    partition=tp.partition,
                    current_leader_epoch=metadata.leader(tp).epoch,
                    leader_epoch=positions[tp].epoch,
                )
                for tp in partitions
            ],
        )
        for topic, partitions in by_topic(positions).items()
    ]
    return OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=topics)


def read_epochs(response: OffsetForLeaderEpochResponse) -> Iterator[tuple[TopicPartition, EpochEnd | BrokerError]]:
    """The answer to `epochs_request`."""
    for topic in response.topics:
        for it in topic.partitions:
            tp = TopicPartition(topic.topic, it.partition)
            if it.error_code:
                yield tp, _error("OffsetForLeaderEpoch", it.error_code, tp)
            else:
                yield tp, EpochEnd(it.leader_epoch, it.end_offset)


def committed_request(group: str, partitions: Iterable[TopicPartition]) -> OffsetFetchRequest:
    """Ask a group's coordinator for its offsets, in the form that v7 and older have."""
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

    topics = [
        OffsetFetchRequestTopic(name=topic, partition_indexes=[tp.partition for tp in members])
        for topic, members in by_topic(partitions).items()
    ]
    return OffsetFetchRequest(group_id=group, topics=topics)


def read_committed(
    response: OffsetFetchResponse,
) -> Iterator[tuple[TopicPartition, OffsetAndMetadata | BrokerError | None]]:
    """The answer to `committed_request`; None: nothing is committed. A refusal of the whole request is raised."""
    if response.error_code:
        raise BrokerError(response.error_code, api="OffsetFetch")
    for topic in response.topics:
        for it in topic.partitions:
            tp = TopicPartition(topic.name, it.partition_index)
            if it.error_code:
                yield tp, _error("OffsetFetch", it.error_code, tp)
            elif it.committed_offset < 0:
                yield tp, None
            else:
                yield tp, OffsetAndMetadata(it.committed_offset, it.committed_leader_epoch, it.metadata or "")


def _error(api: str, code: int, tp: TopicPartition) -> BrokerError:
    return BrokerError(ErrorCode.of(code), api=api, topic=tp.topic, partition=tp.partition)
