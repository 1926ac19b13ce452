"""A bare connection to a broker, for what no client would send."""

from __future__ import annotations

import socket
import struct
import time
from types import TracebackType
from typing import Any

from kcli.protocol.headers import decode_response, encode_request
from kcli.protocol.wire import Message, Request

PATIENCE_S = 20.0


class Wire:
    """One TCP connection. What it waits for must come within `PATIENCE_S`."""

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
        """Send these bytes and nothing else."""
        self.sock.sendall(data)
        return self

    def frame(self, body: bytes) -> Wire:
        """Send a frame: its length and the body."""
        return self.raw(struct.pack(">i", len(body)) + body)

    def request(self, message: Message, version: int, client_id: str | None = "wire") -> int:
        """Send a well-made request; its correlation id."""
        self._correlation_id += 1
        self.frame(encode_request(message, version, self._correlation_id, client_id))
        return self._correlation_id

    def ask(self, message: Request[Any], version: int, client_id: str | None = "wire") -> Any:
        """Send a request and return its response."""
        sent = self.request(message, version, client_id)
        correlation_id, response = decode_response(message.RESPONSE, version, self.read_frame())
        assert correlation_id == sent
        return response

    def read_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self.read(4))
        return self.read(length)

    def read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            assert more, f"the broker hung up after {len(data)} of {count} bytes"
            data += more
        return bytes(data)

    def seconds_until_closed(self) -> float:
        """How long it takes the broker to end the connection without a word."""
        started = time.monotonic()
        try:
            data = self.sock.recv(1000)
        except ConnectionResetError:
            data = b""
        assert data == b"", f"an answer: {data!r}"
        return time.monotonic() - started

    def is_open(self, for_s: float = 0.3) -> bool:
        """Nothing comes, and the connection stands."""
        self.sock.settimeout(for_s)
        try:
            return self.sock.recv(1) != b""
        except TimeoutError:
            return True
        except ConnectionResetError:
            return False
        finally:
            self.sock.settimeout(PATIENCE_S)
