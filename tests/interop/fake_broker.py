"""A broker on loopback that misbehaves on purpose, on real sockets.

`FakeBroker(serve)` runs `serve(connection)` in a thread for every connection. `scripted(...)` makes a broker that
behaves well except where a script changes it: it answers ApiVersions, Metadata, ListOffsets and Fetch for one topic.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

from kcli.protocol.codec import decode
from kcli.protocol.headers import RequestHeader, decode_request_header, encode_response
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kcli.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kcli.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.protocol.registry import ApiKey, request_type

TOPIC = "t"
SPEAKS = {
    ApiKey.API_VERSIONS: (0, 3),
    ApiKey.METADATA: (4, 9),
    ApiKey.LIST_OFFSETS: (1, 5),
    ApiKey.FETCH: (4, 11),
}


class FakeBroker:
    """Listens until it is closed; `address` is the bootstrap server for clients."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> FakeBroker:
        return self

    def __exit__(self, *exc: object) -> None:
        for one in (self._listener, *self._connections):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            self._serve(connection)


def frames(connection: socket.socket) -> Iterator[bytes]:
    """Yield the request frames of a connection, without their length."""
    stream = connection.makefile("rb")
    while len(size := stream.read(4)) == 4:
        yield stream.read(struct.unpack(">i", size)[0])


def send_frame(connection: socket.socket, frame: bytes) -> None:
    connection.sendall(struct.pack(">i", len(frame)) + frame)


def batches_from(records: bytes, offset: int) -> bytes:
    """Return the batches from the one that holds `offset`, found as a broker does: by base offset and length."""
    at = 0
    while at + 61 <= len(records):
        base, size = struct.unpack_from(">qi", records, at)
        (last_delta,) = struct.unpack_from(">i", records, at + 23)
        if base + last_delta >= offset or size <= 0:
            break
        at += 12 + size
    return records[at:]


def wait_for_hang_up(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


class GoodBroker:
    """Answers of a broker with one topic of one partition; its log holds `records` (batches) and ends at `end`."""

    def __init__(self, records: bytes = b"", end: int = 0) -> None:
        self.records = records
        self.end = end
        self.port = 0

    def from_offset(self, offset: int) -> bytes:
        return batches_from(self.records, offset)

    def answer(self, header: RequestHeader, request: Any) -> Any:
        answers = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.LIST_OFFSETS: self._list_offsets,
            ApiKey.FETCH: self._fetch,
        }
        return answers[ApiKey(header.api_key)](request)

    def _api_versions(self, request: Any) -> ApiVersionsResponse:
        spoken = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in SPEAKS.items()]
        return ApiVersionsResponse(api_keys=spoken)

    def _metadata(self, request: Any) -> MetadataResponse:
        partition = MetadataResponsePartition(leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)],
            cluster_id="fake",
            controller_id=1,
            topics=[MetadataResponseTopic(name=TOPIC, partitions=[partition])],
        )

    def _list_offsets(self, request: Any) -> ListOffsetsResponse:
        timestamp = request.topics[0].partitions[0].timestamp
        found = ListOffsetsPartitionResponse(offset=0 if timestamp == -2 else self.end)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[found])])

    def _fetch(self, request: Any) -> FetchResponse:
        wanted = request.topics[0].partitions[0] if request.topics else None
        records = self.from_offset(wanted.fetch_offset) if wanted else b""
        data = PartitionData(high_watermark=self.end, last_stable_offset=self.end, log_start_offset=0, records=records)
        return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=[data])] if wanted else [])


Mischief = Callable[[socket.socket, RequestHeader, bytes], None]


def scripted(good: GoodBroker, mischief: dict[ApiKey, Mischief] | None = None) -> FakeBroker:
    """Return a broker that answers like `good`, except that `mischief` handles the APIs that it names.

    A handler gets the connection, the request header, and the frame that a good broker would send.
    """

    def serve(connection: socket.socket) -> None:
        for frame in frames(connection):
            header, body = decode_request_header(frame)
            request = decode(request_type(header.api_key), frame, header.api_version, body)
            response = encode_response(good.answer(header, request), header.api_version, header.correlation_id)
            spoil = (mischief or {}).get(ApiKey(header.api_key))
            if spoil:
                spoil(connection, header, response)
            else:
                send_frame(connection, response)

    broker = FakeBroker(serve)
    good.port = broker.port
    return broker
