"""A minimal broker on a loopback socket with scripted responses."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from kcli.error_codes import ErrorCode
from kcli.protocol.codec import decode
from kcli.protocol.headers import decode_request_header, encode_response
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.protocol.registry import request_type

Answer = Callable[[Any], Any]


class LoopbackBroker:
    """Node 1 of a cluster of one. `answers` maps request classes to functions from request to response (None: none).

    ApiVersions is answered with the scripted APIs, in kcli's versions unless `versions` has others, and Metadata with
    `topics`: partition counts by name. `requests` has the received requests, except ApiVersions.
    """

    def __init__(
        self,
        answers: Mapping[type, Answer] | None = None,
        *,
        topics: Mapping[str, int] | None = None,
        versions: Mapping[type, tuple[int, int]] | None = None,
    ) -> None:
        self.topics = dict(topics or {})
        self.answers = {ApiVersionsRequest: self._api_versions, MetadataRequest: self._metadata, **(answers or {})}
        self.versions = {cls: cls.VERSIONS for cls in self.answers} | dict(versions or {})  # type: ignore[attr-defined]
        self.requests: list[Any] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"

    def _api_versions(self, _request: ApiVersionsRequest) -> ApiVersionsResponse:
        ranges = [ApiVersion(api_key=c.API_KEY, min_version=v[0], max_version=v[1]) for c, v in self.versions.items()]  # type: ignore[attr-defined]
        return ApiVersionsResponse(api_keys=ranges)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        names = sorted(self.topics) if request.topics is None else [topic.name or "" for topic in request.topics]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)],
            cluster_id="loopback",
            controller_id=1,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return MetadataResponseTopic(
            name=name,
            is_internal=name.startswith("__"),
            partitions=[
                MetadataResponsePartition(
                    partition_index=n, leader_id=1, leader_epoch=4, replica_nodes=[1], isr_nodes=[1]
                )
                for n in range(self.topics[name])
            ],
        )

    def serve(self) -> None:
        """Accept connections until the socket is closed; each has a thread of its own."""
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_one, args=(connection,), daemon=True).start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve_one(self, connection: socket.socket) -> None:
        with suppress(ConnectionError), connection, connection.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                answer = self._answer(stream.read(struct.unpack(">i", head)[0]))
                if answer is not None:
                    connection.sendall(struct.pack(">i", len(answer)) + answer)

    def _answer(self, frame: bytes) -> bytes | None:
        header, body_at = decode_request_header(frame)
        request = decode(request_type(header.api_key), frame, header.api_version, body_at)
        if not isinstance(request, ApiVersionsRequest):
            self.requests.append(request)
        response = self.answers[type(request)](request)
        return None if response is None else encode_response(response, header.api_version, header.correlation_id)


@contextmanager
def loopback_broker(*args: Any, **kwargs: Any) -> Iterator[LoopbackBroker]:
    """A LoopbackBroker that serves while the block runs."""
    broker = LoopbackBroker(*args, **kwargs)
    thread = threading.Thread(target=broker.serve, daemon=True)
    thread.start()
    try:
        yield broker
    finally:
        broker.close()
        thread.join(5)
