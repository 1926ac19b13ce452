"""One question to several brokers at once, for what each of them only knows for itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from kcli.client.retry import attempts
from kcli.client.routing import Gathered, error_codes_in
from kcli.errors import BrokerError, KcliError

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.wire import Request
    from kcli.structs import Node

R = TypeVar("R")


def all_brokers(client: ConsumerNetworkClient, deadline_ms: float) -> list[Node]:
    """The brokers that the cluster names now, by id."""
    return sorted(client.topics_metadata([], deadline_ms).nodes.values())


def ask_brokers(
    client: ConsumerNetworkClient,
    nodes: Iterable[Node],
    request: Request[R],
    deadline_ms: float,
    *,
    min_version: int | None = None,
) -> Gathered[Node, R]:
    """The answer of each of these brokers; asked again while its error is retriable, such as a lost connection.

    An error code of the whole answer is a BrokerError under the node. At the deadline what is known is returned.
    """
    gathered: Gathered[Node, R] = Gathered()
    pending = list(nodes)
    for _ in attempts(client, deadline_ms) if pending else ():
        futures = [(node, client.send(node, request, min_version=min_version)) for node in pending]
        for node, future in futures:
            gathered.errors.pop(node, None)
            try:
                answer = client.wait(future, deadline_ms, node=node)
            except KcliError as error:
                gathered.errors[node] = error
                continue
            code = next(iter(error_codes_in(answer)), 0)
            gathered.put(node, BrokerError(code, node=node.id) if code else answer)
        pending = [node for node, error in gathered.errors.items() if error.retriable]
        if not pending:
            break
    return gathered
