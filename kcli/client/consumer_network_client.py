"""Requests from anywhere, answered by whoever polls: the unsent buffer, futures, wake-up, and one lock.

`send` only queues. A `poll` hands what is queued to connections that can take it, waits for the network, and settles
the futures of what is over, the latter without holding the lock. Several threads may send and poll; one that
must not run the listeners of others' futures `serve`s instead.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from kcli.client.api_versions import Versions
from kcli.client.backoff import Backoff
from kcli.client.config import ClientConfig
from kcli.client.in_flight import Unsent, UnsentRequests
from kcli.client.metadata import Cluster, Metadata
from kcli.client.network_client import Completion, NetworkClient
from kcli.client.request_future import RequestFuture
from kcli.clock import Clock
from kcli.error_codes import ErrorCode
from kcli.errors import DisconnectedError, KcliError, TimeoutExpired, WakeupError
from kcli.protocol.wire import Request
from kcli.structs import Node

T = TypeVar("T")
R = TypeVar("R")

_UNKNOWN_TOPIC_PATIENCE_MS = 500


class ConsumerNetworkClient:
    """What consumers, producers and admins talk to. Times are milliseconds; deadlines are on `clock`."""

    def __init__(
        self,
        network: NetworkClient,
        metadata: Metadata,
        config: ClientConfig,
        clock: Clock,
        retry_backoff: Backoff,
    ) -> None:
        self.metadata = metadata
        self.retry_backoff = retry_backoff
        self.config = config
        self.clock = clock
        self._network = network
        self._unsent = UnsentRequests()
        self._parked: deque[Completion] = deque()
        self._lock = FairLock(network.wakeup)
        self._woken = False
        self._has_served = False  # something was settled beside the thread that polls, which has not looked since
        self._closed = False

    def __repr__(self) -> str:
        in_flight = self._network.in_flight_count()
        return f"<ConsumerNetworkClient {self._unsent.count()} unsent, {in_flight} in flight, {self.metadata!r}>"

    def __enter__(self) -> ConsumerNetworkClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Sending and waiting

    def send(
        self,
        node: Node,
        request: Request[R],
        *,
        timeout_ms: float | None = None,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> RequestFuture[R]:
        """Queue a request; the future gets the response message, or why there is none.

        It fails with DisconnectedError when the node cannot be reached, is lost, or does not answer in `timeout_ms`
        (default request.timeout.ms; the connection is then given up), with UnsupportedVersion when there is no common
        version (between `min_version` and `max_version`), with ProtocolError when the answer is unreadable. Produce
        with acks=0 succeeds with None when it is written.
        """
        now_ms = self.clock.now_ms()
        timeout_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        future: RequestFuture[R] = RequestFuture(f"{type(request).__name__.removesuffix('Request')} from {node}")
        entry = Unsent(node, request, future, now_ms + timeout_ms, min_version, max_version)
        self._unsent.put(entry)
        if self._lock.held_by_another_thread():
            self._network.wakeup()
        return future

    def poll(self, *, until: RequestFuture[Any] | None = None, timeout_ms: float) -> bool:
        """Drive the network until `until` is done (True) or the time is over (False).

        Without `until`: True as soon as anything has happened, a request over or metadata answered, be it beside this
        thread. WakeupError after `wakeup`. At least one round is done, so 0 takes what is there.
        """
        deadline_ms = self.clock.now_ms() + timeout_ms
        outcomes = self.metadata.outcomes
        while True:
            if until is not None and until.done:
                return True
            self._raise_if_woken()
            happened = self._round(deadline_ms, until)
            if until is None and (happened or self._has_served or self.metadata.outcomes != outcomes):
                self._has_served = False
                return True
            if self.clock.now_ms() >= deadline_ms:
                return until is not None and until.done

    def serve(self, awaited: RequestFuture[Any], timeout_ms: float) -> None:
        """One round for the sake of `awaited`, by a thread beside the one that polls.

        Nothing else is settled here: what is over besides waits for the other thread's next poll, and so does `wakeup`.
        """
        self._round(self.clock.now_ms() + timeout_ms, awaited, beside=True)
        if awaited.done:
            # Whoever polls may be asleep by now, or about to be, without knowing what this answer has changed.
            self._has_served = True
            self._network.wakeup()

    @property
    def is_polled_by_another_thread(self) -> bool:
        """Somebody else is driving the network at this moment."""
        return self._lock.held_by_another_thread()

    def wait(self, future: RequestFuture[T], deadline_ms: float, *, awaited: str = "", node: Node | None = None) -> T:
        """The value of `future`, or its error; TimeoutExpired says what was awaited and what is known to be wrong."""
        if not self.poll(until=future, timeout_ms=max(0.0, deadline_ms - self.clock.now_ms())):
            raise self.timed_out(awaited or future.label, node)
        return future.value()

    def sleep(self, timeout_ms: float) -> None:
        """Let time pass while the network goes on."""
        self.poll(until=RequestFuture(), timeout_ms=timeout_ms)

    def attempts(self, deadline_ms: float) -> Iterator[int]:
        """Yield 0, 1, 2, ... with a growing pause (retry.backoff.ms) before each but the first, until the deadline.

        There is always a first attempt. A caller that succeeds leaves the loop; the loop ends when the deadline passed.
        """
        attempt = 0
        while attempt == 0 or self.clock.now_ms() < deadline_ms:
            yield attempt
            attempt += 1
            self.sleep(min(self.retry_backoff.after(attempt), max(0.0, deadline_ms - self.clock.now_ms())))

    def timed_out(self, awaited: str, node: Node | None = None, last: KcliError | None = None) -> TimeoutExpired:
        """The error for a deadline that passed while waiting for `awaited`, from `node` if it matters which.

        It tells what is known to be wrong: the connection that does not stand, else the `last` error seen.
        """
        with self._lock:
            trouble = explain_trouble(self.metadata, self._network.trouble, node)
        what = trouble or (last.message if last is not None else f"no answer to {awaited} in time")
        return TimeoutExpired(what, awaited=awaited)

    # Metadata

    def ensure_fresh_metadata(self, deadline_ms: float) -> Cluster:
        """Ask a broker now and return the cluster with the topics wanted so far."""
        self._await_metadata(self.metadata.request_update(at_once=True), deadline_ms)
        return self.metadata.cluster

    def topics_metadata(self, topics: Iterable[str] | None, deadline_ms: float) -> Cluster:
        """Ask for these topics, or for all (None). A topic's error is data: TopicInfo.error.

        What may be a delay is asked for again after the backoff: a topic that has no leaders yet until the deadline, a
        topic that is unknown for half a second, since brokers hear of a new one a little after its creator.
        """
        names = None if topics is None else list(topics)
        self.metadata.add_topics(names or ())
        self._await_metadata(self.metadata.request_update(at_once=True, all_topics=names is None), deadline_ms)
        patient_until_ms = self.clock.now_ms() + _UNKNOWN_TOPIC_PATIENCE_MS
        while _may_be_a_delay(self.metadata.cluster, names or (), self.clock.now_ms() < patient_until_ms):
            try:
                self._await_metadata(self.metadata.request_update(), deadline_ms)
            except TimeoutExpired:
                break
        return self.metadata.cluster

    def _await_metadata(self, ticket: int, deadline_ms: float) -> None:
        metadata = self.metadata
        while not metadata.is_answered(ticket):
            left_ms = deadline_ms - self.clock.now_ms()
            if left_ms <= 0:
                raise self.timed_out("metadata")
            self.poll(timeout_ms=left_ms)
            error = metadata.failure_of(ticket)
            if error is not None and not error.retriable:
                raise error

    # Nodes

    def least_loaded_node(self) -> Node | None:
        """The node to ask what any node can answer; None while all of them were lost a moment ago."""
        with self._lock:
            return self._network.least_loaded_node(self.clock.now_ms())

    def is_unavailable(self, node: Node) -> bool:
        """The node was lost and is left alone for a while: a request to it would fail at once."""
        with self._lock:
            in_backoff = self._network.delay_ms(node.id, self.clock.now_ms()) > 0
            return in_backoff and self._network.failure(node.id) is not None

    def has_in_flight(self, node: Node) -> bool:
        """Requests to `node` are queued or unanswered."""
        return self._network.in_flight_count(node.id) + self._unsent.count(node.id) > 0

    @property
    def pending_count(self) -> int:
        """Requests queued or unanswered, the client's own questions included."""
        return self._unsent.count() + self._network.in_flight_count()

    def negotiated(self, node_id: int) -> Versions | None:
        """API key -> lowest and highest version the node speaks; None while it is not connected."""
        with self._lock:
            return self._network.negotiated(node_id)

    def disconnect(self, node: Node) -> None:
        """Close the connection; its requests fail at the next poll."""
        with self._lock:
            self._network.disconnect(node.id, f"disconnected from {node} by request")

    def wakeup(self) -> None:
        """From any thread: make the poll under way, or else the next one, raise WakeupError."""
        self._woken = True
        self._network.wakeup()

    def close(self) -> None:
        """Close all connections. What is unanswered stays so."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._network.close()

    # One round of the loop

    def _round(self, deadline_ms: float, until: RequestFuture[Any] | None, *, beside: bool = False) -> bool:
        with self._lock:
            if until is not None and until.done:  # by another thread that held the lock until now
                return True
            over = self._send_unsent() + self._fail_unsent()
            if not beside:
                over += self._take_parked()
            now_ms = self.clock.now_ms()
            urgent = over or (self._woken and not beside) or (self._has_served and until is None)
            wait_ms = 0.0 if urgent else min(deadline_ms, self._next_event_ms(now_ms)) - now_ms
            over += self._network.poll(max(0.0, wait_ms))
            over += self._fail_unsent() + self._send_unsent()
            if beside:  # parked before the lock is free: whoever polls next finds them
                self._parked.extend(completion for completion in over if completion.future is not until)
                over = [completion for completion in over if completion.future is until]
        for completion in over:
            completion.settle()
        return bool(over)

    def _take_parked(self) -> list[Completion]:
        return [self._parked.popleft() for _ in range(len(self._parked))]

    def _send_unsent(self) -> list[Completion]:
        """Hand over what connections can take, begin those that are missing, and give up what is too late."""
        now_ms = self.clock.now_ms()
        self._unsent.sort_in()
        for node in self._unsent.nodes():
            while self._network.ready(node, now_ms) and (entry := self._unsent.take_oldest(node.id)) is not None:
                self._network.send(
                    node,
                    entry.request,
                    entry.future,
                    now_ms,
                    deadline_ms=entry.deadline_ms,
                    min_version=entry.min_version,
                    max_version=entry.max_version,
                )
        return [Completion(entry.future, error=_too_late(entry)) for entry in self._unsent.take_expired(now_ms)]

    def _fail_unsent(self) -> list[Completion]:
        """Give up what waits for nodes whose connection was lost or refused."""
        over = []
        for node in self._unsent.nodes():
            reason = self._network.failure(node.id)
            if reason is not None:
                over += [
                    Completion(entry.future, error=_lost(entry, reason)) for entry in self._unsent.take_all(node.id)
                ]
        return over

    def _next_event_ms(self, now_ms: float) -> float:
        """When the unsent requests need attention though nothing happens on the network."""
        delays = (self._network.delay_ms(node.id, now_ms) for node in self._unsent.nodes())
        return min(self._unsent.next_deadline_ms(), now_ms + min(delays, default=float("inf")))

    def _raise_if_woken(self) -> None:
        if self._woken:
            self._woken = False
            raise WakeupError("the poll was woken up")


def _lost(entry: Unsent, reason: str) -> DisconnectedError:
    return DisconnectedError(reason, node=entry.node.id, api=type(entry.request).__name__.removesuffix("Request"))


def _may_be_a_delay(cluster: Cluster, names: Iterable[str], patient: bool) -> bool:
    errors = {cluster.topics[name].error for name in names if name in cluster.topics}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in errors
    return (unknown and patient) or ErrorCode.LEADER_NOT_AVAILABLE in errors


def _too_late(entry: Unsent) -> TimeoutExpired:
    return TimeoutExpired(f"{entry.future.label} could not be sent in time", node=entry.node.id)


class FairLock:
    """Who waits gets it next, even if the holder comes back at once, as a polling loop does. Not reentrant.

    `nudge` makes a holder that sleeps inside let go.
    """

    def __init__(self, nudge: Callable[[], None]) -> None:
        self._nudge = nudge
        self._turn = threading.Lock()  # held while waiting: the holder that comes back queues up behind
        self._held = threading.Lock()
        self._holder: int | None = None

    def __enter__(self) -> None:
        with self._turn:
            if not self._held.acquire(blocking=False):
                self._nudge()
                self._held.acquire()
        self._holder = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._holder = None
        self._held.release()

    def held_by_another_thread(self) -> bool:
        return self._holder is not None and self._holder != threading.get_ident()


def explain_trouble(metadata: Metadata, last_error: Callable[[int], str | None], node: Node | None = None) -> str:
    """What keeps us from `node`, or from all nodes; "" when nothing is known to be wrong.

    A broker that answered at a bootstrap address may advertise another address that cannot be reached from here: that
    is told apart, since it is mended in the broker's `advertised.listeners`, not here.
    """
    suspects = [node] if node is not None else list(metadata.cluster.nodes.values())
    failures = _failures(suspects, last_error)
    if metadata.is_bootstrap or all(n.id < 0 for n, _ in failures):
        failures = failures or _failures(metadata.bootstrap.values(), last_error)
    if failures:
        if metadata.update_version and failures[0][0].id >= 0:
            return _advertised(failures)
        return "no broker answered at " + _listed(failures)
    if metadata.error is not None:
        return f"the cluster cannot be described: {metadata.error}"
    return ""


def _failures(nodes: Iterable[Node], last_error: Callable[[int], str | None]) -> list[tuple[Node, str]]:
    return [(node, reason) for node in nodes if (reason := last_error(node.id)) is not None]


def _advertised(failures: list[tuple[Node, str]]) -> str:
    return "; ".join(
        f"node {node.id}, which the cluster advertises as {_address(node)}, cannot be reached: {reason}"
        for node, reason in failures
    )


def _listed(failures: list[tuple[Node, str]]) -> str:
    if len(failures) == 1:
        node, reason = failures[0]
        return f"{_address(node)}: {reason}"
    return ", ".join(f"{_address(node)} ({reason})" for node, reason in failures)


def _address(node: Node) -> str:
    return f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"
