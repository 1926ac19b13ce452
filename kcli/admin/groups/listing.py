"""Lists of groups: one ListGroups for each broker, side by side; selection by name, pattern, state, type or topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.admin.groups.group import CLASSIC, CONSUMER, SHARE, STREAMS, is_absent
from kcli.client.requests import Results, ask_nodes, half_deadline
from kcli.client.routing import Coordinators, all_brokers
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, UnsupportedVersion
from kcli.structs import Node
from kcli.text import did_you_mean, group_text

if TYPE_CHECKING:
    import re

    from kcli.admin.groups.group import Group
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

_FIRST_WITH_STATES, _FIRST_WITH_TYPES = 4, 5

TYPES = (CLASSIC, CONSUMER, SHARE, STREAMS)
# Brokers before 4.0 know a state only in exactly this spelling.
STATES = (
    *("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead"),
    *("Assigning", "Reconciling", "NotReady"),
)
_SPELLED = {state.lower(): state for state in STATES}


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it.

    `type` is classic, consumer, share, streams or a name that a newer broker returns; classic where brokers return no
    type (before 3.8). `state` is "" from brokers before 2.6. `protocol_type` is "consumer" for consumers, "connect" for
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
    """Return the groups of each broker, sorted by name; only those in one of the states and of one of the types.

    Case does not matter in states and types; () means any. A broker that does not answer within half of the time is an
    error under its node; UnsupportedVersion if it is too old to return the requested states.
    """
    group_filter = _Filter(frozenset(map(str.lower, states)), frozenset(map(str.lower, types)))
    nodes = all_brokers(client, deadline_ms)
    until_ms = half_deadline(client, deadline_ms)
    results = ask_nodes(client, nodes, group_filter.request(), until_ms, min_version=group_filter.min_version)
    old = [node for node, error in results.errors.items() if isinstance(error, UnsupportedVersion)]
    if group_filter.types and old:  # brokers that know no types may know states
        by_state = group_filter._replace(types=frozenset())
        more = ask_nodes(client, old, by_state.request(), until_ms, min_version=by_state.min_version)
        results.values.update(more.values)
        results.errors = {**{n: e for n, e in results.errors.items() if n not in old}, **more.errors}
    listed = {
        node: sorted(group for group in _listed(results.values[node], node) if group_filter.accepts(group))
        for node in nodes
        if node in results.values
    }
    return Results(listed, results.errors)


class _Filter(NamedTuple):
    """States and types. Brokers apply those that they know (KIP-518, KIP-848); `accepts` checks their responses."""

    states: frozenset[str]
    types: frozenset[str]

    @property
    def min_version(self) -> int | None:
        return _FIRST_WITH_TYPES if self.types else _FIRST_WITH_STATES if self.states else None

    def request(self) -> ListGroupsRequest:
        from kcli.protocol.messages.list_groups import ListGroupsRequest

        states = sorted(_SPELLED.get(state, state) for state in self.states)
        return ListGroupsRequest(states_filter=states, types_filter=sorted(self.types))

    def accepts(self, group: ListedGroup) -> bool:
        in_state = not self.states or group.state.lower() in self.states
        return in_state and (not self.types or group.type in self.types)


def _listed(response: ListGroupsResponse, node: Node) -> Iterator[ListedGroup]:
    for group in response.groups:
        kind = group.group_type.lower() or CLASSIC
        yield ListedGroup(group.group_id, kind, group.group_state, group.protocol_type, node)


class SelectedGroups(NamedTuple):
    """Selected groups (name -> type, None: unknown), sorted, and the brokers that did not return their groups."""

    groups: dict[str, str | None]
    failed_brokers: dict[Node, KcliError]

    def failures(self, results: Results[str, Any]) -> list[KcliError]:
        """Return the errors of whole groups in these results, and those of brokers."""
        return [*results.errors.values(), *self.failed_brokers.values()]


def select_groups(
    client: ConsumerNetworkClient, names: Sequence[str], pattern: re.Pattern[str] | None, deadline_ms: float
) -> SelectedGroups:
    """Return the groups with these `names` (no request is sent for that), else all whose name contains `pattern`."""
    if names:
        return SelectedGroups(dict.fromkeys(names), {})
    listed = list_groups(client, deadline_ms)
    groups = {g.group: g.type for found in listed.values.values() for g in found if _matches(pattern, g.group)}
    return SelectedGroups(dict(sorted(groups.items())), listed.errors)


def with_suggestions(
    client: ConsumerNetworkClient, errors: Mapping[str, KcliError], deadline_ms: float
) -> dict[str, KcliError]:
    """Return the errors of groups; that of a group that does not exist names existing groups with similar names."""
    code = ErrorCode.GROUP_ID_NOT_FOUND
    hints = similar_groups(client, [name for name, error in errors.items() if is_absent(error)], deadline_ms)
    return {
        **errors,
        **{name: BrokerError(code, f"there is no group {group_text(name)}{hint}") for name, hint in hints.items()},
    }


def similar_groups(client: ConsumerNetworkClient, absent: Sequence[str], deadline_ms: float) -> dict[str, str]:
    """Return ` (did you mean billing?)` for each of these groups that has a similar name to an existing group.

    Without `absent` groups, no request is sent. If the groups cannot be listed, there are no suggestions.
    """
    existing: list[str] = []
    if absent:
        with suppress(KcliError):
            listed = list_groups(client, half_deadline(client, deadline_ms))
            existing = [group.group for groups in listed.values.values() for group in groups]
    return {name: hint for name in absent if (hint := did_you_mean(name, existing))}


def _matches(pattern: re.Pattern[str] | None, name: str) -> bool:
    return pattern is None or pattern.search(name) is not None


class FoundGroups(NamedTuple):
    """Groups of a cluster by name, sorted; their descriptions, None if not requested; and the brokers that failed."""

    listed: dict[str, ListedGroup]
    described: Results[str, Group] | None
    failed_brokers: dict[Node, KcliError]


def find_groups(
    client: ConsumerNetworkClient,
    deadline_ms: float,
    *,
    states: Iterable[str] = (),
    types: Iterable[str] = (),
    pattern: re.Pattern[str] | None = None,
    topic: str | None = None,
    describe: bool = True,
) -> FoundGroups:
    """Return the groups in these states, of these types, with `pattern` in the name and a subscription or offset in
    `topic`.

    Descriptions and topics cost another request to each coordinator. A group that is deleted meanwhile is left out.
    Where the offsets of a group cannot be read, the group counts as one of the topic.
    """
    by_broker = list_groups(client, deadline_ms, states, types)
    listed = {g.group: g for groups in by_broker.values.values() for g in groups if _matches(pattern, g.group)}
    described: Results[str, Group] | None = None
    if describe or topic is not None:
        from kcli.admin.groups.describe import describe_groups

        coordinators = Coordinators(client)
        kinds = {name: group.type for name, group in listed.items()}
        described = describe_groups(client, kinds, deadline_ms, coordinators=coordinators)
        deleted = {name for name, error in described.errors.items() if is_absent(error)}
        listed = {name: group for name, group in listed.items() if name not in deleted}
        if topic is not None:
            of_topic = _groups_of_topic(client, described.values, topic, deadline_ms, coordinators)
            listed = {name: g for name, g in listed.items() if name in of_topic or name in described.errors}
    return FoundGroups(dict(sorted(listed.items())), described, by_broker.errors)


def _groups_of_topic(
    client: ConsumerNetworkClient,
    groups: Mapping[str, Group],
    topic: str,
    deadline_ms: float,
    coordinators: Coordinators,
) -> set[str]:
    from kcli.admin.groups.committed_offsets import group_offsets

    names = {name for name, group in groups.items() if topic in group.topics}
    others = [group for name, group in groups.items() if name not in names]
    results = group_offsets(client, others, deadline_ms, coordinators)
    names.update(results.errors)
    names.update(name for name, offsets in results.values.items() if any(tp.topic == topic for tp in offsets))
    return names
