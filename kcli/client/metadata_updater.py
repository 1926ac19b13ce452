"""Keeps metadata fresh: asks the least busy node when it is time.

When all known nodes are gone it goes back to the bootstrap servers (KIP-899, KIP-1102).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kcli.client.metadata import Metadata
from kcli.client.request_future import RequestFuture
from kcli.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kcli.structs import Node

if TYPE_CHECKING:
    from kcli.client.config import ClientConfig

_AUTO_CREATION_CAN_BE_REFUSED = 4  # the version of Metadata from which on


class Network(Protocol):
    """What of the network client is needed here."""

    def least_loaded_node(self, now_ms: float) -> Node | None: ...
    def ready(self, node: Node, now_ms: float) -> bool: ...
    def delay_ms(self, node_id: int, now_ms: float) -> float: ...
    def adopt(self, bootstrap: Node, node: Node) -> None: ...


#: Send to a ready node; what goes wrong is the future's.
Ask = Callable[[Node, MetadataRequest, int], "RequestFuture[MetadataResponse]"]


class MetadataUpdater:
    """`refresh` before each poll is all it needs."""

    def __init__(
        self, metadata: Metadata, config: ClientConfig, network: Network, ask: Ask, now_ms: Callable[[], float]
    ) -> None:
        self._metadata = metadata
        self._rebootstraps = config.metadata_recovery_strategy == "rebootstrap"
        self._trigger_ms = config.metadata_recovery_rebootstrap_trigger_ms
        self._lowest_version = 0 if config.allow_auto_create_topics else _AUTO_CREATION_CAN_BE_REFUSED
        self._network = network
        self._ask = ask
        self._now_ms = now_ms

    def refresh(self, now_ms: float, patience_ms: float) -> float:
        """Ask if it is time to; how long until that may be worth another look.

        While a connection is made an event will tell, but after `patience_ms` another node may be the better choice.
        """
        wait_ms = self._metadata.time_to_refresh(now_ms)
        if wait_ms > 0:
            return wait_ms
        node = self._node_to_ask(now_ms)
        if node is None:
            nodes = self._metadata.cluster.nodes
            return min((self._network.delay_ms(node_id, now_ms) for node_id in nodes), default=0.0)
        if not self._network.ready(node, now_ms):
            return min(self._network.delay_ms(node.id, now_ms), patience_ms)
        future = self._ask(node, self._metadata.next_request(now_ms), self._lowest_version)
        future.on_done(lambda done: self._answered(node, done))
        return self._metadata.time_to_refresh(now_ms)

    def _node_to_ask(self, now_ms: float) -> Node | None:
        metadata = self._metadata
        node = self._network.least_loaded_node(now_ms)
        if not self._rebootstraps or metadata.is_bootstrap:
            return node
        since_ms = metadata.attempts_since_ms
        given_up = since_ms is not None and now_ms - since_ms > self._trigger_ms
        if node is None or given_up or metadata.needs_rebootstrap:
            metadata.rebootstrap(now_ms)
            node = self._network.least_loaded_node(now_ms)
        return node

    def _answered(self, asked: Node, done: RequestFuture[MetadataResponse]) -> None:
        if done.error is not None:
            self._metadata.failed(done.error, self._now_ms())
            return
        self._metadata.update(done.value(), self._now_ms())
        if asked.id < 0:
            self._adopt_connection(asked)

    def _adopt_connection(self, bootstrap: Node) -> None:
        """A bootstrap address that some broker also advertises need not be connected to twice."""
        for node in self._metadata.cluster.nodes.values():
            if (node.host, node.port) == (bootstrap.host, bootstrap.port):
                self._network.adopt(bootstrap, node)
                return
