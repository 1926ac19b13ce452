"""A listening socket, watched by the same poller as the connections it accepts."""

from __future__ import annotations

import errno
import os
import socket
from selectors import EVENT_READ

from kcli.host_names import resolve

# Connections accepted per poll, so that many new ones leave time for the existing ones.
_MAX_ACCEPTS = 64
# The connection was closed before it was accepted; the next one may be fine.
_CLOSED_EARLY = {errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.EINTR}


class Listener:
    """Accepts connections unless paused; the operating system then queues them, up to `backlog`."""

    def __init__(self, sock: socket.socket, name: str = "") -> None:
        sock.setblocking(False)
        self.name = name
        self.transport = sock
        self.watched_events = 0
        self.paused = False

    def __repr__(self) -> str:
        return f"<Listener {self.transport.getsockname()}{' paused' if self.paused else ''}>"

    def interest(self) -> int:
        """Return the events to wait for."""
        return 0 if self.paused else EVENT_READ

    def accept(self) -> tuple[list[socket.socket], OSError | None]:
        """Return new connections, and the error that stopped accepting: mostly too many open files."""
        accepted: list[socket.socket] = []
        while len(accepted) < _MAX_ACCEPTS:
            try:
                accepted.append(self.transport.accept()[0])
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno not in _CLOSED_EARLY:
                    return accepted, error
        return accepted, None


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a TCP socket bound to `host` (a name or an address; empty: all interfaces); port 0: a free one.

    It does not listen yet. OSError if it cannot be bound. The port can be bound again right after a restart.
    """
    family, address = resolve(host, port, to_bind=True)[0]
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock
