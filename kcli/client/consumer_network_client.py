"""`ConsumerNetworkClient`: queued requests, futures, deadlines, metadata and wake-up, for any number of threads.

`send` only queues. `poll` passes queued requests to connections that are ready, waits for the network, and completes
the futures of ended requests, the last without holding the lock. Several threads may send and poll; a thread that must
not run the listeners of other threads' futures calls `serve` instead.

One thread at a time waits for the network, for all; it has the `PollPermit`. Another thread that calls `poll` waits
for the permit or for its own future, and interrupts the network wait only once. If threads took the network from each
other, they would do nothing else while a broker is silent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from kcli import forks
from kcli.client.backoff import Backoff
from kcli.client.config import ClientConfig
from kcli.client.connection.api_versions import Versions
from kcli.client.connection.connections import address_of
from kcli.client.connection.in_flight import Unsent, UnsentRequests
from kcli.client.connection.network_client import Completion, NetworkClient
from kcli.client.metadata import Cluster, Metadata
from kcli.client.poll_permit import FairLock, PollPermit
from kcli.client.request_future import RequestFuture
from kcli.clock import Clock
from kcli.error_codes import ErrorCode
from kcli.errors import DisconnectedError, KcliError, Refused, TimeoutExpired, WakeupError
from kcli.protocol.registry import READING
from kcli.protocol.wire import Request
from kcli.structs import ANONYMOUS, Node, TopicPartition

T = TypeVar("T")
R = TypeVar("R")

_UNKNOWN_TOPIC_PATIENCE_MS = 500


class ConsumerNetworkClient:
    """The client of consumers, producers and admins. Times are milliseconds; deadlines are times of `clock`."""

    def __init__(
        self,
        network: NetworkClient,
        metadata: Metadata,
        config: ClientConfig,
        clock: Clock,
        retry_backoff: Backoff,
        *,
        principal: str | None = ANONYMOUS,
    ) -> None:
        #: The process that made the client.
        self.made_in = forks.pid
        self.metadata = metadata
        #: The counts of requests and connections, which consumers and producers complete.
        self.metrics = network.metrics
        #: Called once, when the client is closed.
        self.on_close: Callable[[], object] | None = None
        self.retry_backoff = retry_backoff
        self.config = config
        self.clock = clock
        self._network = network
        #: That of the connections, for the sentences of refusals; None: only the brokers know it.
        self.principal = principal
        self._unsent = UnsentRequests()
        self._completions: deque[Completion] = deque()
        self._lock = FairLock(network.wakeup)
        self._permit = PollPermit(network.wakeup)
        #: The reason for which requests that change the cluster are refused; None: they are sent.
        self.refusal: str | None = None
        self._completed_count = 0
        self._woken = False
        self._ignored_wakeups = 0
        self._has_served = False  # since the last poll without `until`: `serve` completed a future, or an `interrupt`
        self._closed = False

    def __repr__(self) -> str:
        in_flight = self._network.in_flight_count()
        return f"<ConsumerNetworkClient {self._unsent.count()} unsent, {in_flight} in flight, {self.metadata!r}>"

    @property
    def is_forked(self) -> bool:
        """True in a process that was forked from the one that made the client: it is the parent's."""
        forks.notice()
        return self.made_in != forks.pid

    def require_own_process(self) -> None:
        """Raise ForkedClient in a process that was forked from the one that made the client.

        Before any lock: a lock that another thread held at the fork is never released in the child.
        """
        forks.notice()
        forks.require_own_process(self.made_in)

    def __enter__(self) -> ConsumerNetworkClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Requests

    def send(
        self,
        node: Node,
        request: Request[R],
        *,
        timeout_ms: float | None = None,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> RequestFuture[R]:
        """Queue a request and return the future of its response.

        The future fails with DisconnectedError if the node cannot be reached, disconnects, sends a response that cannot
        be decoded, or does not respond in `timeout_ms` (default: request.timeout.ms; in these cases the connection is
        closed), with UnsupportedVersion if there is no common version (between `min_version` and `max_version`), and
        with ProtocolError if the common version cannot carry the request. Produce with acks=0 succeeds with None when
        it is written. Raise Refused for a change of the cluster if there is a `refusal`.
        """
        self.require_own_process()
        if self.refusal is not None:
            _refuse_change(request, self.refusal)
        now_ms = self.clock.now_ms()
        timeout_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        future: RequestFuture[R] = RequestFuture(f"{type(request).__name__.removesuffix('Request')} from {node}")
        entry = Unsent(node, request, future, now_ms + timeout_ms, min_version, max_version)
        self._unsent.put(entry)
        if self._lock.held_by_another_thread():
            self._network.wakeup()
        return future

    def poll(self, *, until: RequestFuture[Any] | None = None, timeout_ms: float) -> bool:
        """Drive the network until `until` is done (return True) or the timeout passes (return False).

        Without `until`, return True after the first completed request or metadata response, also of another thread.
        Raise WakeupError after `wakeup`. With a timeout of 0, take the events that are ready.
        """
        return self._poll(until, timeout_ms, self._changes())

    def _poll(self, until: RequestFuture[Any] | None, timeout_ms: float, before: tuple[int, int]) -> bool:
        """Poll; without `until` return True at once if something has changed since `before`."""
        self.require_own_process()
        clock, deadline_ms = self.clock, self.clock.now_ms() + timeout_ms

        def is_over() -> bool:
            has_changed = until.done if until is not None else self._has_served or self._changes() != before
            return has_changed or self._is_woken

        if until.done if until is not None else self._changes() != before:
            return True
        if self._permit.acquire(is_over, lambda: deadline_ms - clock.now_ms()):
            try:
                self._drive(deadline_ms, until, before)
            finally:
                self._permit.release()
        elif until is None or not until.done:
            self._raise_if_woken()
        if until is not None:
            return until.done
        has_changed, self._has_served = self._has_served or self._changes() != before, False
        return has_changed

    def _drive(self, deadline_ms: float, until: RequestFuture[Any] | None, before: tuple[int, int]) -> None:
        """Poll until `until` is done, without it until something has changed since `before`, or until the deadline."""
        while until is None or not until.done:
            self._raise_if_woken()
            self._poll_once(deadline_ms, until)
            has_changed = until is None and (self._has_served or self._changes() != before)
            if has_changed or self.clock.now_ms() >= deadline_ms:
                return

    def _changes(self) -> tuple[int, int]:
        """Return a value that is another one after a completed request, a metadata response or a refusal."""
        return self._completed_count, self.metadata.outcomes

    def serve(self, awaited: RequestFuture[Any], timeout_ms: float) -> bool:
        """Drive the network once for the future `awaited`, in a thread other than the one that polls.

        No other future is completed here: the others wait for the polling thread, and so does `wakeup`. Return False if
        another thread polls or wants to: this thread has nothing to do then, and must pause before it tries again.
        """
        self.require_own_process()
        if not self._permit.acquire_if_free():
            return False
        try:
            self._poll_once(self.clock.now_ms() + timeout_ms, awaited, serving=True)
        finally:
            self._permit.release()
        if awaited.done:
            # The polling thread may be waiting, and must see the changes that this response made.
            self._has_served = True
            self._network.wakeup()
        return not self._permit.is_wanted

    def wait(self, future: RequestFuture[T], deadline_ms: float, *, awaited: str = "", node: Node | None = None) -> T:
        """Return the value of `future` or raise its error. TimeoutExpired names the response and the known failure."""
        if not self.poll(until=future, timeout_ms=max(0.0, deadline_ms - self.clock.now_ms())):
            raise self.timed_out(awaited or future.label, node)
        return future.value()

    def give_up(self, future: RequestFuture[Any], node: Node) -> bool:
        """Never send the request of a pending future; if it was sent, close its connection. Return whether it was sent.

        A broker answers in order, so that a later request on that connection would wait for the response.
        """
        with self._lock:
            self._unsent.sort_in()
            if self._unsent.take(future) is not None:
                return False
            self._network.disconnect(node.id, f"no response to {future.label} in time")
            return True

    def sleep(self, timeout_ms: float) -> None:
        """Drive the network for `timeout_ms`."""
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
        """Return the error for a deadline that passed while waiting for `awaited`, of `node` or of any.

        Its message is the failed connection that prevented the response, else the `last` error.
        """
        with self._lock:
            cause = _connection_failures(self.metadata, self._network.connection_error, node)
        message = cause or (last.message if last is not None else f"no response to {awaited} in time")
        return TimeoutExpired(message, awaited=awaited)

    # Metadata

    def ensure_fresh_metadata(self, deadline_ms: float) -> Cluster:
        """Request metadata now and return the cluster with the topics added so far."""
        self._await_metadata(self.metadata.request_update(at_once=True), deadline_ms)
        return self.metadata.cluster

    def topics_metadata(
        self,
        topics: Iterable[str] | None,
        deadline_ms: float,
        await_answer: Callable[[int, float], None] | None = None,
    ) -> Cluster:
        """Request these topics, or all (None). The error of a topic is in TopicInfo.error.

        Retried: a topic without leaders, until the deadline; an unknown topic, for half a second, because brokers learn
        of a new topic a little after its creation. `await_answer(ticket, deadline_ms)` waits for a response where
        another thread polls.
        """
        names = None if topics is None else list(topics)
        await_answer = await_answer or self._await_metadata
        self.metadata.add_topics(names or ())
        await_answer(self.metadata.request_update(at_once=True, all_topics=names is None), deadline_ms)
        patient_until_ms = self.clock.now_ms() + _UNKNOWN_TOPIC_PATIENCE_MS
        while _may_be_temporary(self.metadata.cluster, names or (), self.clock.now_ms() < patient_until_ms):
            try:
                await_answer(self.metadata.request_update(), deadline_ms)
            except TimeoutExpired:
                break
        return self.metadata.cluster

    def _await_metadata(self, ticket: int, deadline_ms: float) -> None:
        metadata = self.metadata
        while True:
            before = self._changes()  # another thread may take the response after the next line
            if metadata.is_answered(ticket):
                return
            remaining_ms = deadline_ms - self.clock.now_ms()
            if remaining_ms <= 0:
                raise self.timed_out("metadata")
            self._poll(None, remaining_ms, before)
            self.raise_authentication_error()
            error = metadata.failure_of(ticket)
            if error is not None and not error.retriable:
                raise error

    def leader_error(self, tp: TopicPartition) -> KcliError:
        """Return the reason why the leader of a partition is unknown: that of the cluster, or no broker answers."""
        if self.metadata.is_bootstrap:
            return DisconnectedError(self.timed_out("metadata").message, api="Metadata")
        return self.metadata.leader_error(tp)

    # Nodes

    def least_loaded_node(self) -> Node | None:
        """Return the node for a request that any node can serve; None while all are in backoff."""
        with self._lock:
            return self._network.least_loaded_node(self.clock.now_ms())

    def is_unavailable(self, node: Node) -> bool:
        """Return whether the node was lost and is in backoff, so that a request to it would fail at once."""
        with self._lock:
            in_backoff = self._network.delay_ms(node.id, self.clock.now_ms()) > 0
            return in_backoff and self._network.failure(node.id) is not None

    def authentication_error(self) -> KcliError | None:
        """Return the error of a failed authentication if there is no connection to any node.

        For callers that wait for something other than the future of a request, which fails by itself.
        """
        with self._lock:
            return self._network.refusal()

    def raise_authentication_error(self) -> None:
        """Raise the error of a failed authentication if there is no connection to any node."""
        error = self.authentication_error()
        if error is not None:
            raise error

    def report_secured(self, report: Callable[[str], object]) -> None:
        """Call `report` with a sentence for each new connection with TLS or SASL: how it is secured."""
        self._network.on_secured = report

    @property
    def pending_count(self) -> int:
        """The number of requests that are queued or in flight, including the client's own."""
        return self._unsent.count() + self._network.in_flight_count()

    def negotiated(self, node_id: int) -> Versions | None:
        """Return the lowest and highest version of each API key of a node; None while it is not connected."""
        with self._lock:
            return self._network.negotiated(node_id)

    def finalized_feature(self, name: str) -> int:
        """Return the finalized level of a feature of the cluster, as far as a connected broker has reported it; or 0.

        For example `transaction.version`. A broker reports it at the start of a connection.
        """
        with self._lock:
            return self._network.features.get(name, 0)

    def disconnect(self, node: Node) -> None:
        """Close the connection to a node. Its requests fail at the next poll."""
        with self._lock:
            self._network.disconnect(node.id, f"disconnected from {node} by request")

    def interrupt(self) -> None:
        """Make the current poll without `until`, or else the next one, return. May be called by any thread."""
        self.require_own_process()
        if not self._has_served:
            self._has_served = True
            self._network.wakeup()

    def wakeup(self) -> None:
        """Make the current poll, or else the next one, raise WakeupError. May be called by any thread."""
        self.require_own_process()
        self._woken = True
        self._network.wakeup()

    def forget_wakeup(self) -> None:
        """Withdraw a `wakeup` that has not interrupted a poll. The thread that polls may call it."""
        self._woken = False

    @contextmanager
    def without_wakeups(self) -> Iterator[None]:
        """Let no `wakeup` interrupt the calls inside. One that is pending interrupts the next poll after them."""
        self._ignored_wakeups += 1
        try:
            yield
        finally:
            self._ignored_wakeups -= 1

    def close(self) -> None:
        """Close all connections. Requests in flight do not complete. Safe to call twice.

        In a forked process it does nothing: its copies of the sockets are closed already.
        """
        if self.is_forked:
            return
        with self._lock:
            was_closed = self._closed
            if not self._closed:
                self._closed, self._woken = True, False
                self._network.close()
        if not was_closed and self.on_close is not None:
            self.on_close()

    # One pass of the event loop

    def _poll_once(self, deadline_ms: float, until: RequestFuture[Any] | None, *, serving: bool = False) -> None:
        with self._lock:
            if self._closed:
                raise KcliError("the client is closed")
            completed = self._send_unsent() + self._fail_unsent()
            if not serving:
                completed += self._take_completions()
            now_ms = self.clock.now_ms()
            outcomes = self.metadata.outcomes
            urgent = completed or (self._is_woken and not serving) or (self._has_served and until is None)
            wait_ms = 0.0 if urgent else min(deadline_ms, self._next_event_ms(now_ms)) - now_ms
            completed += self._network.poll(max(0.0, wait_ms))
            completed += self._fail_unsent() + self._send_unsent()
            if serving:  # park the others before the lock is released, for the next poll
                self._completions.extend(completion for completion in completed if completion.future is not until)
                completed = [completion for completion in completed if completion.future is until]
        for completion in completed:
            completion.settle()
        self._completed_count += len(completed)
        if completed or self.metadata.outcomes != outcomes:
            self._permit.notify()

    def _take_completions(self) -> list[Completion]:
        return [self._completions.popleft() for _ in range(len(self._completions))]

    def _send_unsent(self) -> list[Completion]:
        """Send the requests whose nodes are ready, connect to the others, and fail the expired requests."""
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
        return [Completion(entry.future, error=_expired(entry)) for entry in self._unsent.take_expired(now_ms)]

    def _fail_unsent(self) -> list[Completion]:
        """Fail the requests to nodes whose connection was lost or refused."""
        failed = []
        for node in self._unsent.nodes():
            reason, refusal = self._network.failure(node.id), self._network.refusal(node.id)
            if reason is not None:
                failed += [
                    Completion(entry.future, error=refusal or _disconnected(entry, reason))
                    for entry in self._unsent.take_all(node.id)
                ]
        return failed

    def _next_event_ms(self, now_ms: float) -> float:
        """Return the time of the next deadline or end of backoff of an unsent request."""
        delays = (self._network.delay_ms(node.id, now_ms) for node in self._unsent.nodes())
        return min(self._unsent.next_deadline_ms(), now_ms + min(delays, default=float("inf")))

    @property
    def _is_woken(self) -> bool:
        return self._woken and not self._ignored_wakeups

    def _raise_if_woken(self) -> None:
        if self._is_woken:
            self._woken = False
            raise WakeupError("the wait was interrupted by wakeup")


def _refuse_change(request: Request[Any], reason: str) -> None:
    """Raise `Refused` for a request that may change the cluster; one that is only validated does not."""
    if request.API_KEY not in READING and not getattr(request, "validate_only", False):
        api = type(request).__name__.removesuffix("Request")
        raise Refused(f"{reason}: {api} changes the cluster; it was not sent")


def _disconnected(entry: Unsent, reason: str) -> DisconnectedError:
    error = DisconnectedError(reason, node=entry.node.id, api=type(entry.request).__name__.removesuffix("Request"))
    error.was_sent = False
    return error


def _may_be_temporary(cluster: Cluster, names: Iterable[str], patient: bool) -> bool:
    errors = {cluster.topics[name].error for name in names if name in cluster.topics}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in errors
    return (unknown and patient) or ErrorCode.LEADER_NOT_AVAILABLE in errors


def _expired(entry: Unsent) -> TimeoutExpired:
    return TimeoutExpired(f"{entry.future.label} could not be sent in time", node=entry.node.id)


def _connection_failures(
    metadata: Metadata, connection_error: Callable[[int], str | None], node: Node | None = None
) -> str:
    """Describe the failed connections to `node`, or to all nodes, in one sentence; "" if none is known.

    A broker that responds at a bootstrap address may advertise an address that cannot be reached from here. This is
    reported differently, because it is corrected in the broker's advertised.listeners.
    """
    nodes = [node] if node is not None else list(metadata.cluster.nodes.values())
    failures = _failures(nodes, connection_error)
    if metadata.is_bootstrap or all(n.id < 0 for n, _ in failures):
        failures = failures or _failures(metadata.bootstrap.values(), connection_error)
    if failures:
        if metadata.update_version and failures[0][0].id >= 0:
            return "; ".join(
                f"node {node.id}, which the cluster advertises as {address_of(node)}, cannot be reached: {reason}"
                for node, reason in failures
            )
        return "no broker answered at " + _format_failures(failures)
    if metadata.error is not None:
        return f"no metadata of the cluster: {metadata.error}"
    return ""


def _failures(nodes: Iterable[Node], connection_error: Callable[[int], str | None]) -> list[tuple[Node, str]]:
    return [(node, reason) for node in nodes if (reason := connection_error(node.id)) is not None]


def _format_failures(failures: list[tuple[Node, str]]) -> str:
    if len(failures) == 1:
        node, reason = failures[0]
        return f"{address_of(node)}: {reason}"
    return ", ".join(f"{address_of(node)} ({reason})" for node, reason in failures)
