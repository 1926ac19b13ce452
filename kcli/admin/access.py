"""The brokers that a client reaches, and the operations that it may do, step by step: for `kcli profile check`.

Brokers return the authorized operations of the principal with their descriptions (KIP-430). A cluster without an
authorizer allows all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kcli.admin.cluster import api_versions
from kcli.admin.groups.group import CLASSIC, CONSUMER
from kcli.client.connection.connection_check import Facts, Step
from kcli.client.requests import ask_any, half_deadline
from kcli.client.routing import Coordinators, all_brokers
from kcli.errors import BrokerError, DisconnectedError, KcliError, UnsupportedVersion
from kcli.protocol.acls import operation_names
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.text import format_count

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.wire import Request

# The operations to count that Kafka has for a resource (AclEntry.supportedOperations): a group has no WRITE.
_COUNTED = {"topic": ("DESCRIBE", "READ", "WRITE"), "group": ("DESCRIBE", "READ", "DELETE")}
_PATIENCE_MS = 5_000.0
_MOST_GROUPS = 1_000
_FEW = 3
_UNKNOWN = -(2**31)


def check_access(client: ConsumerNetworkClient, deadline_ms: float) -> Iterator[Step]:
    """Yield one step each for the cluster, its brokers, its topics and its groups. Errors are values.

    `brokers` connects to the addresses that the brokers advertise, which differ from the bootstrap servers.
    """
    failed = False
    for name, action in _ACTIONS.items():
        if failed:
            yield Step(name)
            continue
        try:
            detail, facts = action(client, half_deadline(client, deadline_ms))
            yield Step(name, None, detail, facts=facts)
        except UnsupportedVersion as error:
            yield Step(name, None, f"unknown: {error.message}")
        except KcliError as error:
            failed = name == "cluster"
            yield Step(name, error=error)


def _cluster(client: ConsumerNetworkClient, deadline_ms: float) -> tuple[str, Facts]:
    from kcli.protocol.messages.describe_cluster import DescribeClusterRequest

    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = ask_any(client, request, deadline_ms)
    if response.error_code:
        raise response.broker_error(response.error_code, response.error_message, api="DescribeCluster")
    operations = _names(response.cluster_authorized_operations)
    facts = {"cluster_id": response.cluster_id, "brokers": len(response.brokers), "operations": operations}
    shown = "unknown" if operations is None else ", ".join(operations) or "none"
    return f"cluster {response.cluster_id}; operations on the cluster: {shown}", facts


def _brokers(client: ConsumerNetworkClient, deadline_ms: float) -> tuple[str, Facts]:
    nodes = all_brokers(client, deadline_ms)
    answers = api_versions(client, nodes, min(deadline_ms, client.clock.now_ms() + _PATIENCE_MS))
    if answers.errors:
        first, *others = answers.errors.values()
        more = f" (and {len(others)} more)" if others else ""
        problem = f"{len(answers.errors)} of {len(nodes)} brokers cannot be used: {first.message}{more}"
        raise type(first)(problem) if not isinstance(first, BrokerError) else DisconnectedError(problem)
    shown = ", ".join(f"{node.host}:{node.port}" for node in nodes[:_FEW]) + (", ..." if len(nodes) > _FEW else "")
    return f"{len(nodes)} of {len(nodes)} answer at their advertised addresses: {shown}", {"brokers": len(nodes)}


def _topics(client: ConsumerNetworkClient, deadline_ms: float) -> tuple[str, Facts]:
    request = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    response = ask_any(client, request, deadline_ms, min_version=8)
    return _counted("topic", [topic.topic_authorized_operations for topic in response.topics])


def _groups(client: ConsumerNetworkClient, deadline_ms: float) -> tuple[str, Facts]:
    from kcli.admin.groups.listing import list_groups

    listed = list_groups(client, deadline_ms)
    for error in listed.errors.values():
        raise error
    groups = [group for of_node in listed.values.values() for group in of_node]
    operations: list[int] = []
    for kind, request in ((CLASSIC, _classic_request), (CONSUMER, _consumer_request)):
        names = [group.group for group in groups if group.type == kind][:_MOST_GROUPS]
        described = Coordinators(client).ask(names, request, _operations, deadline_ms)
        operations += described.values.values()
    return _counted("group", operations, visible=len(groups))


def _classic_request(names: list[str]) -> Request[Any]:
    from kcli.protocol.messages.describe_groups import DescribeGroupsRequest

    return DescribeGroupsRequest(groups=names, include_authorized_operations=True)


def _consumer_request(names: list[str]) -> Request[Any]:
    from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    return ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=True)


def _operations(response: Any) -> Iterator[tuple[str, int | KcliError]]:
    for group in response.groups:
        yield (
            group.group_id,
            BrokerError(group.error_code, group=group.group_id) if group.error_code else group.authorized_operations,
        )


def _counted(noun: str, operations: Iterable[int], visible: int | None = None) -> tuple[str, Facts]:
    """Return the number of visible topics or groups, and of those on which each operation is authorized."""
    known = [names for bits in operations if (names := _names(bits)) is not None]
    counts = Counter(name for names in known for name in names)
    visible = len(known) if visible is None else visible
    facts: Facts = {"visible": visible, **{name.lower(): counts[name] for name in _COUNTED[noun]}}
    counted = ", ".join(f"{name} on {counts[name]}" for name in _COUNTED[noun])
    return f"{format_count(visible, noun)} visible; {counted}", facts


def _names(bits: int) -> list[str] | None:
    """Return the names of authorized operations; None if the broker did not return them."""
    return None if bits == _UNKNOWN else operation_names(bits)


_ACTIONS: Mapping[str, Callable[[ConsumerNetworkClient, float], tuple[str, Facts]]] = {
    "cluster": _cluster,
    "brokers": _brokers,
    "topics": _topics,
    "groups": _groups,
}
#: The names of the steps.
STEPS = tuple(_ACTIONS)
