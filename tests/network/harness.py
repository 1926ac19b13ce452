"""Far ends for two selectors, so that the same test runs over sockets and in memory."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any

from kcli.clock import ManualClock, SystemClock
from kcli.network.selector import Selector
from tests.network.memory import MemoryPeer, MemorySelector

Address = tuple[int, Any]


class BytesFile:
    """A file in memory, for file slices."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def fileno(self) -> int:
        return -1

    def read_at(self, position: int, length: int) -> bytes:
        return self.data[position : position + length]


class SocketPeer:
    """The far end of one TCP connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.settimeout(5)

    def deliver_bytes(self, data: bytes) -> None:
        self.sock.sendall(data)

    def deliver(self, *frames: bytes) -> None:
        for frame in frames:
            self.deliver_bytes(struct.pack(">i", len(frame)) + frame)

    def hang_up(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def take_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self.take(4))
        return self.take(length)

    def take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            assert more, "the connection ended too soon"
            data += more
        return data

    def is_hung_up(self) -> bool:
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True


class Harness:
    """A selector, its results collected over polls, and its peers."""

    address: Address
    closed_address: Address
    selector: Selector

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self.sends: list[str] = []
        self.receives: list[tuple[str, bytes]] = []
        self.connected: list[str] = []
        self.disconnected: dict[str, str] = {}
        self.failed: list[str] = []

    def poll(self, timeout_ms: float = 10) -> None:
        self.selector.poll(timeout_ms)
        self.sends += self.selector.completed_sends
        self.receives += [(id, bytes(frame)) for id, frame in self.selector.completed_receives]
        self.connected += self.selector.connected
        self.disconnected |= self.selector.disconnected
        self.failed += self.selector.failed_sends

    def poll_until(self, done: Callable[[], object], *, polls: int = 500) -> None:
        for _ in range(polls):
            if done():
                return
            self.poll()
        raise AssertionError(f"did not happen in {polls} polls of {self.selector!r}")

    def connect(self, id: str) -> Any:
        self.selector.connect(id, self.address)
        peer = self.accept()
        self.poll_until(lambda: id in self.connected)
        return peer

    def accept(self) -> Any:
        raise NotImplementedError

    def advance(self, ms: float) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.selector.close_all()


class SocketHarness(Harness):
    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        super().__init__(Selector(self.clock if "idle_ms" in options else SystemClock(), **options))
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=300)
        self.listener.settimeout(5)
        self.address = (socket.AF_INET, self.listener.getsockname())
        with socket.create_server(("127.0.0.1", 0)) as closed:
            self.closed_address = (socket.AF_INET, closed.getsockname())
        self.accepted: list[socket.socket] = []

    def accept(self) -> SocketPeer:
        sock, _ = self.listener.accept()
        self.accepted.append(sock)
        return SocketPeer(sock)

    def advance(self, ms: float) -> None:
        self.clock.advance(ms)

    def close(self) -> None:
        super().close()
        self.listener.close()
        for sock in self.accepted:
            sock.close()


class _FramePeer:
    """Gives a MemoryPeer the interface of a SocketPeer."""

    def __init__(self, peer: MemoryPeer) -> None:
        self._peer = peer
        self._taken = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._peer, name)

    def take_frame(self) -> bytes:
        self._taken += 1
        return self._peer.received[self._taken - 1]

    def is_hung_up(self) -> bool:
        return self._peer.closed


class MemoryHarness(Harness):
    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.memory = MemorySelector(self.clock, **options)
        super().__init__(self.memory)
        self.address = (socket.AF_INET, ("broker", 9092))
        self.closed_address = (socket.AF_INET, ("closed", 9092))
        self.memory.refuse("closed:9092")

    def accept(self) -> _FramePeer:
        return _FramePeer(self.memory.peers[-1])

    def advance(self, ms: float) -> None:
        self.clock.advance(ms)
