"""`PartitionReader`: iterate over one range of one partition with a `RangeReader`, for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.consumer.range_reader import RangeReader
from kcli.consumer.read_range import ReadRange
from kcli.errors import KcliError
from kcli.log_place import Place
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.coverage import PartitionCoverage
    from kcli.consumer.fetch_buffer import Decode
    from kcli.protocol.records.columns import RecordColumns

_POLL_MS = 1_000.0


class PartitionReader:
    """Iterate over the records with `start <= offset < end`, as columns.

    If any of these offsets could not be read, the iteration raises at its end: the error that stopped it, or a
    KcliError that names the missing offsets. `decode` makes other columns than records, for example `decode_headers` of
    `kcli.protocol.records.batch_columns` the headers of batches, without unpacking them or checking their CRC. Without
    a `client` the reader connects, and `close` closes that connection.
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
        self._closed = False
        asked = ReadRange(Place.offset(start), Place.offset(end))
        self._own_client = client is None
        self._client = client or connect(config)
        try:
            self._reader = RangeReader(self._client, {tp: asked}, config, decode=decode)
        except BaseException:
            if self._own_client:
                self._client.close()
            raise

    def __iter__(self) -> Iterator[RecordColumns]:
        deadline_ms = self._client.clock.now_ms() + self._config.default_api_timeout_ms
        self._reader.resolve(deadline_ms)
        while not self._reader.done:
            for _, columns in self._reader.poll(_POLL_MS):
                yield columns
        coverage = self.coverage()
        if not coverage.complete:
            raise coverage.error or KcliError(f"{self._tp} was not read completely: {coverage.reason}")

    def coverage(self) -> PartitionCoverage:
        """Return the coverage so far."""
        return self._reader.coverage()[0]

    def close(self) -> None:
        """Stop reading and close the reader's own connection. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        try:
            self._reader.close()
        finally:
            if self._own_client:
                self._client.close()

    def __enter__(self) -> PartitionReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
