"""`BatchHeaderReader`: a `PartitionReader` that reads batch headers only, for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcli.client.config import ConsumerConfig
from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.protocol.records.batch_columns import BatchColumns, decode_headers
from kcli.structs import TopicPartition
from tests.consumer.partition_reader import PartitionReader


class BatchHeaderReader(PartitionReader):
    """Iterate over the batches that overlap `start <= offset < end`, in columns."""

    def __init__(
        self,
        config: ConsumerConfig,
        tp: TopicPartition,
        start: int,
        end: int,
        client: ConsumerNetworkClient | None = None,
    ) -> None:
        super().__init__(config, tp, start, end, client, decode=decode_headers)

    def __iter__(self) -> Iterator[Any]:
        rows: Any
        for rows in super().__iter__():
            batches: BatchColumns = rows.batches
            yield batches
