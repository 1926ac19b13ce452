"""Many connections that each keep one Fetch waiting at a broker, and send it again after each answer."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import time
from collections.abc import Iterator

from kcli.protocol.headers import encode_request
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

VERSION = 11


class LongPolls:
    """All sockets of one bench in one loop; each sends a Fetch at the end of an empty partition, repeatedly."""

    def __init__(self, port: int, topic: str, count: int, wait_ms: int) -> None:
        fetch = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            topics=[
                FetchTopic(topic=topic, partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)]),
            ],
        )
        frame = encode_request(fetch, VERSION, 7, "idle")
        self._request = struct.pack(">i", len(frame)) + frame
        self._selector = selectors.DefaultSelector()
        self._sockets = []
        for n in range(count):
            sock = socket.create_connection(("127.0.0.1", port))
            self._sockets.append(sock)
            self._selector.register(sock, selectors.EVENT_READ)
            sock.sendall(self._request)
            time.sleep(wait_ms / 1000 / count if n < count else 0)  # spread, as consumers' polls are

    def run(self, seconds: float) -> int:
        """Serve the connections for this time; return the number of answers."""
        answered, end = 0, time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                assert sock.recv(65536), "the broker closed a connection"
                sock.sendall(self._request)
                answered += 1
        return answered

    def close(self) -> None:
        self._selector.close()
        for sock in self._sockets:
            sock.close()


@contextlib.contextmanager
def park(port: int, topic: str, count: int, wait_ms: int) -> Iterator[LongPolls]:
    polls = LongPolls(port, topic, count, wait_ms)
    try:
        yield polls
    finally:
        polls.close()
