"""Offsets by time and ends of leader epochs, asked of the leaders side by side (ListOffsets, OffsetForLeaderEpoch)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.client.routing import Gathered, ask_leaders
from kcli.errors import BrokerError, KcliError
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kcli.structs import Node, OffsetAndTimestamp, TopicPartition

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3

_MAX_TIMESTAMP_VERSION = 7  # KIP-734
_CONSUMER = -1


class EpochEnd(NamedTuple):
    """Where a leader epoch ended: the offset after its last record. Both -1: the broker does not know that epoch.

    `leader_epoch` is the largest epoch up to the one asked for that has records.
    """

    leader_epoch: int
    end_offset: int


def list_offsets(
    client: ConsumerNetworkClient,
    wanted: Mapping[TopicPartition, int],
    deadline_ms: float,
    isolation_level: int = 0,
) -> Gathered[TopicPartition, OffsetAndTimestamp]:
    """The offset of EARLIEST, LATEST, MAX_TIMESTAMP, or of the first record at or after a time in ms, by partition.

    Offset -1: there is no such record. With `isolation_level` 1 LATEST is the last stable offset. UnsupportedVersion
    for MAX_TIMESTAMP from a broker older than 3.0; that and all other errors are data.
    """

    def build(_node: Node, partitions: list[TopicPartition]) -> ListOffsetsRequest:
        topics = [
            ListOffsetsTopic(name=topic, partitions=[_question(client, tp, wanted[tp]) for tp in tps])
            for topic, tps in _by_topic(partitions)
        ]
        timeout_ms = client.config.request_timeout_ms
        return ListOffsetsRequest(
            replica_id=_CONSUMER, isolation_level=isolation_level, topics=topics, timeout_ms=timeout_ms
        )

    min_version = _MAX_TIMESTAMP_VERSION if MAX_TIMESTAMP in wanted.values() else None
    return ask_leaders(client, wanted, build, _read_offsets, deadline_ms, min_version=min_version)


def _question(client: ConsumerNetworkClient, tp: TopicPartition, timestamp: int) -> ListOffsetsPartition:
    epoch = client.metadata.leader(tp).epoch
    return ListOffsetsPartition(partition_index=tp.partition, current_leader_epoch=epoch, timestamp=timestamp)


def _read_offsets(
    response: ListOffsetsResponse,
) -> Iterator[tuple[TopicPartition, OffsetAndTimestamp | KcliError]]:
    for topic in response.topics:
        for p in topic.partitions:
            tp = TopicPartition(topic.name, p.partition_index)
            yield tp, _error(p.error_code, tp) or OffsetAndTimestamp(p.offset, p.timestamp, p.leader_epoch)


def offsets_for_leader_epoch(
    client: ConsumerNetworkClient, epochs: Mapping[TopicPartition, int], deadline_ms: float
) -> Gathered[TopicPartition, EpochEnd]:
    """Where the epoch under which each partition was read has ended; before our position means a truncated log."""
    from kcli.protocol.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
        OffsetForLeaderPartition,
        OffsetForLeaderTopic,
    )

    def question(tp: TopicPartition) -> OffsetForLeaderPartition:
        current = client.metadata.leader(tp).epoch
        return OffsetForLeaderPartition(partition=tp.partition, current_leader_epoch=current, leader_epoch=epochs[tp])

    def build(_node: Node, partitions: list[TopicPartition]) -> OffsetForLeaderEpochRequest:
        topics = [
            OffsetForLeaderTopic(topic=topic, partitions=[question(tp) for tp in tps])
            for topic, tps in _by_topic(partitions)
        ]
        return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=topics)

    def read(response: OffsetForLeaderEpochResponse) -> Iterator[tuple[TopicPartition, EpochEnd | KcliError]]:
        for topic in response.topics:
            for p in topic.partitions:
                tp = TopicPartition(topic.topic, p.partition)
                yield tp, _error(p.error_code, tp) or EpochEnd(p.leader_epoch, p.end_offset)

    return ask_leaders(client, epochs, build, read, deadline_ms)


def _by_topic(partitions: Iterable[TopicPartition]) -> Iterable[tuple[str, list[TopicPartition]]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for tp in partitions:
        grouped.setdefault(tp.topic, []).append(tp)
    return grouped.items()


def _error(code: int, tp: TopicPartition) -> KcliError | None:
    return BrokerError(code, topic=tp.topic, partition=tp.partition) if code else None
