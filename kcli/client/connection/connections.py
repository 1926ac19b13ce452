"""The connection of each node: its channel and the addresses of its host name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kcli.client.connection.connection_states import ConnectionStates, SocketAddress
from kcli.host_names import resolve
from kcli.network.channel import HANDSHAKING
from kcli.network.transport import PlainTransport, TransportFactory
from kcli.structs import Node

if TYPE_CHECKING:
    from kcli.client.config import ClientConfig
    from kcli.client.connection.security import ClientSecurity
    from kcli.network.selector import Selector

Resolve = Callable[[str, int], Sequence[SocketAddress]]


def address_of(node: Node) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"


class Connections:
    """At most one connection per node, with all addresses of its host name.

    A channel id is never used again, so a late event of an old connection cannot be taken for one of the new.
    """

    def __init__(
        self,
        selector: Selector,
        states: ConnectionStates,
        config: ClientConfig,
        resolve: Resolve = resolve,
        security: ClientSecurity | None = None,
    ) -> None:
        self._selector = selector
        self._states = states
        self._config = config
        self._resolve = resolve
        self._security = security
        self._nodes: dict[str, Node] = {}  # by channel id
        self._last_nodes: dict[int, Node] = {}  # by id, with the address of the last attempt
        self._channel_count = 0

    def __repr__(self) -> str:
        return f"<Connections {self._nodes}>"

    def node_id(self, channel_id: str) -> int | None:
        """Return the id of the node of a channel; None after `close`."""
        node = self._nodes.get(channel_id)
        return None if node is None else node.id

    def name(self, node_id: int) -> str:
        return str(self._last_nodes.get(node_id, f"node {node_id}"))

    def node(self, node_id: int) -> Node:
        """Return a node as it was at the last attempt to connect to it."""
        return self._last_nodes[node_id]

    def has_moved(self, node: Node) -> bool:
        """Return whether the last connection to this node was to another address."""
        last = self._last_nodes.get(node.id, node)
        return (last.host, last.port) != (node.host, node.port)

    def open(self, node: Node, now_ms: float) -> None:
        """Start to connect. The selector reports the outcome."""
        self._last_nodes[node.id] = node
        try:
            addresses = self._resolve(node.host, node.port)
        except OSError as error:
            reason = f"the host name {node.host} cannot be resolved: {error.strerror or error}"
            self._states.unresolved(node.id, reason, now_ms)
            return
        channel_id = self._new_channel(node)
        self._states.connecting(node.id, channel_id, addresses, now_ms)
        self._connect(channel_id, addresses[0], node.host)

    def open_next_address(self, node_id: int, now_ms: float) -> bool:
        """Continue with the next address of a node that did not become ready. Return False after the last one."""
        if not self._states.has_next_address(node_id):
            return False
        node = self._last_nodes[node_id]
        channel_id = self._new_channel(node)
        self._connect(channel_id, self._states.connecting_next_address(node_id, channel_id, now_ms), node.host)
        return True

    def in_handshake(self, node_id: int) -> bool:
        """True if the TCP connection of a node is established and TLS is not complete."""
        channel = self._selector.channel(self._states.of(node_id).channel_id)
        return channel is not None and channel.state == HANDSHAKING

    def close(self, node_id: int) -> None:
        """Close the connection, if there is one; the selector reports no more events for it."""
        channel_id = self._states.of(node_id).channel_id
        self._selector.close(channel_id)
        self._nodes.pop(channel_id, None)

    def adopt(self, old_id: int, node: Node) -> bool:
        """Move the ready connection of `old_id` to `node`. Return False if it has one, or there is none."""
        if not self._states.adopt(old_id, node.id):
            return False
        self._nodes[self._states.of(node.id).channel_id] = node
        self._last_nodes[node.id] = node
        return True

    def _new_channel(self, node: Node) -> str:
        self._channel_count += 1
        channel_id = f"node{node.id}#{self._channel_count}"
        self._nodes[channel_id] = node
        return channel_id

    def _connect(self, channel_id: str, address: SocketAddress, host: str) -> None:
        transport: TransportFactory = PlainTransport if self._security is None else self._security.transport(host)
        self._selector.connect(
            channel_id,
            address,
            send_buffer_bytes=self._config.send_buffer_bytes,
            receive_buffer_bytes=self._config.receive_buffer_bytes,
            transport=transport,
        )
