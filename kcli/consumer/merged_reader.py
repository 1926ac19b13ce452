"""`MergedReader`: read ranges of many partitions in order of time, with bounded memory.

It reads with a `RangeReader` and keeps the records in a `MergeBuffer` until no partition can still send an earlier one.
A partition that is ahead of the others is held: it is not fetched until its records were returned.

A bounded read waits for every partition, so its order is exact. A follower waits at most `wait_ms` for partitions that
have no records, or that cannot be read at present: a record of theirs that arrives later is returned as soon as it
arrives, after records with a later time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.consumer.merge_buffer import MergeBuffer
from kcli.consumer.subscription import FetchPosition

if TYPE_CHECKING:
    from kcli.client.requests import Results
    from kcli.clock import Clock
    from kcli.consumer.coverage import PartitionCoverage
    from kcli.consumer.range_reader import RangeReader
    from kcli.consumer.read_range import ReadRange, ResolvedRange
    from kcli.consumer.retry_backoff import RetryState
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

MEMORY_BYTES = 32 << 20
WAIT_MS = 1_000.0
_LEAST_PARTITION_BYTES = 64 << 10


class MergedReader:
    """A `RangeReader` whose records come in order of time. The columns have `partitions`, see `RecordColumns`.

    `memory_bytes` bounds the records that wait for others, of all partitions together; each may have one fetch beyond.
    """

    def __init__(
        self, reader: RangeReader, clock: Clock, *, wait_ms: float = WAIT_MS, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self._reader = reader
        self._clock = clock
        self._wait_ms = wait_ms
        self._memory_bytes = memory_bytes
        self._buffer = MergeBuffer()
        self._held: set[TopicPartition] = set()

    def __repr__(self) -> str:
        return f"<MergedReader {self._buffer!r} held={len(self._held)} {self._reader!r}>"

    @property
    def ranges(self) -> Mapping[TopicPartition, ReadRange]:
        """The ranges as requested, with those of partitions that were added later."""
        return self._reader.ranges

    def resolve(self, deadline_ms: float) -> Results[TopicPartition, ResolvedRange]:
        """Resolve the ranges to offsets, see `RangeReader.resolve`."""
        resolved = self._reader.resolve(deadline_ms)
        self._reader.limit_fetches(self._partition_bytes() // 2)
        return resolved

    def _partition_bytes(self) -> int:
        return max(_LEAST_PARTITION_BYTES, self._memory_bytes // (2 * max(1, len(self.ranges))))

    @property
    def done(self) -> bool:
        """True if all records were returned and no partition has anything left to read."""
        return self._reader.done and not self._buffer

    def poll(self, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]:
        """Return the next records in order of time as soon as there are some; an empty list now and then."""
        self._reader.require_own_process()
        records = self._take()
        if records:
            return records
        now_ms = self._clock.now_ms()
        due_ms = self._buffer.first_arrival_ms() + self._wait_ms
        if due_ms > now_ms:  # otherwise these records wait for a partition that is certain to send some
            timeout_ms = min(timeout_ms, due_ms - now_ms)
        for tp, columns in self._reader.poll(timeout_ms):
            self._buffer.add(tp, columns, self._clock.now_ms())
        records = self._take()
        self._hold()
        self._reader.limit_fetches(self._partition_bytes() // 2)
        return records

    @property
    def waiting_bytes(self) -> int:
        """Memory of the records that wait for others."""
        return sum(map(self._buffer.size, self._buffer.partitions()))

    def _take(self) -> list[tuple[TopicPartition, RecordColumns]]:
        if not self._buffer:
            return []
        partitions = self._reader.open_partitions()
        buffer = self._buffer
        bound = buffer.bound_of(partitions)
        if bound is None:
            return buffer.take(None)
        expired = buffer.expired_bound(self._clock.now_ms() - self._wait_ms)
        if expired is not None and expired > bound:
            certain = buffer.bound_of(tp for tp, is_certain in partitions.items() if is_certain)
            bound = expired if certain is None else max(bound, min(expired, certain))
        return buffer.take(bound)

    def _hold(self) -> None:
        """Hold the partitions that are ahead of the others, and release those whose records were returned."""
        limit = self._partition_bytes()
        for tp in [tp for tp in self._held if self._buffer.size(tp) < limit // 2]:
            self._held.discard(tp)
            self._reader.hold(tp, held=False)
        for tp in self._buffer.partitions() - self._held:
            if self._buffer.size(tp) >= limit:
                self._held.add(tp)
                self._reader.hold(tp, held=True)

    # --- coverage

    def coverage(self) -> list[PartitionCoverage]:
        """Return the coverage of every requested partition, up to the first record that was not returned."""
        waiting = self._buffer.first_offsets()
        return [part.cut_at(waiting[part.tp]) if part.tp in waiting else part for part in self._reader.coverage()]

    def positions(self) -> dict[TopicPartition, FetchPosition]:
        """Return the position of each resolved partition: all records before it were returned."""
        waiting = {tp: FetchPosition(offset) for tp, offset in self._buffer.first_offsets().items()}
        return {**self._reader.positions(), **waiting}

    def followed(self) -> dict[TopicPartition, bool]:
        """Return the followed partitions, each with whether it was returned to the log end."""
        return {tp: at_end and not self._buffer.size(tp) for tp, at_end in self._reader.followed().items()}

    def retry_states(self) -> dict[TopicPartition, RetryState]:
        """Return the failures of the followed partitions for which nothing arrives."""
        return self._reader.retry_states()

    def close(self) -> None:
        """Stop fetching. The client stays open."""
        self._reader.close()
