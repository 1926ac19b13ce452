"""Producer ids in blocks from the controller (KIP-730)."""

from __future__ import annotations

from kcli.broker.node.lifecycle import Lifecycle
from kcli.broker.node.peers import PeerError, Peers
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

_TIMEOUT_MS = 5000.0
# The next block is requested when this part of a block is left.
_PREFETCH = 0.1


class ControllerIds:
    """Assigns ids from blocks; the next block is requested before the last id of a block is used."""

    def __init__(self, peers: Peers, lifecycle: Lifecycle, node_id: int) -> None:
        self._peer = peers.controller("producer ids")
        self._lifecycle = lifecycle
        self._node_id = node_id
        self._block = range(0)
        self._next_block = range(0)
        self._is_requesting = False

    def __repr__(self) -> str:
        return f"<ControllerIds {self._block} then {self._next_block}>"

    def next(self) -> int:
        """Return a new id. BrokerError COORDINATOR_LOAD_IN_PROGRESS while the controller has not sent a block."""
        if not self._block:
            self._block, self._next_block = self._next_block, range(0)
        if not self._block:
            self._request()
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        id, self._block = self._block[0], self._block[1:]
        if not self._next_block and len(self._block) < _PREFETCH * 1000:
            self._request()
        return id

    def _request(self) -> None:
        if not self._is_requesting:
            self._is_requesting = True
            request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=self._lifecycle.epoch)
            self._peer.send(request, self._on_block, timeout_ms=_TIMEOUT_MS)

    def _on_block(self, answer: AllocateProducerIdsResponse | PeerError) -> None:
        self._is_requesting = False
        if not isinstance(answer, PeerError) and not answer.error_code:
            self._next_block = range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)
