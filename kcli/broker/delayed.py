"""Fetches that wait for records, and produces that wait for replicas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.pending import Pending
from kcli.broker.purgatory import DelayedOperation
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.partition import FetchWanted, PartitionRead
    from kcli.broker.replica_manager import ReplicaManager


class FetchParams(NamedTuple):
    """What bounds a Fetch as a whole."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool = False


class FetchTarget(NamedTuple):
    """One wanted partition with its name; None when the id or the name was not known when the fetch came."""

    wanted: FetchWanted
    tp: TopicPartition | None
    unknown: ErrorCode = ErrorCode.NONE


class ProduceOutcome(NamedTuple):
    """What became of one partition's batch. `last_offset` is where it ended; -1 everywhere when it was refused."""

    error: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    last_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[tuple[int, str], ...] = ()
    message: str | None = None


def shared_deadline_ms(now_ms: float, wait_ms: int) -> float:
    """When a fetch has waited `wait_ms`, or at most a hundredth later, with others that are due about then.

    Idle consumers come in hundreds, each with a long poll of its own: waking up for several at once costs less.
    """
    grain_ms = max(1.0, wait_ms / 100)
    return math.ceil((now_ms + wait_ms) / grain_ms) * grain_ms


class DelayedFetch(DelayedOperation):
    """Answered with what there is when enough is there, when waiting is pointless, or at its deadline."""

    def __init__(
        self,
        deadline_ms: float,
        manager: ReplicaManager,
        params: FetchParams,
        targets: Sequence[FetchTarget],
        reads: list[PartitionRead],
    ) -> None:
        """`reads` is what there was when it came; nothing has happened since when only its time is up."""
        super().__init__(deadline_ms)
        self.answer: Pending[list[PartitionRead]] = Pending()
        self._manager = manager
        self._params = params
        self._targets = targets
        self._reads = reads
        self._tries = 0

    def try_complete(self) -> bool:
        """Kafka's rules: a partition that is not led any more, unknown, offline, fenced, cut, or read in an older
        segment completes it; else the bytes to be had must reach `min_bytes`.
        """
        self._tries += 1
        available = 0
        for (wanted, tp, _), read in zip(self._targets, self._reads, strict=True):
            start = read.start
            if tp is None or start is None:
                continue
            try:
                partition = self._manager.partition_or_error(tp)
            except BrokerError:
                return self.complete()
            size = partition.bytes_to_read(wanted, start, read_committed=self._params.read_committed)
            if size is None:
                return self.complete()
            available += size
            if available >= self._params.min_bytes:
                return self.complete()
        return False

    def on_complete(self) -> None:
        is_as_it_was = self._tries <= 1  # once before it was parked, and never again
        self.answer.complete(self._reads if is_as_it_was else self._manager.read(self._params, self._targets))


class DelayedProduce(DelayedOperation):
    """Answered when every partition's batch is on all in-sync replicas, or at the deadline with 7 for the others."""

    def __init__(
        self, deadline_ms: float, manager: ReplicaManager, outcomes: dict[TopicPartition, ProduceOutcome]
    ) -> None:
        super().__init__(deadline_ms)
        self.answer: Pending[dict[TopicPartition, ProduceOutcome]] = Pending()
        self._manager = manager
        self._outcomes = outcomes
        self._unacknowledged = [tp for tp, outcome in outcomes.items() if not outcome.error]

    def try_complete(self) -> bool:
        self._unacknowledged = [tp for tp in self._unacknowledged if not self._is_settled(tp)]
        return not self._unacknowledged and self.complete()

    def on_expire(self) -> None:
        for tp in self._unacknowledged:
            self._fail(tp, ErrorCode.REQUEST_TIMED_OUT)

    def on_complete(self) -> None:
        self.answer.complete(self._outcomes)

    def _is_settled(self, tp: TopicPartition) -> bool:
        try:
            partition = self._manager.partition_or_error(tp)
            partition.check_leader()
        except BrokerError as gone:
            self._fail(tp, gone.code)
            return True
        return partition.log.high_watermark > self._outcomes[tp].last_offset

    def _fail(self, tp: TopicPartition, code: ErrorCode) -> None:
        self._outcomes[tp] = ProduceOutcome(code)
