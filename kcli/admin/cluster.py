"""The cluster: id, controller, brokers, and the API versions of each broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli import __version__
from kcli.client.requests import Results, ask_any, ask_nodes
from kcli.errors import ProtocolError, UnsupportedVersion
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.registry import ApiKey, request_type

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.api_versions import ApiVersionsResponse
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
    """API versions of one broker by API key; by name, the features that it supports and their finalized levels."""

    apis: Mapping[int, VersionRange]
    supported_features: Mapping[str, VersionRange]
    features: Mapping[str, int] = {}


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


def api_versions(
    client: ConsumerNetworkClient, nodes: Iterable[Node], deadline_ms: float
) -> Results[Node, NodeVersions]:
    """Return the API versions of each of these brokers; one that does not answer is an error."""

    request = ApiVersionsRequest(client_software_name="kcli", client_software_version=__version__)
    answers = ask_nodes(client, nodes, request, deadline_ms)
    return Results({node: _versions(response) for node, response in answers.values.items()}, answers.errors)


def _versions(response: ApiVersionsResponse) -> NodeVersions:
    return NodeVersions(
        {api.api_key: VersionRange(api.min_version, api.max_version) for api in response.api_keys},
        {
            feature.name: VersionRange(feature.min_version, feature.max_version)
            for feature in response.supported_features
        },
        {row.name: row.max_version_level for row in response.finalized_features},
    )


def own_versions() -> dict[int, VersionRange]:
    """Return the versions of each API that kcli implements. Imports all of its messages."""
    return {int(key): VersionRange(*request_type(key).VERSIONS) for key in ApiKey}


def highest_common(supported: VersionRange | None, offered: VersionRange | None) -> int | None:
    """Return the highest version that both sides support; None without a common version. Pure."""
    if supported is None or offered is None:
        return None
    highest = min(supported.last, offered.last)
    return highest if highest >= max(supported.first, offered.first) else None
