"""Offsets by timestamp and end offsets of leader epochs, from all leaders (ListOffsets, OffsetForLeaderEpoch)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.client.metadata import Metadata
from kcli.client.requests import Results
from kcli.client.routing import ask_leaders
from kcli.errors import KcliError
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kcli.protocol.wire import Message
from kcli.structs import OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from kcli.protocol.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
    )

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3

_MAX_TIMESTAMP_VERSION = 7  # KIP-734


def list_offsets(
    client: ConsumerNetworkClient,
    timestamps: Mapping[TopicPartition, int],
    deadline_ms: float,
    isolation_level: int = 0,
) -> Results[TopicPartition, OffsetAndTimestamp]:
    """Return an offset per partition: EARLIEST, LATEST, MAX_TIMESTAMP, or the first record at or after a time in ms.

    Offset -1: there is no such record. With `isolation_level` 1, LATEST is the last stable offset. Errors are in
    `Results.errors`, among them UnsupportedVersion for MAX_TIMESTAMP from a broker older than 3.0 (KIP-734).
    """
    timeout_ms = client.config.request_timeout_ms
    return ask_leaders(
        client,
        timestamps,
        lambda _node, tps: offsets_request(
            client.metadata, {tp: timestamps[tp] for tp in tps}, isolation_level, timeout_ms
        ),
        read_offsets,
        deadline_ms,
        min_version=_MAX_TIMESTAMP_VERSION if MAX_TIMESTAMP in timestamps.values() else None,
    )


_CONSUMER = -1  # the replica id of a client that is not a replica


class EpochEnd(NamedTuple):
    """The largest leader epoch not above the requested one, and its end offset; -1: unknown."""

    leader_epoch: int
    end_offset: int


def offsets_request(
    metadata: Metadata, timestamps: Mapping[TopicPartition, int], isolation_level: int = 0, timeout_ms: int = 30_000
) -> ListOffsetsRequest:
    """Make the request to one leader for the offset of a timestamp (or LATEST, EARLIEST) in each partition.

    `timeout_ms` limits the reads from remote storage (v10).
    """
    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[
                ListOffsetsPartition(
                    partition_index=tp.partition,
                    current_leader_epoch=metadata.leader(tp).epoch,
                    timestamp=timestamps[tp],
                )
                for tp in partitions
            ],
        )
        for topic, partitions in _by_topic(timestamps).items()
    ]
    return ListOffsetsRequest(
        replica_id=_CONSUMER, isolation_level=isolation_level, topics=topics, timeout_ms=timeout_ms
    )


def read_offsets(response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, OffsetAndTimestamp | KcliError]]:
    """Read the response to `offsets_request`; offset -1: there is no such record."""
    for topic in response.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            error = _error(response, "ListOffsets", partition.error_code, tp)
            yield tp, error or OffsetAndTimestamp(partition.offset, partition.timestamp, partition.leader_epoch)


def epochs_request(metadata: Metadata, epochs: Mapping[TopicPartition, int]) -> OffsetForLeaderEpochRequest:
    """Make the request to one leader for the ends of these epochs."""
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
                    partition=tp.partition, current_leader_epoch=metadata.leader(tp).epoch, leader_epoch=epochs[tp]
                )
                for tp in partitions
            ],
        )
        for topic, partitions in _by_topic(epochs).items()
    ]
    return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=topics)


def read_epochs(response: OffsetForLeaderEpochResponse) -> Iterator[tuple[TopicPartition, EpochEnd | KcliError]]:
    """Read the response to `epochs_request`."""
    for topic in response.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.topic, partition.partition)
            error = _error(response, "OffsetForLeaderEpoch", partition.error_code, tp)
            yield tp, error or EpochEnd(partition.leader_epoch, partition.end_offset)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    topics: dict[str, list[TopicPartition]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp)
    return topics


def _error(response: Message, api: str, code: int, tp: TopicPartition) -> KcliError | None:
    return response.broker_error(code, api=api, topic=tp.topic, partition=tp.partition) if code else None
