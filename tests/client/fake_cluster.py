"""Fake brokers behind a `MemorySelector`, with configurable responses and a record of the requests."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, NamedTuple

from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.clock import ManualClock
from kcli.errors import KcliError
from kcli.protocol.codec import decode
from kcli.protocol.headers import decode_request_header, encode_response
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kcli.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.protocol.registry import ApiKey, request_type
from kcli.protocol.wire import Message
from kcli.structs import Node
from tests.network.memory import MemoryPeer, MemorySelector

UNKNOWN_TOPIC = 3

#: (peer, request, version) -> a response message, a whole frame as bytes, or None for no response.
Answer = Callable[[MemoryPeer, Any, int], "Message | bytes | None"]


class Asked(NamedTuple):
    """A request that a broker received."""

    address: str
    version: int
    correlation_id: int
    request: Any


class FakeCluster:
    """`nodes` are the brokers in metadata; the selector's `refuse`, `hold` and `listen` decide which are reachable.

    `topics`: name -> partition -> (leader, epoch). `versions`: API key -> (lowest, highest), for ApiVersions.
    `answers` replaces or adds responses by API key. `asked` are the requests received.
    """

    def __init__(self, *addresses: str) -> None:
        self.clock = ManualClock()
        self.selector = MemorySelector(self.clock)
        self.selector.respond = self._respond
        self.nodes = {number: _node(number, address) for number, address in enumerate(addresses, 1)}
        self.topics: dict[str, dict[int, tuple[int, int]]] = {}
        self.topic_errors: dict[str, int] = {}
        self.versions: dict[int, tuple[int, int]] = {int(key): request_type(key).VERSIONS for key in ApiKey}
        self.answers: dict[int, Answer] = {ApiKey.API_VERSIONS: self._api_versions, ApiKey.METADATA: self._metadata}
        self.asked: list[Asked] = []
        self.hosts: dict[str, list[str]] = {}

    def connect(self, bootstrap: str, **properties: str | int) -> ConsumerNetworkClient:
        """A client of this cluster, without randomness; property names with underscores."""
        given = {name.replace("_", "."): value for name, value in properties.items()}
        config = ClientConfig.from_properties({"bootstrap.servers": bootstrap, **given})
        return connect(config, self.clock, selector=self.selector, resolve=self.resolve, uniform=in_the_middle)

    def resolve(self, host: str, port: int) -> list[tuple[int, Any]]:
        """The name service: each host is its own address, unless `hosts` has others (an empty list: unknown host)."""
        addresses = self.hosts.get(host, [host])
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, (address, port)) for address in addresses]

    def requests(self, key: ApiKey) -> list[Asked]:
        """The requests of one API, oldest first."""
        return [asked for asked in self.asked if key == asked.request.API_KEY]

    def _respond(self, peer: MemoryPeer, frame: bytes) -> None:
        header, start = decode_request_header(frame)
        request = decode(request_type(header.api_key), frame, header.api_version, start)
        self.asked.append(Asked(peer.address, header.api_version, header.correlation_id, request))
        answer = self.answers.get(header.api_key)
        response = answer(peer, request, header.api_version) if answer is not None else None
        if isinstance(response, bytes):
            peer.deliver(response)
        elif response is not None:
            peer.deliver(encode_response(response, header.api_version, header.correlation_id))

    def _api_versions(self, _peer: MemoryPeer, _request: Any, _version: int) -> ApiVersionsResponse:
        return ApiVersionsResponse(api_keys=self.offered())

    def offered(self) -> list[ApiVersion]:
        return [ApiVersion(api_key=k, min_version=low, max_version=high) for k, (low, high) in self.versions.items()]

    def _metadata(self, _peer: MemoryPeer, request: MetadataRequest, _version: int) -> MetadataResponse:
        names = list(self.topics) if request.topics is None else [topic.name or "" for topic in request.topics]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=n.id, host=n.host, port=n.port) for n in self.nodes.values()],
            cluster_id="fake",
            controller_id=min(self.nodes, default=-1),
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        error = self.topic_errors.get(name, 0 if name in self.topics else UNKNOWN_TOPIC)
        partitions = {} if error else self.topics[name]
        return MetadataResponseTopic(
            name=name,
            error_code=error,
            partitions=[
                MetadataResponsePartition(
                    partition_index=number, leader_id=leader, leader_epoch=epoch, replica_nodes=[leader]
                )
                for number, (leader, epoch) in partitions.items()
            ],
        )


def in_the_middle(low: float, high: float) -> float:
    """A replacement of `uniform` without randomness: backoff without jitter."""
    return (low + high) / 2


def failure_of(call: Callable[[], object]) -> KcliError:
    """Return the error that a call raises."""
    try:
        result = call()
    except KcliError as error:
        return error
    raise AssertionError(f"no error but {result!r}")


def _node(number: int, address: str) -> Node:
    host, _, port = address.rpartition(":")
    return Node(number, host, int(port))
