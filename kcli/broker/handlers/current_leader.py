"""The current leader in the answers of Produce and Fetch to a client that asked another broker (KIP-951).

Not a handler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster.view import LiveBroker

UNKNOWN = -1


class CurrentLeader(NamedTuple):
    """A leader and its epoch, -1 if unknown. `address` is None unless it is live and has the client's listener."""

    leader_id: int = UNKNOWN
    leader_epoch: int = UNKNOWN
    address: LiveBroker | None = None


def current_leaders(
    broker: Broker, partitions: Iterable[TopicPartition], listener: str
) -> dict[TopicPartition, CurrentLeader]:
    """Return the leaders of these partitions, with their addresses for clients of a listener."""
    live = {node.node_id: node for node in broker.cluster.brokers(listener)}
    leaders = {}
    for tp in partitions:
        state = broker.cluster.partition_state(tp)
        if state is None:
            leaders[tp] = CurrentLeader()
        else:
            leaders[tp] = CurrentLeader(state.leader, state.leader_epoch, live.get(state.leader))
    return leaders
