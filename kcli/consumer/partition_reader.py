"""`PartitionReader`: one range of one partition as an iterator, without a group. What a Spark task runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.consumer.range_reader import RangeReader
from kcli.consumer.read_range import Offset, ReadRange
from kcli.errors import KcliError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.coverage import PartitionCoverage
    from kcli.consumer.fetch_buffer import Decode
    from kcli.protocol.records.columns import RecordColumns

_POLL_MS = 1_000.0


class PartitionReader:
    """Iterate over the records with `start <= offset < end`, in columns.

    At the end the iteration raises if any of these offsets could not be read: the error that stopped it, or a KcliError
    that says what is missing. `decode` makes other columns than records (see `batch_headers`). Without a `client` it
    connects by itself, and closes that connection with `close`.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        tp: TopicPartition,
        start: int,
        end: int,
        client: ConsumerNetworkClient | None = None,
        *,
        decode: Decode | None = None,
    ) -> None:
        from kcli.client.connect import connect

        self._config = config
        self._tp = tp
        self._own_client = client is None
        self._client = client or connect(config)
        asked = ReadRange(Offset(start), Offset(end))
        self._reader = RangeReader(self._client, {tp: asked}, config, decode=decode)

    def __iter__(self) -> Iterator[RecordColumns]:
        deadline_ms = self._client.clock.now_ms() + self._config.default_api_timeout_ms
        self._reader.resolve(deadline_ms)
        while not self._reader.done:
            for _, columns in self._reader.poll(_POLL_MS):
                yield columns
        covered = self.coverage()
        if not covered.complete:
            raise covered.error or KcliError(f"{self._tp} could not be read whole: {covered.reason}")

    def coverage(self) -> PartitionCoverage:
        """How far it is."""
        return self._reader.coverage()[0]

    def close(self) -> None:
        """Stop; safe to call twice."""
        self._reader.close()
        if self._own_client:
            self._client.close()

    def __enter__(self) -> PartitionReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
