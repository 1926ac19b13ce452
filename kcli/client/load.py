"""Which node to ask what any node can answer. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.client.connection_states import ConnectionStates
from kcli.client.in_flight import InFlightRequests
from kcli.structs import Node

# Best first. A connection under way is waited for, unless it has kept us waiting and there is another node to try.
_IDLE, _BUSY, _FULL, _CONNECTING, _UNTRIED, _SLOW = range(6)


def least_loaded(
    nodes: Sequence[Node], states: ConnectionStates, in_flight: InFlightRequests, now_ms: float, patience_ms: float
) -> Node | None:
    """The best of `nodes`, the first among equals; None when all were lost and are not to be tried again yet."""
    best, best_rank = None, None
    for node in nodes:
        rank = _rank(node.id, states, in_flight, now_ms, patience_ms)
        if rank is not None and (best_rank is None or rank < best_rank):
            best, best_rank = node, rank
    return best


def _rank(
    node_id: int, states: ConnectionStates, in_flight: InFlightRequests, now_ms: float, patience_ms: float
) -> tuple[int, float] | None:
    attempted_ms = states.of(node_id).last_attempt_ms
    if states.is_ready(node_id):
        count = in_flight.count(node_id)
        if states.is_throttled(node_id, now_ms) or not in_flight.can_send(node_id):
            return _FULL, count
        return (_BUSY if count else _IDLE), count
    if states.is_preparing(node_id):
        return (_CONNECTING if now_ms - attempted_ms < patience_ms else _SLOW), attempted_ms
    return (_UNTRIED, attempted_ms) if states.can_connect(node_id, now_ms) else None
