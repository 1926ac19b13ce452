"""The cluster itself: its id, controller and brokers, and which versions of which APIs each broker speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.client.requests import ask_any, ask_node
from kcli.errors import BrokerError, ProtocolError, UnsupportedVersion

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.structs import Node


class Broker(NamedTuple):
    """A broker and where it listens. Fenced: registered, but not serving; None where the cluster is too old to say."""

    id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool | None = None


class ClusterDescription(NamedTuple):
    """What a broker says of its cluster. In KRaft `controller_id` is a broker that forwards to the controller."""

    cluster_id: str | None
    controller_id: int
    brokers: list[Broker]


class VersionRange(NamedTuple):
    """Versions of one API, both ends included; `first` above `last`: none."""

    first: int
    last: int


class NodeVersions(NamedTuple):
    """What one broker speaks: ranges by API key, and the finalized levels of the cluster's features by name."""

    node: Node
    apis: dict[int, VersionRange]
    features: dict[str, int]


def describe_cluster(client: ConsumerNetworkClient, deadline_ms: float) -> ClusterDescription:
    """Id, controller and brokers, fenced ones included where the cluster can tell (KIP-700, KIP-1073)."""
    from kcli.protocol.messages.describe_cluster import DescribeClusterRequest

    try:
        try:
            response, tells_fenced = (
                ask_any(client, DescribeClusterRequest(include_fenced_brokers=True), deadline_ms),
                True,
            )
        except ProtocolError:  # before 4.1: the request cannot be written in the broker's version
            response, tells_fenced = ask_any(client, DescribeClusterRequest(), deadline_ms), False
    except UnsupportedVersion:  # before 2.8
        cluster = client.topics_metadata([], deadline_ms)
        brokers = [Broker(*node) for node in sorted(cluster.nodes.values())]
        return ClusterDescription(cluster.cluster_id, cluster.controller_id, brokers)
    if response.error_code:
        raise BrokerError(response.error_code, response.error_message, api="DescribeCluster")
    brokers = [
        Broker(b.broker_id, b.host, b.port, b.rack, b.is_fenced if tells_fenced else None) for b in response.brokers
    ]
    return ClusterDescription(response.cluster_id, response.controller_id, sorted(brokers, key=lambda b: b.id))


def api_versions(client: ConsumerNetworkClient, node: Node, deadline_ms: float) -> NodeVersions:
    """What this broker speaks, asked anew."""
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
    """The versions of each API that kcli speaks. Imports all of its messages."""
    from kcli.protocol.registry import ApiKey, request_type

    return {int(key): VersionRange(*request_type(key).VERSIONS) for key in ApiKey}


def highest_common(ours: VersionRange | None, theirs: VersionRange | None) -> int | None:
    """The version that two sides agree on: the highest that both speak. Pure."""
    if ours is None or theirs is None:
        return None
    highest = min(ours.last, theirs.last)
    return highest if highest >= max(ours.first, theirs.first) else None
