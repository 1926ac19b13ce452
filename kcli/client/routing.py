"""Routing: leaders of partitions, coordinators of groups and transactions, the controller, and requests to them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.client.metadata import Cluster
from kcli.client.requests import (
    Confirm,
    Located,
    Results,
    ask_any,
    ask_node,
    error_codes_in,
    fan_out,
    fan_out_changes,
)
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, UnsupportedVersion
from kcli.protocol.wire import Message, Request
from kcli.structs import Node, TopicPartition

if TYPE_CHECKING:
    from kcli.protocol.messages.find_coordinator import FindCoordinatorResponse

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
R = TypeVar("R", bound=Message)

# The key types of FindCoordinator.
GROUP, TRANSACTION, SHARE = 0, 1, 2
_EVIDENCE = {GROUP: "group", TRANSACTION: "transactional_id", SHARE: "share_key"}

#: Error codes after which a request is repeated, at the same coordinator or at a new one.
COORDINATOR_ERRORS = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


def all_brokers(client: ConsumerNetworkClient, deadline_ms: float) -> list[Node]:
    """Return the brokers that fresh metadata names, sorted by id."""
    return sorted(client.topics_metadata([], deadline_ms).nodes.values())


def locate_controller(
    client: ConsumerNetworkClient, keys: Sequence[K], failures: Mapping[K, KcliError], deadline_ms: float
) -> Located[K]:
    """Send all keys to the controller, with fresh metadata after a failure; without a controller, to any node."""
    if failures or client.metadata.cluster.controller is None:
        client.ensure_fresh_metadata(deadline_ms)
    node = client.metadata.cluster.controller or client.least_loaded_node()
    located: Located[K] = Located()
    for key in keys:
        if node is None:
            located.unavailable[key] = BrokerError(ErrorCode.BROKER_NOT_AVAILABLE)
        else:
            located.add(node, key)
    return located


# Leaders


def ask_leaders(
    client: ConsumerNetworkClient,
    partitions: Iterable[TopicPartition],
    build: Callable[[Node, list[TopicPartition]], Request[R]],
    read: Callable[[R], Iterable[tuple[TopicPartition, T | KcliError]]],
    deadline_ms: float,
    *,
    min_version: int | None = None,
    max_version: int | None = None,
) -> Results[TopicPartition, T]:
    """Send one request to each leader of these partitions, as `fan_out` does.

    Metadata is refreshed after an error that may come from a moved leader. An unknown topic or partition is an error
    at once, without retries.
    """
    return fan_out(
        client,
        partitions,
        partial(locate_leaders, client),
        build,
        lambda response, _partitions: read(response),
        deadline_ms,
        min_version=min_version,
        max_version=max_version,
    )


def locate_leaders(
    client: ConsumerNetworkClient,
    partitions: Sequence[TopicPartition],
    failures: Mapping[TopicPartition, KcliError],
    deadline_ms: float,
) -> Located[TopicPartition]:
    """Group partitions by leader, with fresh metadata if it lacks a leader or `failures` show that it is outdated."""
    cluster = client.metadata.cluster
    outdated = any(not isinstance(e, BrokerError) or e.code.refresh_metadata for e in failures.values())
    if outdated or any(_leader(cluster, tp) is None for tp in partitions):
        cluster = client.topics_metadata(sorted({tp.topic for tp in partitions}), deadline_ms)
    located: Located[TopicPartition] = Located()
    for tp in partitions:
        error = _missing_error(cluster, tp)
        node = _leader(cluster, tp)
        if error is not None:
            located.absent[tp] = error
        elif node is None:
            error = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, topic=tp.topic, partition=tp.partition)
            located.unavailable[tp] = error
        else:
            located.add(node, tp)
    return located


def _leader(cluster: Cluster, tp: TopicPartition) -> Node | None:
    topic = cluster.topics.get(tp.topic)
    info = topic.partitions.get(tp.partition) if topic is not None else None
    return cluster.broker(info.leader) if info is not None else None


def _missing_error(cluster: Cluster, tp: TopicPartition) -> KcliError | None:
    """The error of a topic or partition that does not exist or may not be described; None if a leader may appear."""
    error = cluster.topic_error(tp.topic)
    if error is not None:
        return None if error.code == ErrorCode.LEADER_NOT_AVAILABLE else error
    partitions = cluster.topics[tp.topic].partitions
    if tp.partition in partitions:
        return None
    text = f"{tp.topic} has {len(partitions)} partitions, and no number {tp.partition}"
    return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)


# Coordinators


class Coordinators:
    """The coordinator of each group (or transaction), looked up once, and again only after an error.

    One FindCoordinator request looks up all new keys.
    """

    def __init__(self, client: ConsumerNetworkClient, key_type: int = GROUP) -> None:
        self._client = client
        self._key_type = key_type
        self._nodes: dict[str, Node] = {}

    def __repr__(self) -> str:
        return f"<Coordinators of {len(self._nodes)} keys on {len(set(self._nodes.values()))} nodes>"

    def node(self, key: str) -> Node:
        """The coordinator of a key that was looked up, with its rack if metadata names it."""
        node = self._nodes[key]
        return self._client.metadata.cluster.nodes.get(node.id, node)

    def forget(self, key: str) -> None:
        """Look this coordinator up again when it is needed next."""
        self._nodes.pop(key, None)

    def ask(
        self,
        keys: Iterable[str],
        build: Callable[[list[str]], Request[R]],
        read: Callable[[R], Iterable[tuple[str, T | KcliError]]],
        deadline_ms: float,
        *,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> Results[str, T]:
        """Send one request to each coordinator of these keys, as `fan_out` does."""
        return fan_out(
            self._client,
            keys,
            self._located,
            lambda _node, node_keys: build(node_keys),
            lambda response, _keys: read(response),
            deadline_ms,
            min_version=min_version,
            max_version=max_version,
        )

    def change(
        self,
        keys: Iterable[str],
        build: Callable[[list[str]], Request[R]],
        read: Callable[[R], Iterable[tuple[str, T | KcliError]]],
        confirm: Confirm[str, T],
        deadline_ms: float,
    ) -> Results[str, T]:
        """Send one request to each coordinator of these keys, as `fan_out_changes` does."""
        return fan_out_changes(
            self._client,
            keys,
            self._located,
            lambda _node, node_keys: build(node_keys),
            lambda response, _keys: read(response),
            confirm,
            deadline_ms,
        )

    def _located(self, keys: Sequence[str], failures: Mapping[str, KcliError], deadline_ms: float) -> Located[str]:
        coordinators = self.locate(keys, failures, deadline_ms)
        located: Located[str] = Located()
        located.absent = coordinators.errors
        for key, node in coordinators.values.items():
            located.add(node, key)
        return located

    def locate(self, keys: Iterable[str], failed: Iterable[str], deadline_ms: float) -> Results[str, Node]:
        """Return the coordinator of each key. Look up those that are new or have `failed`."""
        keys, failed = list(keys), set(failed)
        doubtful = [key for key in keys if key in failed or key not in self._nodes]
        coordinators = find_coordinators(self._client, doubtful, self._key_type, deadline_ms)
        self._nodes.update(coordinators.values)
        return Results({key: self._nodes[key] for key in keys if key not in coordinators.errors}, coordinators.errors)


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
    """Return the response of the coordinator of one group or transaction; ask again when it has moved or is loading.

    `codes` extracts the error codes of a response; by default `error_codes_in`. At the deadline such an error is
    returned in the response.
    """
    for _ in client.attempts(deadline_ms):
        coordinators = find_coordinators(client, [key], key_type, deadline_ms)
        if key in coordinators.errors:
            raise coordinators.errors[key]
        response = ask_node(client, coordinators.values[key], request, deadline_ms, max_version=max_version)
        if COORDINATOR_ERRORS.isdisjoint((codes or error_codes_in)(response)):
            break
    return response


def find_coordinators(
    client: ConsumerNetworkClient, keys: Iterable[str], key_type: int, deadline_ms: float
) -> Results[str, Node]:
    """Look up the coordinator of each group, transaction or share key; retry while a coordinator is not available."""
    coordinators: Results[str, Node] = Results()
    pending = list(dict.fromkeys(keys))
    for _ in client.attempts(deadline_ms) if pending else ():
        for key in pending:
            coordinators.errors.pop(key, None)
        for key, outcome in _find_coordinators_once(client, pending, key_type, deadline_ms):
            coordinators.put(key, outcome)
        coordinators.fill_missing(pending, "FindCoordinator")
        pending = [key for key, error in coordinators.errors.items() if error.retriable]
        if not pending:
            break
    return coordinators


def _find_coordinators_once(
    client: ConsumerNetworkClient, keys: list[str], key_type: int, deadline_ms: float
) -> Iterator[tuple[str, Node | KcliError]]:
    """One request for all keys (v4, KIP-699), or one for each key if the broker is older."""
    from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest

    try:
        batch = FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
        response = ask_any(client, batch, deadline_ms, min_version=4)
        for coordinator in response.coordinators:
            yield coordinator.key, _node_or_error(response, coordinator, coordinator.key, key_type)
    except UnsupportedVersion:
        for key in keys:
            single = FindCoordinatorRequest(key=key, key_type=key_type)
            response = ask_any(client, single, deadline_ms, max_version=3)
            yield key, _node_or_error(response, response, key, key_type)


def _node_or_error(response: FindCoordinatorResponse, coordinator: Any, key: str, key_type: int) -> Node | KcliError:
    if coordinator.error_code:
        evidence = {_EVIDENCE[key_type]: key}
        message = coordinator.error_message
        return response.broker_error(coordinator.error_code, message, api="FindCoordinator", **evidence)
    return Node(coordinator.node_id, coordinator.host, coordinator.port)
