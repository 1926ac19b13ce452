"""Sizes of logs on the disks of their leaders (DescribeLogDirs, KIP-113)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kcli.client.requests import Results
from kcli.client.routing import ask_leaders
from kcli.structs import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse


def log_sizes(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], deadline_ms: float
) -> Results[TopicPartition, int]:
    """Return the bytes of the segments of each partition, from its leader."""
    return ask_leaders(client, partitions, lambda _node, tps: _request(tps), _read, deadline_ms)


def _request(partitions: Iterable[TopicPartition]) -> DescribeLogDirsRequest:
    from kcli.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

    return DescribeLogDirsRequest(
        topics=[
            DescribableLogDirTopic(topic=name, partitions=numbers)
            for name, numbers in numbers_by_topic(partitions).items()
        ]
    )


def _read(response: DescribeLogDirsResponse) -> Iterator[tuple[TopicPartition, int]]:
    for directory in response.results:
        for topic in directory.topics:
            for partition in topic.partitions:
                if not partition.is_future_key:
                    yield TopicPartition(topic.name, partition.partition_index), partition.partition_size
