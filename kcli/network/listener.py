"""A listening socket, watched by the same poller as the connections that come out of it."""

from __future__ import annotations

import errno
import os
import socket
from selectors import EVENT_READ

# Connections taken per poll, so that a storm of them leaves time for those that are already there.
_MOST_AT_ONCE = 64
# The connection was gone again before it was accepted; the next one may be well.
_GONE_AGAIN = {errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.EINTR}


class Listener:
    """Takes connections unless paused; then the operating system lets them queue, up to `backlog`."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.transport = sock
        self.watched_events = 0
        self.paused = False

    def __repr__(self) -> str:
        return f"<Listener {self.transport.getsockname()}{' paused' if self.paused else ''}>"

    def interest(self) -> int:
        """The events to wait for."""
        return 0 if self.paused else EVENT_READ

    def accept(self) -> tuple[list[socket.socket], OSError | None]:
        """Who has come, and what kept us from taking more: out of file descriptors, mostly."""
        taken: list[socket.socket] = []
        while len(taken) < _MOST_AT_ONCE:
            try:
                taken.append(self.transport.accept()[0])
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno not in _GONE_AGAIN:
                    return taken, error
        return taken, None


def bind_socket(host: str, port: int) -> socket.socket:
    """A TCP socket bound to `host` (a name or an address; empty: everywhere), port 0: one that is free.

    Nobody can connect before it listens. Raises OSError. The port may be taken again at once after a restart.
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock
