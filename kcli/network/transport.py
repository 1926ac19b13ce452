"""The byte stream below a channel: the interface, and plain TCP."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Sequence
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Protocol

from kcli.network.file_slice import FileSlice
from kcli.network.framing import UnsentPart

#: (family, sockaddr) as `socket.getaddrinfo` returns them.
SocketAddress = tuple[int, Any]

_MAX_PARTS = 64  # below IOV_MAX; a frame of more parts takes several calls
_SENDFILE_BYTES = 1 << 20  # per call, so that a channel can stop at its own bound
_COPY_BYTES = 256 << 10  # per call, of a file in memory
_MORE_FOLLOWS = getattr(
    socket, "MSG_MORE", 0
)  # Linux: send the header of a Fetch response in one packet with its records


class TlsError(OSError):
    """TLS with the other side failed. `str` is a sentence without the name of the other side: the cause and the cure.

    `refused`: a new connection would fail as well, because of a certificate or of the settings of a side.
    """

    def __init__(self, sentence: str, *, refused: bool = True) -> None:
        super().__init__(sentence)
        self.refused = refused


class Transport(Protocol):
    """The interface of a connection's byte stream. Implementations: `PlainTransport`, `TlsTransport`, `MemoryPeer`.

    No call blocks; all raise OSError. TLS may have to write in order to read and vice versa: `read_needs` and
    `write_needs` are the events that the last incomplete read or write waits for.
    """

    name: str
    read_needs: int
    write_needs: int

    def fileno(self) -> int: ...

    def finish_connect(self) -> None:
        """Complete connecting; OSError if it failed."""

    def handshake(self) -> int:
        """Do one step of the handshake; return 0 when ready, else the event to wait for before the next step."""

    def recv_into(self, space: memoryview) -> int | None:
        """Return the bytes read; None if there are none yet; 0 if the other side has closed."""

    def send(self, parts: Sequence[UnsentPart]) -> int:
        """Return the bytes of `parts` sent, 0 if none can be sent now. File slices are not read as a whole."""

    def has_buffered(self) -> bool:
        """True if the transport holds received bytes that the operating system no longer reports."""

    def close(self) -> None: ...

    def close_descriptor(self) -> None:
        """Close the socket of this process only, and send nothing."""


TransportFactory = Callable[[socket.socket], Transport]


class PlainTransport:
    """TCP without protection."""

    name = "PLAINTEXT"
    read_needs = EVENT_READ
    write_needs = EVENT_WRITE

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.fileno = sock.fileno
        self.close = self.close_descriptor = sock.close

    def finish_connect(self) -> None:
        finish_connect(self._sock)

    def handshake(self) -> int:
        return 0

    def recv_into(self, space: memoryview) -> int | None:
        try:
            return self._sock.recv_into(space)
        except (BlockingIOError, InterruptedError):
            return None

    def send(self, parts: Sequence[UnsentPart]) -> int:
        first = parts[0]
        try:
            if isinstance(first, FileSlice):
                return self._send_file(first)
            if len(parts) == 1:
                return self._sock.send(first)
            views = _leading_views(parts)
            return self._sock.sendmsg(views, (), _MORE_FOLLOWS if len(views) < len(parts) else 0)
        except (BlockingIOError, InterruptedError):
            return 0

    def _send_file(self, part: FileSlice) -> int:
        source = part.file.fileno()
        if source >= 0:
            count = os.sendfile(self._sock.fileno(), source, part.position, min(len(part), _SENDFILE_BYTES))
        else:  # a file in memory
            data = bytes(part[:_COPY_BYTES])
            count = self._sock.send(data) if data else 0
        if not count:
            raise OSError(errno.EIO, f"the file ends before {part!r} does")
        return count

    def has_buffered(self) -> bool:
        return False


def _leading_views(parts: Sequence[UnsentPart]) -> list[memoryview]:
    views: list[memoryview] = []
    for part in parts[:_MAX_PARTS]:
        if isinstance(part, FileSlice):
            break
        views.append(part)
    return views


def prepare_socket(sock: socket.socket, send_buffer_bytes: int, receive_buffer_bytes: int) -> None:
    """Non-blocking, no delay for small frames, buffers as asked (-1 leaves the system's own sizing)."""
    sock.setblocking(False)
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if send_buffer_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    if receive_buffer_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)


def begin_connect(
    address: SocketAddress, send_buffer_bytes: int, receive_buffer_bytes: int
) -> tuple[socket.socket, bool]:
    """Start connecting; return the socket and True if it is connected already. OSError, never blocks."""
    family, sockaddr = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        prepare_socket(sock, send_buffer_bytes, receive_buffer_bytes)
        code = sock.connect_ex(sockaddr)
        if code == 0:
            finish_connect(sock)
        elif code not in (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR):
            raise OSError(code, os.strerror(code))
    except BaseException:
        sock.close()
        raise
    return sock, code == 0


def finish_connect(sock: socket.socket) -> None:
    """Check a socket that became writable; OSError if connecting failed."""
    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
    # Without a listener on a local ephemeral port, the kernel may choose that port as the source port and connect the
    # socket to itself, which would also prevent a restarting broker from binding its port.
    if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.getsockname() == sock.getpeername():
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


def format_address(address: SocketAddress) -> str:
    """Format as `host:port` with brackets around IPv6, or the path of a local socket."""
    family, sockaddr = address
    if family == socket.AF_INET6:
        return f"[{sockaddr[0]}]:{sockaddr[1]}"
    if family == socket.AF_INET:
        return f"{sockaddr[0]}:{sockaddr[1]}"
    return str(sockaddr) or "a local socket"
