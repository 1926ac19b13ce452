"""Fetches that wait for records, and produces that wait for replicas (KIP-74, KIP-227).

Both are `DelayedOperation`s of the `ReplicaManager`'s purgatories. They reach partitions through two functions of the
manager, so that this module does not depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.purgatory import DelayedOperation
from kcli.broker.serving.pending import Pending
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.partition import FetchParams, Partition, PartitionFetch, PartitionRead


class FetchTarget(NamedTuple):
    """One requested partition and its name; `tp` is None if the topic id or name was unknown when the request came."""

    requested: PartitionFetch
    tp: TopicPartition | None
    unknown: ErrorCode = ErrorCode.NONE


class ProduceOutcome(NamedTuple):
    """The result of one partition's batch. Offsets are inclusive, and -1 if the batch was not appended."""

    error: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    last_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[tuple[int, str], ...] = ()
    message: str | None = None


#: Returns the partition of that name; raises BrokerError if it is unknown or its disk is offline.
FindPartition = Callable[[TopicPartition], "Partition"]


def shared_deadline_ms(now_ms: float, wait_ms: int) -> float:
    """Return a deadline `wait_ms` from now, rounded up by at most 10 ms or 1% so that several fetches share it.

    Hundreds of idle consumers have long polls of their own; one wakeup for several of them costs less.
    """
    grain_ms = max(1.0, min(10.0, wait_ms / 50), wait_ms / 100)
    return math.ceil((now_ms + wait_ms) / grain_ms) * grain_ms


class DelayedFetch(DelayedOperation):
    """A Fetch that is answered when `min_bytes` are available, when waiting is pointless, or at its deadline."""

    def __init__(
        self,
        deadline_ms: float,
        params: FetchParams,
        targets: Sequence[FetchTarget],
        reads: list[PartitionRead],
        *,
        find_partition: FindPartition,
        read: Callable[[FetchParams, Sequence[FetchTarget]], list[PartitionRead]],
        is_throttled: Callable[[TopicPartition, int], bool],
    ) -> None:
        """`reads` is the result of the first read. It is still the answer if only the deadline passes.

        `is_throttled(tp, replica)` is True for partitions of which a replica gets nothing now.
        """
        super().__init__(deadline_ms)
        self.outcome: Pending[list[PartitionRead]] = Pending()
        self.params = params
        self.targets = targets
        self.reads = reads
        self.is_unchanged = True  # until it is tried after it was parked
        self._is_parked = False
        self._find_partition = find_partition
        self._read = read
        self._is_throttled = is_throttled

    def try_complete(self) -> bool:
        """Complete by Kafka's rules.

        A partition completes the fetch if it is no longer led here, unknown, offline, fenced, truncated, or read in an
        older segment than the active one. Otherwise the available bytes must reach `min_bytes`. A throttled partition
        has no bytes, in older segments either.
        """
        self.is_unchanged = not self._is_parked
        self._is_parked = True
        available = 0.0
        for (requested, tp, _), read in zip(self.targets, self.reads, strict=True):
            start = read.start
            if tp is None or start is None:
                continue
            try:
                partition = self._find_partition(tp)
            except BrokerError:
                return self.complete()
            size = partition.bytes_to_read(requested, start, self.params)
            if size is None:
                return self.complete()
            replica_id = self.params.replica_id
            if size and replica_id >= 0 and self._is_throttled(tp, replica_id):
                continue
            available += size
            if available >= self.params.min_bytes:
                return self.complete()
        return False

    def on_complete(self) -> None:
        self.outcome.complete(self.reads if self.is_unchanged else self._read(self.params, self.targets))

    def again(self, deadline_ms: float) -> DelayedFetch:
        """Return the same fetch with another deadline, to be parked without a try because nothing has changed."""
        fetch = DelayedFetch(
            deadline_ms,
            self.params,
            self.targets,
            self.reads,
            find_partition=self._find_partition,
            read=self._read,
            is_throttled=self._is_throttled,
        )
        fetch._is_parked = True
        return fetch


class DelayedProduce(DelayedOperation):
    """A Produce with acks=all, answered when all in-sync replicas have every batch, or at its deadline.

    Partitions that are not replicated by the deadline get REQUEST_TIMED_OUT; replicated ones of which too few replicas
    are in sync by then get NOT_ENOUGH_REPLICAS_AFTER_APPEND. An error keeps the offset of the appended batch, by which
    a producer knows that the batch may be stored.
    """

    def __init__(
        self, deadline_ms: float, outcomes: dict[TopicPartition, ProduceOutcome], *, find_partition: FindPartition
    ) -> None:
        super().__init__(deadline_ms)
        self.outcome: Pending[dict[TopicPartition, ProduceOutcome]] = Pending()
        self._find_partition = find_partition
        self._outcomes = outcomes
        self._unacknowledged = [tp for tp, outcome in outcomes.items() if not outcome.error]

    def try_complete(self) -> bool:
        self._unacknowledged = [tp for tp in self._unacknowledged if not self._is_decided(tp)]
        return not self._unacknowledged and self.complete()

    def on_expire(self) -> None:
        for tp in self._unacknowledged:
            self._fail(tp, ErrorCode.REQUEST_TIMED_OUT)

    def on_complete(self) -> None:
        self.outcome.complete(self._outcomes)

    def _is_decided(self, tp: TopicPartition) -> bool:
        try:
            partition = self._find_partition(tp)
            partition.check_leader()
        except BrokerError as error:
            self._fail(tp, error.code)
            return True
        if partition.log.high_watermark <= self._outcomes[tp].last_offset:
            return False
        if partition.is_under_min_isr:
            self._fail(tp, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return True

    def _fail(self, tp: TopicPartition, code: ErrorCode) -> None:
        self._outcomes[tp] = self._outcomes[tp]._replace(error=code)


class DelayedDeleteRecords(DelayedOperation):
    """A DeleteRecords that is answered when all live replicas start at the requested offsets, or at its deadline.

    The outcome is an error and the low watermark (-1 with an error) of each partition. Partitions that are not done by
    the deadline get REQUEST_TIMED_OUT and the low watermark from before the wait.
    """

    def __init__(
        self,
        deadline_ms: float,
        offsets: dict[TopicPartition, int],
        outcomes: dict[TopicPartition, tuple[ErrorCode, int]],
        *,
        find_partition: FindPartition,
    ) -> None:
        """`offsets` are the new log start offsets; `outcomes` has the partitions that were refused."""
        super().__init__(deadline_ms)
        self.outcome: Pending[dict[TopicPartition, tuple[ErrorCode, int]]] = Pending()
        self._find_partition = find_partition
        self._outcomes = outcomes
        self._waiting = offsets
        self._first_low_watermarks: dict[TopicPartition, int] = {}

    def try_complete(self) -> bool:
        self._waiting = {tp: offset for tp, offset in self._waiting.items() if not self._is_decided(tp, offset)}
        return not self._waiting and self.complete()

    def on_expire(self) -> None:
        for tp in self._waiting:
            self._outcomes[tp] = ErrorCode.REQUEST_TIMED_OUT, self._first_low_watermarks[tp]

    def on_complete(self) -> None:
        self.outcome.complete(self._outcomes)

    def _is_decided(self, tp: TopicPartition, offset: int) -> bool:
        try:
            partition = self._find_partition(tp)
            partition.check_leader()
        except BrokerError as error:
            self._outcomes[tp] = error.code, -1
            return True
        low_watermark = partition.low_watermark
        self._first_low_watermarks.setdefault(tp, low_watermark)
        if low_watermark < offset:
            return False
        self._outcomes[tp] = ErrorCode.NONE, low_watermark
        return True
