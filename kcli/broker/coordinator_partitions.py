"""Coordinators that move: a node coordinates the keys of the partitions of an internal topic that it leads.

The topic is __consumer_offsets for groups and __transaction_state for transactional ids; a key is the id of either.

A partition is loaded when this node becomes its leader: its log is read in sections, between which the loop serves
other requests, and until the end its keys are answered with COORDINATOR_LOAD_IN_PROGRESS (14). When the leadership is
lost, its keys leave the memory at once, and requests that wait get NOT_COORDINATOR (16). A new epoch of the same
leader changes nothing, because its memory is what its log says.

Every answer waits until the high watermark covers what is in the log when the answer is made, because the memory may
hold more than what is replicated: an offset that was read here must not be an older one at the next coordinator. The
wait ends after a timeout with COORDINATOR_NOT_AVAILABLE (15). So does Apache Kafka's coordinator, except that its
OffsetFetch reads the replicated state at once.

A broker alone leads every partition from its creation to its deletion, and its high watermark is the log end. It loads
what it leads at its start before it serves clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from kcli.broker.coordinator_log import coordinator_error, key_hash
from kcli.broker.purgatory import DelayedOperation
from kcli.broker.serving.pending import Pending
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.cluster.view import ClusterView
    from kcli.broker.partition import Partition
    from kcli.broker.replica_manager import ReplicaManager
    from kcli.broker.serving.timer import Timer
    from kcli.clock import Clock

R = TypeVar("R")

_RETRY_MS = 100.0


class CoordinatorPartitions:
    """The partitions of a coordinator's topic that this node leads: loading, or loaded.

    `load(number)` reads a partition into the memory and yields after each section; `unload(belongs)` drops the keys for
    which `belongs(key)` is true.
    """

    def __init__(
        self,
        topic: str,
        load: Callable[[int], Iterator[None]],
        unload: Callable[[Callable[[str], bool]], None],
        cluster: ClusterView,
        replica_manager: ReplicaManager,
        timer: Timer,
        clock: Clock,
        *,
        timeout_ms: int,
    ) -> None:
        self.topic = topic
        self._load = load
        self._unload = unload
        self._cluster = cluster
        self._replica_manager = replica_manager
        self._timer = timer
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._loading: dict[int, Iterator[None]] = {}
        self._loaded: set[int] = set()
        # The number of partitions of the topic, by which the keys in memory are distributed.
        self._count = 1

    def __repr__(self) -> str:
        return f"<CoordinatorPartitions {self.topic} {len(self._loaded)} loaded, {len(self._loading)} loading>"

    @property
    def is_loading(self) -> bool:
        """True while a partition is not completely loaded."""
        return bool(self._loading)

    # ---- leadership ----

    def load_led(self) -> None:
        """Load the partitions that this node leads already."""
        topic = self._cluster.topics.get(self.topic)
        for number in topic.partitions if topic else ():
            partition = self._replica_manager.partition(TopicPartition(self.topic, number))
            if partition is not None and partition.is_leader:
                self.on_leadership(number, partition.leader_epoch)

    def finish_loading(self) -> None:
        """Read the rest of the partitions at once, because no client is served yet."""
        for number, load in list(self._loading.items()):
            while self._loading.get(number) is load:
                self._load_section(number, load)

    def on_leadership(self, number: int, leader_epoch: int | None) -> None:
        """Load a partition of which this node is the leader now; with None: unload it."""
        if leader_epoch is None:
            self._drop(number)
        elif number not in self._loaded and number not in self._loading:
            topic = self._cluster.topics.get(self.topic)
            self._count = max(1, len(topic.partitions) if topic else 1)
            self._loading[number] = self._load(number)
            self._continue(number, self._loading[number])

    def _continue(self, number: int, load: Iterator[None]) -> None:
        """Read the next section of the log; the others follow between the iterations of the loop."""
        if self._loading.get(number) is load:  # it was not unloaded meanwhile
            self._load_section(number, load)
        if self._loading.get(number) is load:
            self._timer.call_at(self._clock.now_ms(), lambda: self._continue(number, load))

    def _load_section(self, number: int, load: Iterator[None]) -> None:
        try:
            next(load)
        except StopIteration:
            del self._loading[number]
            self._loaded.add(number)
        except OSError as error:
            self._replica_manager.offline(TopicPartition(self.topic, number), error)
            again = self._loading[number] = self._load(number)  # there may have been no descriptors
            self._timer.call_at(self._clock.now_ms() + _RETRY_MS, lambda: self._continue(number, again))

    def _drop(self, number: int) -> None:
        self._loading.pop(number, None)
        if number in self._loaded:
            self._loaded.remove(number)
            count = self._count
            self._unload(lambda key: key_hash(key) % count == number)

    # ---- requests ----

    def partition_of(self, key: str) -> TopicPartition:
        """Return the partition whose leader coordinates the key."""
        return TopicPartition(self.topic, key_hash(key) % self._count)

    def error_of(self, key: str) -> ErrorCode:
        """Return NONE if the key is coordinated here, 14 while it is loaded, else 16."""
        return self.error_of_partition(key_hash(key) % self._count)

    def error_of_partition(self, number: int) -> ErrorCode:
        """Return NONE if the keys of this partition are coordinated here, 14 while they are loaded, else 16."""
        if number in self._loaded:
            return ErrorCode.NONE
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if number in self._loading else ErrorCode.NOT_COORDINATOR

    def when_replicated(
        self, key: str, answer: R | Pending[R], refuse: Callable[[ErrorCode], R], *, timeout_ms: int | None = None
    ) -> R | Pending[R]:
        """Return the answer of a request about a key when the log that it is based on is replicated.

        If that fails, return `refuse(code)` instead: 15 after the timeout (`timeout_ms` or that of all
        requests), 16 after the leadership was lost.
        """
        if not isinstance(answer, Pending):
            return self._wait(key, answer, refuse, timeout_ms)
        if answer.is_done:
            return self._wait(key, answer.value, refuse, timeout_ms)
        replicated: Pending[R] = Pending()

        def wait(value: R) -> None:
            outcome = self._wait(key, value, refuse, timeout_ms)
            if isinstance(outcome, Pending):
                outcome.on_done(replicated.complete)
            else:
                replicated.complete(outcome)

        answer.on_done(wait)
        return replicated

    def _wait(self, key: str, answer: R, refuse: Callable[[ErrorCode], R], timeout_ms: int | None) -> R | Pending[R]:
        tp = self.partition_of(key)
        manager = self._replica_manager
        partition = manager.partition(tp)
        end = 0
        if partition is not None:
            end = partition.log.log_end_offset
            if partition.is_leader and partition.log.high_watermark == end and manager.log_manager.failed is None:
                return answer
        deadline_ms = self._clock.now_ms() + (self._timeout_ms if timeout_ms is None else timeout_ms)
        waiting = DelayedAnswer(deadline_ms, tp, end, manager.partition_or_error)
        if manager.produces.try_complete_else_watch(waiting, [tp]):
            error = waiting.outcome.value
            return refuse(error) if error else answer
        replicated: Pending[R] = Pending()
        waiting.outcome.on_done(lambda error: replicated.complete(refuse(error) if error else answer))
        return replicated


class DelayedAnswer(DelayedOperation):
    """An answer that waits until the high watermark of a partition has reached `end`. `outcome`: its error."""

    def __init__(
        self, deadline_ms: float, tp: TopicPartition, end: int, find_partition: Callable[[TopicPartition], Partition]
    ) -> None:
        super().__init__(deadline_ms)
        self.outcome: Pending[ErrorCode] = Pending()
        self._tp = tp
        self._end = end
        self._find_partition = find_partition
        self._error = ErrorCode.NONE

    def try_complete(self) -> bool:
        try:
            partition = self._find_partition(self._tp)
            partition.check_leader()
        except BrokerError as error:
            self._error = coordinator_error(error.code)
            return self.complete()
        return partition.log.high_watermark >= self._end and self.complete()

    def on_expire(self) -> None:
        self._error = coordinator_error(ErrorCode.REQUEST_TIMED_OUT)

    def on_complete(self) -> None:
        self.outcome.complete(self._error)
