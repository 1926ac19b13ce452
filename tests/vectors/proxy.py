"""A loopback proxy that forwards Kafka frames and keeps pairs of request and response."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import NamedTuple


class Exchange(NamedTuple):
    """One request and its response: frames without their four length bytes."""

    origin: str
    api_key: int
    version: int
    request: bytes
    response: bytes


class RecordingProxy:
    """Listens on a loopback port of its own and forwards every connection to `target`.

    Connections opened while `origin` is set are recorded under it.
    """

    def __init__(self, target: tuple[str, int], port: int) -> None:
        self.origin = ""
        self.exchanges: list[Exchange] = []
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        waiting: dict[int, bytes] = {}
        try:
            broker = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        back = threading.Thread(target=self._answers, args=(broker, client, waiting, self.origin), daemon=True)
        back.start()
        for request in _frames(client):
            waiting[struct.unpack_from(">i", request, 4)[0]] = request
            _pass_on(broker, request)
        with contextlib.suppress(OSError):
            broker.shutdown(socket.SHUT_RDWR)

    def _answers(self, broker: socket.socket, client: socket.socket, waiting: dict[int, bytes], origin: str) -> None:
        for response in _frames(broker):
            request = waiting.pop(struct.unpack_from(">i", response)[0])
            key, version = struct.unpack_from(">hh", request)
            if origin:
                self.exchanges.append(Exchange(origin, key, version, request, response))
            _pass_on(client, response)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


def _frames(source: socket.socket):  # type: ignore[no-untyped-def]
    with contextlib.suppress(OSError), source.makefile("rb") as stream:
        while len(size := stream.read(4)) == 4:
            yield stream.read(struct.unpack(">i", size)[0])


def _pass_on(target: socket.socket, frame: bytes) -> None:
    with contextlib.suppress(OSError):
        target.sendall(struct.pack(">i", len(frame)) + frame)
