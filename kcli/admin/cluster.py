"""The cluster: id, controller, brokers, and the API versions of each broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.client.requests import ask_any, ask_node
from kcli.errors import BrokerError, ProtocolError, UnsupportedVersion

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.structs import Node


class Broker(NamedTuple):
    """A broker and its address. `fenced`: registered but not serving; None from clusters that do not return it."""

    id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool | None = None


class ClusterDescription(NamedTuple):
    """A cluster as a broker describes it. In KRaft `controller_id` is a broker that forwards to the controller."""

    cluster_id: str | None
    controller_id: int
    brokers: list[Broker]


class VersionRange(NamedTuple):
    """Versions of one API, both ends inclusive; `first` above `last`: no version."""

    first: int
    last: int


class NodeVersions(NamedTuple):
    """API versions of one broker by API key, and the finalized levels of the cluster's features by name."""

    node: Node
    apis: dict[int, VersionRange]
    features: dict[str, int]


def describe_cluster(client: ConsumerNetworkClient, deadline_ms: float) -> ClusterDescription:
    """Return id, controller and brokers; with fenced brokers if the cluster returns them (KIP-700, KIP-1073)."""
    from kcli.protocol.messages.describe_cluster import DescribeClusterRequest

    try:
        try:
            response, has_fenced = (
                ask_any(client, DescribeClusterRequest(include_fenced_brokers=True), deadline_ms),
                True,
            )
        except ProtocolError:  # before 4.1: the version of the broker has no such field
            response, has_fenced = ask_any(client, DescribeClusterRequest(), deadline_ms), False
    except UnsupportedVersion:  # before 2.8
        cluster = client.topics_metadata([], deadline_ms)
        brokers = [Broker(*node) for node in sorted(cluster.nodes.values())]
        return ClusterDescription(cluster.cluster_id, cluster.controller_id, brokers)
    if response.error_code:
        raise response.broker_error(response.error_code, response.error_message, api="DescribeCluster")
    brokers = [
        Broker(b.broker_id, b.host, b.port, b.rack, b.is_fenced if has_fenced else None) for b in response.brokers
    ]
    return ClusterDescription(response.cluster_id, response.controller_id, sorted(brokers, key=lambda b: b.id))


def api_versions(client: ConsumerNetworkClient, node: Node, deadline_ms: float) -> NodeVersions:
    """Request the API versions of this broker."""
    from kcli import __version__
    from kcli.protocol.messages.api_versions import ApiVersionsRequest

    request = ApiVersionsRequest(client_software_name="kcli", client_software_version=__version__)
    response = ask_node(client, node, request, deadline_ms)
    if response.error_code:
        raise BrokerError(response.error_code, node=node.id)
    apis = {api.api_key: VersionRange(api.min_version, api.max_version) for api in response.api_keys}
    features = {feature.name: feature.max_version_level for feature in response.finalized_features}
    return NodeVersions(node, apis, features)


def own_versions() -> dict[int, VersionRange]:
    """Return the versions of each API that kcli implements. Imports all of its messages."""
    from kcli.protocol.registry import ApiKey, request_type

    return {int(key): VersionRange(*request_type(key).VERSIONS) for key in ApiKey}


def highest_common(supported: VersionRange | None, offered: VersionRange | None) -> int | None:
    """Return the highest version that both sides support; None without a common version. Pure."""
    if supported is None or offered is None:
        return None
    highest = min(supported.last, offered.last)
    return highest if highest >= max(supported.first, offered.first) else None
