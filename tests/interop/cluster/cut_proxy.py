"""A loopback proxy whose network can be cut: then no byte passes, and no connection is closed."""

from __future__ import annotations

import contextlib
import socket
import threading
from functools import partial


class CutProxy:
    """Forwards connections to `port` on loopback, until `cut`; `heal` closes the connections that missed bytes."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._open: set[socket.socket] = set()
        self._is_cut = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Let no byte pass in either direction, of old and new connections."""
        self._is_cut = True

    def heal(self) -> None:
        """Forward new connections again."""
        self._is_cut = False
        self._close_all()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._close_all()

    def _close_all(self) -> None:
        for one in [*self._open]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            self._open.add(client)
            try:
                with socket.create_connection(self._target) as server:
                    answers = threading.Thread(target=partial(self._forward, server, client), daemon=True)
                    answers.start()
                    self._forward(client, server)
                    answers.join()
            finally:
                self._open.discard(client)

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if self._is_cut:
                    continue
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
            source.shutdown(socket.SHUT_RDWR)
