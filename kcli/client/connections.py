"""Opens and closes the connections of nodes, through every address that their host names have."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kcli.client.connection_states import ConnectionStates, SocketAddress
from kcli.structs import Node

if TYPE_CHECKING:
    from kcli.client.config import ClientConfig
    from kcli.network.selector import SelectorLike

Resolve = Callable[[str, int], Sequence[SocketAddress]]


def resolve(host: str, port: int) -> list[SocketAddress]:
    """Every address of a host name, in the order in which the system prefers them. Raises OSError; may block."""
    # As bytes, since for a string Python would import its tables of international names, some ten milliseconds.
    name = host.encode() if host.isascii() else host
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((int(family), sockaddr) for family, _, _, _, sockaddr in found))


class Connections:
    """One connection to each node at most. Its name at the selector is never used again, so a late event of an old one
    is not taken for the new one's."""

    def __init__(
        self, selector: SelectorLike, states: ConnectionStates, config: ClientConfig, resolve: Resolve = resolve
    ) -> None:
        self._selector = selector
        self._states = states
        self._config = config
        self._resolve = resolve
        self._nodes: dict[str, Node] = {}  # by connection
        self._last: dict[int, Node] = {}  # by id, with the address last connected to
        self._made = 0

    def __repr__(self) -> str:
        return f"<Connections {self._nodes}>"

    def node_id(self, channel_id: str) -> int | None:
        """Whose connection this is; None when it is over for us."""
        node = self._nodes.get(channel_id)
        return None if node is None else node.id

    def name(self, node_id: int) -> str:
        return str(self._last.get(node_id, f"node {node_id}"))

    def has_moved(self, node: Node) -> bool:
        """We are connected to this node, or were, at another address."""
        last = self._last.get(node.id, node)
        return (last.host, last.port) != (node.host, node.port)

    def open(self, node: Node, now_ms: float) -> None:
        """Begin to connect; the selector will tell how it went."""
        self._last[node.id] = node
        try:
            addresses = self._resolve(node.host, node.port)
        except OSError as error:
            reason = f"the host name {node.host} cannot be resolved: {error.strerror or error}"
            self._states.cannot_connect(node.id, reason, now_ms)
            return
        channel_id = self._new_channel(node)
        self._states.connecting(node.id, channel_id, addresses, now_ms)
        self._connect(channel_id, addresses[0])

    def open_next_address(self, node_id: int, now_ms: float) -> bool:
        """Go on with the next address of a node that did not become ready at this one; False when it was the last."""
        if not self._states.has_next_address(node_id):
            return False
        channel_id = self._new_channel(self._last[node_id])
        self._connect(channel_id, self._states.connecting_next_address(node_id, channel_id, now_ms))
        return True

    def close(self, node_id: int) -> None:
        """End the connection; the selector will not mention it any more. Fine when there is none."""
        channel_id = self._states.of(node_id).channel_id
        self._selector.close(channel_id)
        self._nodes.pop(channel_id, None)

    def adopt(self, old_id: int, node: Node) -> bool:
        """Let `node` have the ready connection of `old_id`; False when it has one or there is none."""
        if not self._states.adopt(old_id, node.id):
            return False
        self._nodes[self._states.of(node.id).channel_id] = node
        self._last[node.id] = node
        return True

    def _new_channel(self, node: Node) -> str:
        self._made += 1
        channel_id = f"node{node.id}#{self._made}"
        self._nodes[channel_id] = node
        return channel_id

    def _connect(self, channel_id: str, address: SocketAddress) -> None:
        self._selector.connect(
            channel_id,
            address,
            send_buffer_bytes=self._config.send_buffer_bytes,
            receive_buffer_bytes=self._config.receive_buffer_bytes,
        )
