"""Which groups there are: one ListGroups for each broker, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.model import CLASSIC
from kcli.admin.groups.patience import half_of
from kcli.client.requests import Results, ask_nodes
from kcli.client.routing import all_brokers
from kcli.errors import UnsupportedVersion
from kcli.structs import Node

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

_FIRST_WITH_STATES, _FIRST_WITH_TYPES = 4, 5

# Brokers before 4.0 know a state by exactly this spelling only.
STATES = (
    *("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead"),
    *("Assigning", "Reconciling", "NotReady"),
)
_SPELLED = {state.lower(): state for state in STATES}


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it.

    `type`: classic, consumer, share, streams or what a newer broker says; where brokers tell no types (before 3.8) all
    are classic. `state` is "" from brokers older than 2.6. `protocol_type` is "consumer" for consumers, "connect" for
    Connect's workers, "" for a group that only has committed offsets.
    """

    group: str
    type: str
    state: str
    protocol_type: str
    coordinator: Node


def list_groups(
    client: ConsumerNetworkClient, deadline_ms: float, states: Iterable[str] = (), types: Iterable[str] = ()
) -> Results[Node, list[ListedGroup]]:
    """The groups of each broker, sorted by name; only those in one of these states and of one of these types.

    Case does not matter in states and types; () is any. A broker that does not answer within half of the time is an
    error under its node, and UnsupportedVersion if it is too old to tell the states that were asked for.
    """
    wanted = _Wanted(frozenset(map(str.lower, states)), frozenset(map(str.lower, types)))
    nodes = all_brokers(client, deadline_ms)
    until_ms = half_of(client, deadline_ms)
    told = ask_nodes(client, nodes, wanted.request(), until_ms, min_version=wanted.min_version)
    old = [node for node, error in told.errors.items() if isinstance(error, UnsupportedVersion)]
    if wanted.types and old:  # those that know no types may still know states
        fewer = wanted._replace(types=frozenset())
        more = ask_nodes(client, old, fewer.request(), until_ms, min_version=fewer.min_version)
        told.values.update(more.values)
        told.errors = {**{n: e for n, e in told.errors.items() if n not in old}, **more.errors}
    listed = {
        node: sorted(group for group in _listed(told.values[node], node) if wanted.fits(group))
        for node in nodes
        if node in told.values
    }
    return Results(listed, told.errors)


class _Wanted(NamedTuple):
    """The filter, which brokers apply as far as they know it (KIP-518, KIP-848) and we apply to what they let pass."""

    states: frozenset[str]
    types: frozenset[str]

    @property
    def min_version(self) -> int | None:
        return _FIRST_WITH_TYPES if self.types else _FIRST_WITH_STATES if self.states else None

    def request(self) -> ListGroupsRequest:
        from kcli.protocol.messages.list_groups import ListGroupsRequest

        states = sorted(_SPELLED.get(state, state) for state in self.states)
        return ListGroupsRequest(states_filter=states, types_filter=sorted(self.types))

    def fits(self, group: ListedGroup) -> bool:
        """The group is in one of the states and of one of the types."""
        in_state = not self.states or group.state.lower() in self.states
        return in_state and (not self.types or group.type in self.types)


def _listed(response: ListGroupsResponse, node: Node) -> Iterator[ListedGroup]:
    for told in response.groups:
        kind = told.group_type.lower() or CLASSIC
        yield ListedGroup(told.group_id, kind, told.group_state, told.protocol_type, node)
