"""A raw connection to a broker, for requests that no client sends."""

from __future__ import annotations

import socket
import struct
import time
from types import TracebackType
from typing import Any

from kcli.protocol.headers import decode_response, encode_request
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.record import NewRecord
from kcli.protocol.wire import Message, Request

PATIENCE_S = 60.0


class Wire:
    """One TCP connection. Each expected answer must arrive within `PATIENCE_S`."""

    def __init__(self, address: str, *, receive_buffer_bytes: int | None = None) -> None:
        host, _, port = address.rpartition(":")
        self.sock = socket.socket()
        if receive_buffer_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect((host, int(port)))
        self._correlation_id = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, _type: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.sock.close()

    def raw(self, data: bytes) -> Wire:
        """Send these bytes as they are."""
        self.sock.sendall(data)
        return self

    def frame(self, body: bytes) -> Wire:
        """Send a frame: the length and the body."""
        return self.raw(struct.pack(">i", len(body)) + body)

    def request(self, message: Message, version: int, client_id: str | None = "wire") -> int:
        """Send a valid request; return its correlation id."""
        self._correlation_id += 1
        self.frame(encode_request(message, version, self._correlation_id, client_id))
        return self._correlation_id

    def ask(self, message: Request[Any], version: int, client_id: str | None = "wire") -> Any:
        """Send a request and return its response."""
        sent = self.request(message, version, client_id)
        correlation_id, response = decode_response(message.RESPONSE, version, self.read_frame())
        assert correlation_id == sent
        return response

    def produce(self, topic: str, value: bytes) -> int:
        """Append one record to partition 0 with acks=all; return the error code."""
        partition = PartitionProduceData(records=build_batch([NewRecord(None, value, 1_500_000_000_000)]))
        data = [TopicProduceData(name=topic, partition_data=[partition])]
        answered = self.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data), 9)
        return int(answered.responses[0].partition_responses[0].error_code)

    def read_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self.read(4))
        return self.read(length)

    def read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            assert more, f"the broker closed the connection after {len(data)} of {count} bytes"
            data += more
        return bytes(data)

    def seconds_until_closed(self) -> float:
        """Return the time until the broker closes the connection without an answer."""
        started = time.monotonic()
        try:
            data = self.sock.recv(1000)
        except ConnectionResetError:
            data = b""
        assert data == b"", f"unexpected answer: {data!r}"
        return time.monotonic() - started

    def is_open(self, for_s: float = 0.3) -> bool:
        """Return True if nothing arrives and the connection remains open for `for_s` seconds."""
        self.sock.settimeout(for_s)
        try:
            return self.sock.recv(1) != b""
        except TimeoutError:
            return True
        except ConnectionResetError:
            return False
        finally:
            self.sock.settimeout(PATIENCE_S)


def fetch(topic: str, *, max_wait_ms: int = 100, max_bytes: int = 1 << 20, offset: int = 0) -> FetchRequest:
    """Build a Fetch (v4 to v12) of partition 0."""
    partition = FetchPartition(fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
