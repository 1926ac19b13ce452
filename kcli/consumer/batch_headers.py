"""`BatchHeaderReader`: the record batches of one range of one partition, from their headers alone. No group.

What a topic holds, how much, of whom and when, at the speed at which brokers send bytes: batches are neither unpacked
nor checked against their checksums. All batches are there, as they lie in the log: control batches, empty ones that
compaction leaves, and aborted ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from kcli.consumer.partition_reader import PartitionReader

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.coverage import PartitionCoverage
    from kcli.protocol.records.batch_columns import BatchColumns, HeaderRows
    from kcli.protocol.records.run import DecodedSection, RecordSection
    from kcli.structs import TopicPartition


class BatchHeaderReader:
    """Iterate over the batches that overlap `start <= offset < end`, in columns.

    Those in which the range begins or ends are there whole, so two ranges that meet within a batch both tell it: who
    adds up ranges takes the batches of each whose last offset lies in it. Ends and errors are as `PartitionReader`'s.
    Under read_committed the columns say which batches were aborted; and the range ends at the last stable offset.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        tp: TopicPartition,
        start: int,
        end: int,
        client: ConsumerNetworkClient | None = None,
    ) -> None:
        self._reader = PartitionReader(config, tp, start, end, client, decode=decode_batches)

    def __iter__(self) -> Iterator[BatchColumns]:
        for rows in self._reader:
            yield cast("HeaderRows", rows).batches

    def coverage(self) -> PartitionCoverage:
        """How far it is; `records` are batches here, `bytes` those in the log."""
        return self._reader.coverage()

    def close(self) -> None:
        """Stop; safe to call twice."""
        self._reader.close()

    def __enter__(self) -> BatchHeaderReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def decode_batches(sections: Sequence[RecordSection]) -> list[DecodedSection]:
    """For a `RangeReader` or `PartitionReader`: what it hands out are `HeaderRows` then."""
    from kcli.protocol.records.batch_columns import decode_headers

    return decode_headers(sections)
