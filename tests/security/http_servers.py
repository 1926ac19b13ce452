"""An HTTP server on loopback that answers each connection with given bytes, and hostile ones."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Handle one connection; it is closed afterwards. The event is set when the test ends.
Handler = Callable[[socket.socket, threading.Event], None]


def answer(data: bytes) -> Handler:
    """Read the request's header and body, send `data`, and close."""

    def handle(sock: socket.socket, _: threading.Event) -> None:
        read_request(sock)
        sock.sendall(data)

    return handle


def document(body: bytes | str, status: str = "200 OK", *header: str) -> Handler:
    """Answer with a status and a body."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", *header]
    return answer("\r\n".join(lines).encode() + b"\r\n\r\n" + data)


def stall(sock: socket.socket, stop: threading.Event) -> None:
    """Read, and never answer."""
    stop.wait()


def drip(prefix: bytes) -> Handler:
    """Send `prefix`, and then a byte from time to time without an end."""

    def handle(sock: socket.socket, stop: threading.Event) -> None:
        read_request(sock)
        sock.sendall(prefix)
        while not stop.wait(0.01):
            sock.sendall(b"x")

    return handle


def flood(prefix: bytes) -> Handler:
    """Send `prefix`, and then bytes without an end."""

    def handle(sock: socket.socket, stop: threading.Event) -> None:
        read_request(sock)
        sock.sendall(prefix)
        while not stop.is_set():
            sock.sendall(b"x" * 65536)

    return handle


def read_request(sock: socket.socket) -> bytes:
    """Return the header and the body of a request."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _received(sock)
    head, _, body = data.partition(b"\r\n\r\n")
    sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while sizes and len(body) < int(sizes[0].split(b":")[1]):
        body += _received(sock)
    return head + b"\r\n\r\n" + body


def _received(sock: socket.socket) -> bytes:
    data = sock.recv(65536)
    if not data:
        raise ConnectionResetError("the client has closed the connection within its request")
    return data


@contextmanager
def http_server(handle: Handler, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve on 127.0.0.1; return the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def serve_one(sock: socket.socket) -> None:
        try:
            sock.settimeout(10)
            connection = sock if tls is None else tls.wrap_socket(sock, server_side=True)
            with connection:
                handle(connection, stop)
        except OSError:
            sock.close()

    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve_one, args=(sock,), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
