"""Who to ask: any node, one node, the controller, leaders or coordinators side by side.

A failure that concerns one key (a partition, a group) is data in `Gathered.errors`; an exception means that nothing
could be asked at all. When the deadline passes, TimeoutExpired says what was awaited and what was wrong last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.client.gather import Gathered, Located, gather
from kcli.client.leaders import locate_leaders
from kcli.client.retry import attempts
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, UnsupportedVersion
from kcli.protocol.wire import Request
from kcli.structs import Node, TopicPartition

__all__ = [
    "GROUP",
    "SHARE",
    "TRANSACTION",
    "Gathered",
    "ask_any",
    "ask_controller",
    "ask_coordinator",
    "ask_coordinators",
    "ask_leaders",
    "ask_node",
    "error_codes_in",
    "find_coordinators",
]

T = TypeVar("T")
R = TypeVar("R")

GROUP, TRANSACTION, SHARE = 0, 1, 2  # what a coordinator coordinates


def ask_any(
    client: ConsumerNetworkClient,
    request: Request[R],
    deadline_ms: float,
    *,
    min_version: int | None = None,
    max_version: int | None = None,
) -> R:
    """The answer of whichever node is least busy; another one is asked when that is lost."""
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
    """The answer of this node; asked again when the connection is lost, at the address that the node then has."""

    def where() -> Node:
        return client.metadata.cluster.nodes.get(node.id, node)

    return _ask(client, where, request, deadline_ms, min_version, max_version)


def ask_controller(
    client: ConsumerNetworkClient,
    request: Request[R],
    deadline_ms: float,
    *,
    codes: Callable[[R], Iterable[int]] | None = None,
) -> R:
    """The answer of the controller; when that is no longer the controller, of the new one.

    `codes` are the error codes in an answer; by default `error_codes_in`. At the deadline the answer is data.
    """
    for number in attempts(client, deadline_ms):
        if number or client.metadata.cluster.controller is None:
            client.ensure_fresh_metadata(deadline_ms)
        controller = client.metadata.cluster.controller
        if controller is None:
            answer = ask_any(client, request, deadline_ms)
        else:
            answer = ask_node(client, controller, request, deadline_ms)
        if ErrorCode.NOT_CONTROLLER not in (codes or error_codes_in)(answer):
            break
    return answer


def ask_coordinator(
    client: ConsumerNetworkClient,
    key: str,
    request: Request[R],
    deadline_ms: float,
    *,
    key_type: int = GROUP,
    codes: Callable[[R], Iterable[int]] | None = None,
    max_version: int | None = None,
) -> R:
    """The answer of the coordinator of one group or transaction; asked again when it has moved or is loading."""
    for _ in attempts(client, deadline_ms):
        found = find_coordinators(client, [key], key_type, deadline_ms)
        if key in found.errors:
            raise found.errors[key]
        answer = ask_node(client, found.values[key], request, deadline_ms, max_version=max_version)
        if _COORDINATOR_TROUBLE.isdisjoint((codes or error_codes_in)(answer)):
            break
    return answer


def ask_leaders(
    client: ConsumerNetworkClient,
    partitions: Iterable[TopicPartition],
    build: Callable[[Node, list[TopicPartition]], Request[R]],
    read: Callable[[R], Iterable[tuple[TopicPartition, T | KcliError]]],
    deadline_ms: float,
    *,
    min_version: int | None = None,
    max_version: int | None = None,
) -> Gathered[TopicPartition, T]:
    """Ask the leader of each partition, one request for each node. Retriable errors are asked again until the deadline,
    with fresh metadata where that may help; an unknown topic or partition is not waited for."""
    locate = partial(locate_leaders, client)
    return gather(
        client, partitions, locate, build, read, deadline_ms, min_version=min_version, max_version=max_version
    )


def ask_coordinators(
    client: ConsumerNetworkClient,
    keys: Iterable[str],
    build: Callable[[Node, list[str]], Request[R]],
    read: Callable[[R], Iterable[tuple[str, T | KcliError]]],
    deadline_ms: float,
    *,
    key_type: int = GROUP,
    min_version: int | None = None,
    max_version: int | None = None,
) -> Gathered[str, T]:
    """Ask the coordinator of each key, one request for each node. Retriable errors are asked again."""

    def locate(wanted: Sequence[str], _failures: Mapping[str, KcliError], until_ms: float) -> Located[str]:
        found = find_coordinators(client, wanted, key_type, until_ms)
        located: Located[str] = Located()
        located.absent = found.errors
        for key, node in found.values.items():
            located.by_node.setdefault(node, []).append(key)
        return located

    return gather(client, keys, locate, build, read, deadline_ms, min_version=min_version, max_version=max_version)


def find_coordinators(
    client: ConsumerNetworkClient, keys: Iterable[str], key_type: int, deadline_ms: float
) -> Gathered[str, Node]:
    """The coordinator of each group, transaction or share key; asked again while there is none yet."""
    found: Gathered[str, Node] = Gathered()
    pending = list(dict.fromkeys(keys))
    for _ in attempts(client, deadline_ms) if pending else ():
        for key in pending:
            found.errors.pop(key, None)
        for key, outcome in _ask_for_coordinators(client, pending, key_type, deadline_ms):
            found.put(key, outcome)
        pending = [key for key, error in found.errors.items() if error.retriable]
        if not pending:
            break
    return found


_COORDINATOR_TROUBLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


def error_codes_in(answer: Any) -> Iterator[int]:
    """The error code of an answer, and those of the items in its lists."""
    yield getattr(answer, "error_code", 0)
    for field in vars(answer).values():
        if isinstance(field, list):
            for item in field:
                yield getattr(item, "error_code", 0)


def _ask_for_coordinators(
    client: ConsumerNetworkClient, keys: list[str], key_type: int, deadline_ms: float
) -> Iterator[tuple[str, Node | KcliError]]:
    """One question for all keys (v4, KIP-699), or one for each with a broker that is too old for that."""
    from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest

    try:
        batch = FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
        for told in ask_any(client, batch, deadline_ms, min_version=4).coordinators:
            yield told.key, _coordinator(told)
    except UnsupportedVersion:
        for key in keys:
            single = FindCoordinatorRequest(key=key, key_type=key_type)
            yield key, _coordinator(ask_any(client, single, deadline_ms, max_version=3))


def _coordinator(told: Any) -> Node | KcliError:
    if told.error_code:
        return BrokerError(told.error_code, told.error_message)
    return Node(told.node_id, told.host, told.port)


def _ask(
    client: ConsumerNetworkClient,
    where: Callable[[], Node | None],
    request: Request[R],
    deadline_ms: float,
    min_version: int | None,
    max_version: int | None,
) -> R:
    node: Node | None = None
    last: KcliError | None = None
    for _ in attempts(client, deadline_ms):
        node = where()
        if node is None:
            continue
        try:
            future = client.send(node, request, min_version=min_version, max_version=max_version)
            return client.wait(future, deadline_ms, node=node)
        except KcliError as error:
            if not error.retriable or client.clock.now_ms() >= deadline_ms:
                raise
            last = error
    raise client.timed_out(type(request).__name__.removesuffix("Request"), node, last)
