"""Questions to the coordinators of many groups, who are looked up once, and again only where they have proved wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from kcli.client.gather import Gathered, Located, gather
from kcli.client.routing import GROUP, find_coordinators
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.wire import Request
    from kcli.structs import Node

T = TypeVar("T")
R = TypeVar("R")


class Coordinators:
    """Who coordinates which group, as far as somebody had to know; one FindCoordinator for all that are new."""

    def __init__(self, client: ConsumerNetworkClient) -> None:
        self._client = client
        self._nodes: dict[str, Node] = {}

    def __repr__(self) -> str:
        return f"<Coordinators of {len(self._nodes)} groups on {len(set(self._nodes.values()))} nodes>"

    def node(self, group: str) -> Node:
        """The coordinator that last answered for this group, with its rack if the cluster told one."""
        node = self._nodes[group]
        return self._client.metadata.cluster.nodes.get(node.id, node)

    def ask(
        self,
        groups: Iterable[str],
        build: Callable[[list[str]], Request[R]],
        read: Callable[[R], Iterable[tuple[str, T | KcliError]]],
        deadline_ms: float,
        *,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> Gathered[str, T]:
        """Ask the coordinator of each group, one request for each node; again when it has moved or is loading."""
        return gather(
            self._client,
            groups,
            self._locate,
            lambda _node, asked: build(asked),
            read,
            deadline_ms,
            min_version=min_version,
            max_version=max_version,
        )

    def _locate(self, groups: Sequence[str], failures: Mapping[str, KcliError], deadline_ms: float) -> Located[str]:
        doubtful = [group for group in groups if group in failures or group not in self._nodes]
        found = find_coordinators(self._client, doubtful, GROUP, deadline_ms)
        self._nodes.update(found.values)
        located: Located[str] = Located()
        located.absent = found.errors
        for group in groups:
            if group not in found.errors:
                located.by_node.setdefault(self._nodes[group], []).append(group)
        return located
