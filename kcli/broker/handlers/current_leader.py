"""The current leaders in the answers of Produce and Fetch to a client that asked another broker (KIP-951).

Not a handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.structs import TopicPartition

E = TypeVar("E")


def add_leaders(
    broker: Broker, rows: Iterable[tuple[TopicPartition, Any]], listener: str, endpoint: Callable[..., E]
) -> list[E]:
    """Set the current leader in rows of an answer, and return the leaders' addresses for clients of a listener.

    A leader that is not known is -1. `endpoint` is the type of the addresses; one is left out unless its broker is live
    and has the listener.
    """
    live = {node.node_id: node for node in broker.cluster.brokers(listener)}
    leaders = {}
    for tp, row in rows:
        make_leader, state = type(row.current_leader), broker.cluster.partition_state(tp)
        if state is None:
            row.current_leader = make_leader()
        else:
            row.current_leader = make_leader(leader_id=state.leader, leader_epoch=state.leader_epoch)
            if state.leader in live:
                leaders[state.leader] = live[state.leader]
    return [endpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack) for node in leaders.values()]
