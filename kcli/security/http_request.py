"""One HTTP request with bounds, for token endpoints (client), key sets (broker) and schema registries.

A hostile or broken server cannot make it hang or grow: connecting, and then the whole exchange, each have a timeout,
the body has a limit, and redirects are not followed. Standard library only; the imports take some 30 ms, so they are
late.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, urlsplit

from kcli.host_names import connect

if TYPE_CHECKING:
    from ssl import SSLContext

MAX_BODY_BYTES = 1 << 20

_PORTS = {"http": 80, "https": 443}


class HttpError(Exception):
    """A request without a usable answer. The text is one sentence that follows the address of the server.

    `retriable`: the same request may succeed later.
    """

    def __init__(self, problem: str, *, retriable: bool = True) -> None:
        super().__init__(problem)
        self.retriable = retriable


class HttpAnswer(NamedTuple):
    """The status and the body of an answer."""

    status: int
    body: bytes


def parse_url(url: str) -> SplitResult | None:
    """Return the parts of an http or https URL; None if it is not one."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_valid and parts.username is None and url.isascii() and " " not in url else None


def address_of(parts: SplitResult) -> str:
    """Return host and port: the part of a URL that is never a secret."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{parts.port or _PORTS[parts.scheme]}"


def send_request(
    parts: SplitResult,
    headers: Mapping[str, str],
    body: bytes | None,
    *,
    connect_timeout_ms: float,
    read_timeout_ms: float,
    tls: Callable[[], SSLContext] | None = None,
    method: str | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> HttpAnswer:
    """POST the body, or GET without one; `method` overrides this. `tls` makes the context for https. Raise HttpError.

    `max_body_bytes` limits the body of the answer.
    """
    import http.client

    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or _PORTS[parts.scheme])
    sock: socket.socket | None = None
    phase = f"no connection in {connect_timeout_ms:.0f} ms"
    try:
        connect_deadline = time.monotonic() + connect_timeout_ms / 1000
        sock = connect(connection.host, connection.port, connect_timeout_ms / 1000)
        if parts.scheme == "https":
            assert tls is not None
            phase = f"the TLS handshake is not complete after {connect_timeout_ms:.0f} ms"
            sock.settimeout(_remaining(connect_deadline))
            sock = tls().wrap_socket(sock, server_hostname=connection.host)
        phase = f"no complete answer in {read_timeout_ms:.0f} ms"
        connection.sock = _TimedSocket(sock, time.monotonic() + read_timeout_ms / 1000)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method or ("GET" if body is None else "POST"), target, body, dict(headers))
        answer = connection.getresponse()
        data = answer.read(max_body_bytes + 1)
    except TimeoutError:
        raise HttpError(phase) from None
    except OSError as error:
        raise HttpError(*_explain(error)) from None
    except (http.client.HTTPException, ValueError):
        raise HttpError("the answer is not valid HTTP", retriable=False) from None
    finally:
        if sock is not None:
            sock.close()
    if len(data) > max_body_bytes:
        raise HttpError(f"the answer has more than {max_body_bytes} bytes", retriable=False)
    if answer.length:
        raise HttpError("the connection closed before the end of the answer")
    if 300 <= answer.status < 400:
        raise HttpError(f"it redirects (status {answer.status}); set the final URL", retriable=False)
    return HttpAnswer(answer.status, data)


def _explain(error: OSError) -> tuple[str]:
    """Return the problem as a sentence without the addresses and numbers that Python adds."""
    if isinstance(error, socket.gaierror):
        return (f"its name cannot be resolved: {error.strerror}",)
    verify_message = getattr(error, "verify_message", None)
    if verify_message is not None:
        return (f"its certificate is not trusted: {verify_message}",)
    if hasattr(error, "reason"):  # ssl.SSLError
        return (f"TLS failed: {str(error.reason or 'no reason').replace('_', ' ').lower()}",)
    return ((error.strerror or "the connection closed before the answer").lower(),)


class _TimedSocket:
    """A socket whose operations all end at one deadline, with as much of socket's interface as http.client uses."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(_remaining(self._deadline))
        self._sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._sock, self._deadline))

    def close(self) -> None:
        """Do nothing: http.client closes the socket before it reads a body without a length."""


class _TimedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, space: memoryview) -> int:  # type: ignore[override]
        self._sock.settimeout(_remaining(self._deadline))
        return self._sock.recv_into(space)


def _remaining(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds
