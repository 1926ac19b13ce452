"""A loopback proxy in front of a broker that loses the responses of chosen APIs."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from kcli.protocol.headers import decode_request_header, decode_response, encode_response
from kcli.protocol.registry import ApiKey, request_type

_ADDRESSES = {ApiKey.METADATA, ApiKey.FIND_COORDINATOR}


class LossyProxy:
    """Forwards each connection to one broker of a cluster of one, and stands for it in Metadata and FindCoordinator.

    The responses of an API in `lost` never arrive, although the broker has carried out the request, and the later
    requests on that connection: "cut" closes the connection for the client, "silent" leaves it open. With "short" half
    of the response arrives, as a frame of its own. `requests` counts the requests that were forwarded, by API key.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self.lost: dict[ApiKey, str] = {}
        self.requests: Counter[int] = Counter()
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self._port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Forward one request after the other, each with its response, until one end closes."""
        with contextlib.suppress(OSError), client, socket.create_connection(self._target) as broker:
            requests, responses = client.makefile("rb"), broker.makefile("rb")
            is_silent = False
            while request := _frame(requests):
                header, _ = decode_request_header(request)
                broker.sendall(struct.pack(">i", len(request)) + request)
                self.requests[header.api_key] += 1
                response = _frame(responses)
                fault = self.lost.get(ApiKey(header.api_key))
                if not response:
                    return
                if fault == "short" and not is_silent:
                    client.sendall(struct.pack(">i", len(response) // 2) + response[: len(response) // 2])
                    continue
                if fault == "cut" and not is_silent:
                    client.shutdown(socket.SHUT_WR)
                is_silent = is_silent or fault is not None
                if not is_silent:
                    response = self._readdressed(header.api_key, header.api_version, response)
                    client.sendall(struct.pack(">i", len(response)) + response)

    def _readdressed(self, key: int, version: int, frame: bytes) -> bytes:
        """Return a response with the address of this proxy for that of the broker."""
        if key not in _ADDRESSES:
            return frame
        correlation_id, response = decode_response(request_type(key).RESPONSE, version, frame)
        places = response.brokers if key == ApiKey.METADATA else [response, *response.coordinators]
        for place in places:
            if place.port > 0:
                place.host, place.port = "127.0.0.1", self._port
        return encode_response(response, version, correlation_id)


def _frame(stream: socket.SocketIO) -> bytes:
    """Return the next frame without its length; b"" at the end of the stream."""
    size = stream.read(4)
    return stream.read(struct.unpack(">i", size)[0]) if len(size) == 4 else b""


@contextmanager
def lossy_proxy(target: str, **lost: str) -> Iterator[LossyProxy]:
    """A LossyProxy that loses the responses of these APIs: `offset_commit="cut"`."""
    proxy = LossyProxy(target)
    proxy.lost = {ApiKey[name.upper()]: fault for name, fault in lost.items()}
    try:
        yield proxy
    finally:
        proxy.close()
