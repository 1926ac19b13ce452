"""Requests with a deadline: one to one node, or many side by side, one for each node, with retries of the failed keys.

`fan_out` is the only fan-out of the project. Its caller supplies the location of each key (see `routing`), the request
for a node's keys, and the outcomes in a response. A failure that concerns one key (a partition, a group, a node) is an
error in `Results.errors`; an exception means that no request could be sent at all. `fan_out_changes` is for requests
that change something: if a response is lost, it looks whether the change was made before it sends the request again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.client.request_future import RequestFuture
from kcli.error_codes import ErrorCode
from kcli.errors import (
    BrokerError,
    DisconnectedError,
    IncompleteResponse,
    KcliError,
    OutcomeUnknown,
    TimeoutExpired,
    WakeupError,
)
from kcli.protocol.wire import Message, Request
from kcli.structs import Node
from kcli.text import did_you_mean

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient

_SHORT_MS = 1_000.0

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
R = TypeVar("R", bound=Message)


class Results(Generic[K, T]):
    """Results of several requests, by key: each requested key is in `values` or in `errors`.

    `results[key]` is the value of a key, or raises its error; KeyError for a key that was not requested. `len`, `in`
    and an iteration have all keys, those with a value first.
    """

    def __init__(self, values: Mapping[K, T] | None = None, errors: Mapping[K, KcliError] | None = None) -> None:
        self.values: dict[K, T] = dict(values or {})
        self.errors: dict[K, KcliError] = dict(errors or {})

    def __repr__(self) -> str:
        return f"<Results {len(self.values)} values, {len(self.errors)} errors>"

    def __getitem__(self, key: K) -> T:
        if key in self.values:
            return self.values[key]
        if key in self.errors:
            raise self.errors[key]
        raise KeyError(f"{key!r} was not requested{did_you_mean(str(key), map(str, self))}")

    def __contains__(self, key: object) -> bool:
        return key in self.values or key in self.errors

    def __iter__(self) -> Iterator[K]:
        yield from self.values
        yield from self.errors

    def __len__(self) -> int:
        return len(self.values) + len(self.errors)

    def put(self, key: K, outcome: T | KcliError) -> None:
        """Add the value or the error of one key."""
        if isinstance(outcome, KcliError):
            self.errors[key] = outcome
        else:
            self.values[key] = outcome

    def fill_missing(self, keys: Iterable[K], api: str) -> None:
        """Add an error for each of the requested `keys` that the response to `api` did not contain."""
        for key in keys:
            if key not in self.values and key not in self.errors:
                self.errors[key] = IncompleteResponse(f"the response to {api} does not contain {key}", api=api)


class Located(Generic[K]):
    """The requests to send: each a node and its keys. A key without a node is `unavailable` (retried) or `absent`."""

    def __init__(self) -> None:
        self.requests: list[tuple[Node, list[K]]] = []
        self.unavailable: dict[K, KcliError] = {}
        self.absent: dict[K, KcliError] = {}
        self._by_node: dict[Node, list[K]] = {}

    def add(self, node: Node, key: K) -> None:
        """Add a key to the request of its node."""
        if node not in self._by_node:
            self._by_node[node] = []
            self.requests.append((node, self._by_node[node]))
        self._by_node[node].append(key)


#: (keys, their errors in the previous attempt, deadline) -> the requests to send.
Locate = Callable[[Sequence[K], Mapping[K, KcliError], float], "Located[K]"]
#: (response, requested keys) -> the value or the error of each key.
Read = Callable[[R, Sequence[K]], "Iterable[tuple[K, T | KcliError]]"]
#: (keys whose change may have been made, deadline) -> the value of each key whose change is visible in the cluster, and
#: the error of each key that could not be looked up. A key in neither is not changed so far.
Confirm = Callable[[Sequence[K], float], Results[K, T]]

#: Error codes after which a change may still have been made: replicas did not confirm the coordinator's or controller's
#: write in time. A group coordinator responds with COORDINATOR_NOT_AVAILABLE in that case.
_OPEN_CODES = {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE}


def is_retriable(error: KcliError) -> bool:
    """Return whether the same request may succeed later."""
    return error.retriable


def fan_out(
    client: ConsumerNetworkClient,
    keys: Iterable[K],
    locate: Locate[K],
    build: Callable[[Node, list[K]], Request[R]],
    read: Read[R, K, T],
    deadline_ms: float,
    *,
    retry: Callable[[KcliError], bool] = is_retriable,
    min_version: int | None = None,
    max_version: int | None = None,
    change: bool = False,
) -> Results[K, T]:
    """Send one request to each node, side by side. Repeat for keys whose error is to be retried, until the deadline.

    An exception of `locate` is raised in the first attempt, when there are no results yet; later it ends the retries.
    `change`: a request that was sent and has no response is not repeated; at the deadline it is given up.
    """
    results: Results[K, T] = Results()
    pending: list[K] = list(dict.fromkeys(keys))
    failures: dict[K, KcliError] = {}
    for attempt in client.attempts(deadline_ms) if pending else ():
        try:
            located = locate(pending, failures, deadline_ms)
        except KcliError as error:
            if attempt == 0 or isinstance(error, WakeupError):
                raise
            break
        results.errors.update(located.absent)
        previous, failures = failures, dict(located.unavailable)
        sent = [
            (
                node,
                node_keys,
                client.send(node, build(node, node_keys), min_version=min_version, max_version=max_version),
            )
            for node, node_keys in located.requests
        ]
        for node, node_keys, future in sent:
            for key, outcome in _outcomes(client, node, node_keys, future, read, deadline_ms, change).items():
                if isinstance(outcome, KcliError) and retry(outcome) and not (change and _is_unanswered(outcome)):
                    failures[key] = outcome if change else more_telling(previous.get(key), outcome)
                else:
                    results.put(key, outcome)
        pending = list(failures)
        if not pending:
            break
    results.errors.update({key: _final_error(client, error) for key, error in failures.items()})
    return results


def more_telling(previous: object, error: KcliError) -> KcliError:
    """Return the error to report: the error code of an attempt says more than the time-out of the next one."""
    is_late = isinstance(error, TimeoutExpired)
    return previous if is_late and isinstance(previous, BrokerError) else error


def _outcomes(
    client: ConsumerNetworkClient,
    node: Node,
    keys: list[K],
    future: RequestFuture[R],
    read: Read[R, K, T],
    deadline_ms: float,
    give_up: bool,
) -> dict[K, T | KcliError]:
    """The outcome of each key of one request; an error of the whole request is the error of each key."""
    try:
        outcomes = dict(read(client.wait(future, deadline_ms, node=node), keys))
    except WakeupError:
        raise  # the caller is interrupted, and no key has failed
    except KcliError as error:
        if give_up and not future.done and client.give_up(future, node):
            error = DisconnectedError(error.message, **error.evidence)
        return dict.fromkeys(keys, cast("T | KcliError", error))
    return {key: outcomes[key] if key in outcomes else _missing_key(node, key) for key in keys}


def _missing_key(node: Node, key: object) -> KcliError:
    return IncompleteResponse(f"the response of {node} does not contain {key}")


def _final_error(client: ConsumerNetworkClient, error: KcliError) -> KcliError:
    """The error of a key at the deadline: a lost connection is a timeout that names the address and its failure."""
    if isinstance(error, IncompleteResponse):
        return client.timed_out("a complete response", last=error)
    if isinstance(error, DisconnectedError):
        node_id: Any = error.evidence.get("node")
        awaited = error.evidence.get("api", "a response")
        return client.timed_out(awaited, client.metadata.cluster.nodes.get(node_id), error)
    return error


def fan_out_changes(
    client: ConsumerNetworkClient,
    keys: Iterable[K],
    locate: Locate[K],
    build: Callable[[Node, list[K]], Request[R]],
    read: Read[R, K, T],
    confirm: Confirm[K, T],
    deadline_ms: float,
    *,
    retry: Callable[[KcliError], bool] = is_retriable,
    min_version: int | None = None,
    max_version: int | None = None,
) -> Results[K, T]:
    """Send requests that change something, like `fan_out`, and report the outcome of each key as it is in the cluster.

    After a lost response `confirm` looks which changes are visible, and only the others are sent again. Each step has
    half of the remaining time. Errors of keys: OutcomeUnknown if a request was sent, has no response, and no change is
    visible at the deadline; all other errors mean that the change was not made.
    """
    results: Results[K, T] = Results()
    pending = list(dict.fromkeys(keys))
    errors: dict[K, KcliError] = {}
    unanswered: dict[K, KcliError] = {}
    looks: dict[K, KcliError | None] = {}  # None: a look has shown that the change was not made so far
    unsent: dict[K, KcliError] = {}  # errors of the search for the node: no request was sent for it

    def locate_again(keys: Sequence[K], failures: Mapping[K, KcliError], until_ms: float) -> Located[K]:
        located = locate(keys, failures or {key: errors[key] for key in keys if key in errors}, until_ms)
        unsent.update(located.absent)
        unsent.update(located.unavailable)
        return located

    def read_again(response: R, keys: Sequence[K]) -> Iterator[tuple[K, T | KcliError]]:
        for key, outcome in read(response, keys):
            if isinstance(outcome, KcliError) and _may_be_done(outcome):
                unanswered[key] = outcome
            yield key, outcome

    def may_be_done(key: K, error: KcliError) -> bool:
        return _may_be_done(error) and unsent.get(key) is not error

    for attempt in client.attempts(deadline_ms) if pending else ():
        try:
            step = fan_out(
                client,
                pending,
                locate_again,
                build,
                read_again,
                half_deadline(client, deadline_ms),
                retry=retry,
                min_version=min_version,
                max_version=max_version,
                change=True,
            )
        except KcliError as error:
            if attempt == 0 or isinstance(error, WakeupError):
                raise
            step = Results(errors=dict.fromkeys(pending, error))
            unsent |= step.errors
        results.values.update(step.values)
        errors = step.errors
        unanswered |= {key: error for key, error in errors.items() if may_be_done(key, error)}
        doubtful = [key for key in errors if key in unanswered]
        seen = _confirmed(confirm, doubtful, half_deadline(client, deadline_ms)) if doubtful else Results()
        results.values.update(seen.values)
        looks |= {key: seen.errors.get(key) for key in doubtful if key not in looks or looks[key] is not None}
        errors = {key: error for key, error in errors.items() if key not in seen.values}
        pending = [key for key, error in errors.items() if may_be_done(key, error) or retry(error)]
        results.errors.update({key: error for key, error in errors.items() if key not in pending})
        if not pending:
            break
    for key in pending:
        results.errors[key] = _unknown(unanswered[key], looks[key]) if key in unanswered else errors[key]
    return results


def _confirmed(confirm: Confirm[K, T], keys: Sequence[K], deadline_ms: float) -> Results[K, T]:
    try:
        return confirm(keys, deadline_ms)
    except WakeupError:
        raise
    except KcliError as error:
        return Results(errors=dict.fromkeys(keys, error))


def _is_unanswered(error: KcliError) -> bool:
    """True if the request was sent and has no usable response."""
    return isinstance(error, IncompleteResponse) or (isinstance(error, DisconnectedError) and error.was_sent)


def _may_be_done(error: KcliError) -> bool:
    return _is_unanswered(error) or (isinstance(error, BrokerError) and error.code in _OPEN_CODES)


def _unknown(lost: KcliError, look: KcliError | None) -> OutcomeUnknown:
    """The error of a change without a response that is not visible; `look`: the look itself failed."""
    found = "the change was not visible, but may still be made"
    if look is not None:
        found = f"no look was possible: {look.message}"
    evidence = {name: value for name, value in lost.evidence.items() if name != "awaited"}
    return OutcomeUnknown(f"unknown whether the change was made: {lost.message}; {found}", **evidence)


def ask_nodes(
    client: ConsumerNetworkClient,
    nodes: Iterable[Node],
    request: Request[R],
    deadline_ms: float,
    *,
    min_version: int | None = None,
) -> Results[Node, R]:
    """Send the same request to each of these nodes. An error code of the whole response is the error of its node."""

    def read(node: Node, response: R) -> R | KcliError:
        code = next(error_codes_in(response), 0)
        return response.broker_error(code, node=node.id) if code else response

    return ask_each(client, nodes, lambda _node: request, read, deadline_ms, min_version=min_version)


def ask_each(
    client: ConsumerNetworkClient,
    nodes: Iterable[Node],
    build: Callable[[Node], Request[R]],
    read: Callable[[Node, R], T | KcliError],
    deadline_ms: float,
    *,
    min_version: int | None = None,
) -> Results[Node, T]:
    """Send one request to each of these nodes, side by side; `read` returns the value or the error of a response."""

    def locate(keys: Sequence[Node], _failures: Mapping[Node, KcliError], _deadline_ms: float) -> Located[Node]:
        located: Located[Node] = Located()
        for node in keys:
            located.add(node, node)
        return located

    def read_one(response: R, keys: Sequence[Node]) -> Iterator[tuple[Node, T | KcliError]]:
        yield keys[0], read(keys[0], response)

    return fan_out(
        client, nodes, locate, lambda node, _nodes: build(node), read_one, deadline_ms, min_version=min_version
    )


def ask_any(
    client: ConsumerNetworkClient,
    request: Request[R],
    deadline_ms: float,
    *,
    min_version: int | None = None,
    max_version: int | None = None,
) -> R:
    """Return the response of the least loaded node; ask another one when the connection is lost."""
    return _ask(client, client.least_loaded_node, request, deadline_ms, min_version, max_version)


def ask_node(
    client: ConsumerNetworkClient,
    node: Node,
    request: Request[R],
    deadline_ms: float,
    *,
    min_version: int | None = None,
    max_version: int | None = None,
) -> R:
    """Return the response of this node; ask again, at its current address, when the connection is lost."""

    def current() -> Node:
        return client.metadata.cluster.nodes.get(node.id, node)

    return _ask(client, current, request, deadline_ms, min_version, max_version)


def _ask(
    client: ConsumerNetworkClient,
    choose: Callable[[], Node | None],
    request: Request[R],
    deadline_ms: float,
    min_version: int | None,
    max_version: int | None,
) -> R:
    node: Node | None = None
    last: KcliError | None = None
    for _ in client.attempts(deadline_ms):
        node = choose()
        if node is None:
            client.raise_authentication_error()
            continue
        try:
            future = client.send(node, request, min_version=min_version, max_version=max_version)
            return client.wait(future, deadline_ms, node=node)
        except KcliError as error:
            if not error.retriable or client.clock.now_ms() >= deadline_ms:
                raise
            last = error
    raise client.timed_out(type(request).__name__.removesuffix("Request"), node, last)


def error_codes_in(response: Any) -> Iterator[int]:
    """The error code of a response, and those of the elements of its lists."""
    yield getattr(response, "error_code", 0)
    for field in vars(response).values():
        if isinstance(field, list):
            for element in field:
                yield getattr(element, "error_code", 0)


def half_deadline(client: ConsumerNetworkClient, deadline_ms: float) -> float:
    """Return the deadline for one of several requests in sequence: half of the remaining time, all of the last second.

    A broker that is down then does not use up the time of the later requests. A caller for which the answer is
    necessary repeats the sequence while errors are retriable and time is left.
    """
    now_ms = client.clock.now_ms()
    remaining_ms = max(0.0, deadline_ms - now_ms)
    return now_ms + (remaining_ms if remaining_ms <= _SHORT_MS else remaining_ms / 2)
