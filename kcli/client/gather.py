"""Many keys, many nodes: locate, ask side by side, merge, and ask again for what may still succeed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.client.request_future import RequestFuture
from kcli.client.retry import attempts
from kcli.errors import DisconnectedError, KcliError, ProtocolError, TimeoutExpired
from kcli.protocol.wire import Request
from kcli.structs import Node

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
R = TypeVar("R")


class Gathered(Generic[K, T]):
    """Answers of several nodes, by key: each key asked for is in `values` or in `errors`."""

    def __init__(self, values: Mapping[K, T] | None = None, errors: Mapping[K, KcliError] | None = None) -> None:
        self.values: dict[K, T] = dict(values or {})
        self.errors: dict[K, KcliError] = dict(errors or {})

    def __repr__(self) -> str:
        return f"<Gathered {len(self.values)} values, {len(self.errors)} errors>"

    def put(self, key: K, outcome: T | KcliError) -> None:
        """Keep what one key got."""
        if isinstance(outcome, KcliError):
            self.errors[key] = outcome
        else:
            self.values[key] = outcome


class Located(Generic[K]):
    """Where to ask for each key: at a node, nowhere yet (`homeless`, tried again), or never (`absent`)."""

    def __init__(self) -> None:
        self.by_node: dict[Node, list[K]] = {}
        self.homeless: dict[K, KcliError] = {}
        self.absent: dict[K, KcliError] = {}


#: (keys, why they failed in the round before, deadline) -> where to ask.
Locate = Callable[[Sequence[K], Mapping[K, KcliError], float], "Located[K]"]


def gather(
    client: ConsumerNetworkClient,
    keys: Iterable[K],
    locate: Locate[K],
    build: Callable[[Node, list[K]], Request[R]],
    read: Callable[[R], Iterable[tuple[K, T | KcliError]]],
    deadline_ms: float,
    *,
    min_version: int | None = None,
    max_version: int | None = None,
) -> Gathered[K, T]:
    """Ask each key's node, one request for each node; again for keys with a retriable error, until the deadline.

    What `locate` raises in the first round, before anything is known, passes through; so do bugs.
    """
    gathered: Gathered[K, T] = Gathered()
    pending: list[K] = list(dict.fromkeys(keys))
    failures: dict[K, KcliError] = {}
    for number in attempts(client, deadline_ms) if pending else ():
        try:
            located = locate(pending, failures, deadline_ms)
        except TimeoutExpired:
            if number == 0:
                raise
            break
        gathered.errors.update(located.absent)
        failures = dict(located.homeless)
        futures = [
            (node, asked, client.send(node, build(node, asked), min_version=min_version, max_version=max_version))
            for node, asked in located.by_node.items()
        ]
        for node, asked, future in futures:
            for key, outcome in _outcomes(client, node, asked, future, read, deadline_ms).items():
                if isinstance(outcome, KcliError) and outcome.retriable:
                    failures[key] = outcome
                else:
                    gathered.put(key, outcome)
        pending = list(failures)
        if not pending:
            break
    gathered.errors.update({key: _last_word(client, error) for key, error in failures.items()})
    return gathered


def _outcomes(
    client: ConsumerNetworkClient,
    node: Node,
    asked: list[K],
    future: RequestFuture[R],
    read: Callable[[R], Iterable[tuple[K, T | KcliError]]],
    deadline_ms: float,
) -> dict[K, T | KcliError]:
    """What one node's answer, or the lack of one, means for each key that the node was asked about."""
    try:
        told = dict(read(client.wait(future, deadline_ms, node=node)))
    except KcliError as error:
        return dict.fromkeys(asked, cast("T | KcliError", error))
    return {key: told[key] if key in told else _unmentioned(node, key) for key in asked}


def _unmentioned(node: Node, key: object) -> KcliError:
    return ProtocolError(f"the answer of {node} says nothing about {key}")


def _last_word(client: ConsumerNetworkClient, error: KcliError) -> KcliError:
    """The error to show for a key whose time is up."""
    if isinstance(error, DisconnectedError):
        node_id: Any = error.evidence.get("node")
        return client.timed_out(
            error.evidence.get("api", "an answer"), client.metadata.cluster.nodes.get(node_id), error
        )
    return error
