"""The producer: records in, one by one or in bulk, and for each a future or a call that tells what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from kcli.client.backoff import uniform
from kcli.client.metadata import check_partitions
from kcli.client.request_future import RequestFuture
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.producer.accumulator import Accumulator
from kcli.producer.batches import HEADER_BYTES, OnOutcome, Outcome, RecordMetadata, row_bytes
from kcli.producer.partitioner import StickyPartitioner, partition_for_key
from kcli.producer.sender import Sender
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ProducerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import TopicInfo
    from kcli.protocol.records.record import NewRecord

_FOREVER = float("inf")


class Producer:
    """Writes records to topics that exist. No thread of its own: it works while `send`, `poll`, `flush` or `close` run.

    So a batch that lingers leaves with the next of these calls after its time. Records of one partition are stored in
    the order in which they were sent. With enable.idempotence (the default with acks=all) a retry never stores one
    twice; without, a lost answer may. No transactions.
    """

    def __init__(
        self,
        config: ProducerConfig,
        client: ConsumerNetworkClient | None = None,
        *,
        choose: Callable[[int], int] | None = None,
    ) -> None:
        """`client` stays the caller's to close; without one the producer makes its own.

        `choose(n)` says at which of n partitions records without a key begin; default: a random one.
        """
        self._owns_client = client is None
        if client is None:
            from kcli.client.connect import connect

            client = connect(config)
        self._config = config
        self._client = client
        self._clock = client.clock
        self._accumulator = Accumulator(
            batch_bytes=config.batch_size,
            linger_ms=config.linger_ms,
            delivery_timeout_ms=config.delivery_timeout_ms,
        )
        self._sender = Sender(config, client, self._accumulator)
        self._sticky = StickyPartitioner(choose or (lambda n: int(uniform(0, n)) % n))
        self._topics: set[str] = set()
        self._last_round_ms = 0.0

    def __repr__(self) -> str:
        return f"<Producer {self._accumulator!r}>"

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(flush=kind is None)

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> RequestFuture[RecordMetadata]:
        """Hand over one record. It waits only for metadata of a new topic and for room, at most max.block.ms.

        Without `partition` the key decides, as in Java; without a key, batches take turns. `timestamp_ms` is since the
        epoch, default now. The future fails with BrokerError for an unknown topic or partition and for a record larger
        than max.request.size (MESSAGE_TOO_LARGE), with TimeoutExpired after delivery.timeout.ms.
        """
        from kcli.protocol.records.record import NewRecord

        row = NewRecord(key, value, self._clock.wall_ms() if timestamp_ms is None else timestamp_ms, headers)
        future: RequestFuture[RecordMetadata] = RequestFuture(f"record for {topic}")

        def tell(outcome: Outcome) -> None:
            if outcome.error is not None:
                future.fail(outcome.error)
            else:
                stamp = row.timestamp_ms if outcome.append_time_ms < 0 else outcome.append_time_ms
                future.complete(RecordMetadata(topic, outcome.tp.partition, outcome.base_offset, stamp))

        try:
            self.send_many(topic, [row], tell, partition=partition)
        except KcliError as error:
            future.fail(error)
        return future

    def send_many(
        self, topic: str, rows: Sequence[NewRecord], on_outcome: OnOutcome, *, partition: int | None = None
    ) -> None:
        """Hand over many records at once; `on_outcome` is told in runs what became of them, each record once.

        All rows are taken, or none and an error is raised (unknown topic or partition, no room for max.block.ms).
        Rows too large are told at once. buffer.memory may be exceeded by the rows of one call.
        """
        info = self.partitions(topic)
        check_partitions(info, () if partition is None else (partition,))
        self._wait_for_room()
        rows = self._without_too_large(topic, partition, rows, on_outcome)
        now_ms = self._clock.now_ms()
        if partition is not None:
            self._accumulator.append(TopicPartition(topic, partition), rows, now_ms, on_outcome)
        else:
            self._append_by_key(info, rows, now_ms, on_outcome)
        if self._accumulator.next_due_ms() <= now_ms or now_ms - self._last_round_ms >= self._config.linger_ms:
            self.poll(0)

    def poll(self, timeout_ms: float = 0) -> None:
        """Send what is due and take answers; returns when something happened or the time is over."""
        self._round(timeout_ms, at_once=False)

    def flush(self, deadline_ms: float = _FOREVER) -> None:
        """Send everything now and return when each record is stored or failed.

        `deadline_ms` is on the client's clock; TimeoutExpired when it passes. Records go on being sent after that.
        """
        while not self._accumulator.is_empty:
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                raise self._client.timed_out("acknowledgements")
            self._round(left_ms, at_once=True)

    def close(self, *, flush: bool = True) -> None:
        """Flush (bounded by delivery.timeout.ms), then close the connections that the producer made for itself."""
        try:
            if flush:
                self.flush()
        finally:
            if self._owns_client:
                self._client.close()

    def _round(self, timeout_ms: float, *, at_once: bool) -> None:
        self._sender.run(at_once=at_once)
        if self._accumulator.is_empty and not timeout_ms:
            return
        self._client.poll(timeout_ms=min(timeout_ms, self._sender.wait_ms(at_once=at_once)))
        self._sender.run(at_once=at_once)
        self._last_round_ms = self._clock.now_ms()

    def partitions(self, topic: str) -> TopicInfo:
        """The topic as the cluster knows it; waits for that at most max.block.ms, at its first use or if it is unknown.

        BrokerError, UNKNOWN_TOPIC_OR_PARTITION among them, when it cannot be written to.
        """
        info = self._client.metadata.cluster.topics.get(topic)
        if info is None or info.error:
            deadline_ms = self._clock.now_ms() + self._config.max_block_ms
            info = self._client.topics_metadata([topic], deadline_ms).topics.get(topic)
            if info is None or info.error:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if info is None else info.error
                raise BrokerError(code, topic=topic)
        if topic not in self._topics:  # somebody else may have asked for it, and not for good
            self._client.metadata.add_topics([topic])
            self._topics.add(topic)
        return info

    def _without_too_large(
        self, topic: str, partition: int | None, rows: Sequence[NewRecord], tell: OnOutcome
    ) -> Sequence[NewRecord]:
        limit = self._config.max_request_size
        if max(map(row_bytes, rows), default=0) + HEADER_BYTES <= limit:
            return rows
        kept = [row for row in rows if row_bytes(row) + HEADER_BYTES <= limit]
        tp = TopicPartition(topic, -1 if partition is None else partition)
        text = f"a record is larger than max.request.size, {limit} bytes"
        tell(Outcome(tp, len(rows) - len(kept), error=BrokerError(ErrorCode.MESSAGE_TOO_LARGE, text)))
        return kept

    def _append_by_key(self, info: TopicInfo, rows: Sequence[NewRecord], now_ms: float, tell: OnOutcome) -> None:
        """Each row to the partition of its key; those without one to whichever partition's turn it is.

        Neighbours with a key and neighbours without take turns, so that a partition keeps the order of its rows.
        """
        available = [p.partition for p in info.partitions.values() if p.leader >= 0] or list(info.partitions)
        ignore_keys = self._config.partitioner_ignore_keys
        for is_keyed, run in groupby(rows, key=lambda row: row.key is not None and not ignore_keys):
            if is_keyed:
                self._append_keyed(info, run, now_ms, tell)
            else:
                self._append_sticky(info.name, available, list(run), now_ms, tell)

    def _append_keyed(self, info: TopicInfo, rows: Iterable[NewRecord], now_ms: float, tell: OnOutcome) -> None:
        count = len(info.partitions)
        by_partition: dict[int, list[NewRecord]] = {}
        for row in rows:
            by_partition.setdefault(partition_for_key(row.key or b"", count), []).append(row)
        for partition, keyed in by_partition.items():
            self._accumulator.append(TopicPartition(info.name, partition), keyed, now_ms, tell)

    def _append_sticky(
        self, topic: str, available: Sequence[int], rows: Sequence[NewRecord], now_ms: float, tell: OnOutcome
    ) -> None:
        at = 0
        while at < len(rows):
            tp = TopicPartition(topic, self._sticky.current(topic, available))
            at = self._accumulator.append(tp, rows, now_ms, tell, start=at, one_batch=True)
            if self._accumulator.is_full(tp):
                self._sticky.batch_is_full(topic)

    def _wait_for_room(self) -> None:
        if self._accumulator.buffered_bytes < self._config.buffer_memory:
            return
        deadline_ms = self._clock.now_ms() + self._config.max_block_ms
        while self._accumulator.buffered_bytes >= self._config.buffer_memory:
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                raise self._client.timed_out(f"room among {self._config.buffer_memory} bytes (buffer.memory)")
            self._round(left_ms, at_once=True)
