"""A selector without sockets: the test holds the far end of every connection and owns the clock."""

from __future__ import annotations

import errno
import heapq
import os
from collections.abc import Callable, Sequence
from selectors import EVENT_READ, EVENT_WRITE

from kcli.clock import ManualClock
from kcli.network.channel import KafkaChannel
from kcli.network.framing import DEFAULT_MAX_FRAME_BYTES, LENGTH, Buffer, UnsentPart
from kcli.network.poller import Poller, Watched
from kcli.network.selector import Selector
from kcli.network.transport import SocketAddress, Transport, TransportFactory, format_address


class MemoryPeer:
    """The far end of one connection, and the transport at the near end. Frames are without their length."""

    name = "MEMORY"
    read_needs = EVENT_READ
    write_needs = EVENT_WRITE

    def __init__(self, address: str, network: MemorySelector) -> None:
        self.address = address
        #: Whole frames that arrived here, oldest first.
        self.received: list[bytes] = []
        #: The near end has closed the connection.
        self.closed = False
        self._network = network
        self._is_connect_complete = False
        self._error: int = 0
        self._ended = False
        self._incoming = bytearray()
        self._outgoing = bytearray()

    def __repr__(self) -> str:
        return f"<MemoryPeer {self.address} {len(self.received)} frames received>"

    # Calls of a test.

    def accept(self) -> None:
        """Accept the connection. Only needed for addresses under `hold`."""
        self._is_connect_complete = True

    def refuse(self) -> None:
        """Refuse the connection, as a port without a listener does."""
        self.reset(errno.ECONNREFUSED)

    def deliver(self, *frames: Buffer) -> None:
        """Send whole frames to the near end."""
        for frame in frames:
            self.deliver_bytes(LENGTH.pack(len(frame)) + bytes(frame))

    def deliver_bytes(self, data: Buffer) -> None:
        """Send bytes that are not necessarily whole frames."""
        self._outgoing += data

    def close(self) -> None:
        """Record that the near end closed the connection."""
        self.closed = True

    close_descriptor = close

    def hang_up(self) -> None:
        """Close in an orderly way; bytes delivered before can still be read."""
        self._ended = True

    def reset(self, code: int = errno.ECONNRESET) -> None:
        """Break the connection with an error of the operating system."""
        self._error = code
        self._is_connect_complete = True

    # Calls of the channel at the near end (Transport).

    def fileno(self) -> int:
        return -1

    def finish_connect(self) -> None:
        self._raise_error()

    def handshake(self) -> int:
        return 0

    def recv_into(self, space: memoryview) -> int | None:
        self._raise_error()
        count = min(len(space), len(self._outgoing))
        if not count:
            return 0 if self._ended else None
        space[:count] = self._outgoing[:count]
        del self._outgoing[:count]
        return count

    def send(self, parts: Sequence[UnsentPart]) -> int:
        self._raise_error()
        if self._ended:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        data = b"".join(map(bytes, parts))
        self._incoming += data
        self._take_frames()
        return len(data)

    def has_buffered(self) -> bool:
        return False

    def ready_events(self) -> int:
        """Return the events that an operating system would report now."""
        if not self._is_connect_complete:
            return 0
        if self._error:
            return EVENT_READ | EVENT_WRITE
        readable = EVENT_READ if self._outgoing or self._ended else 0
        return readable | EVENT_WRITE

    def _raise_error(self) -> None:
        if self._error:
            raise OSError(self._error, os.strerror(self._error))

    def _take_frames(self) -> None:
        while len(self._incoming) >= 4:
            end = 4 + LENGTH.unpack_from(self._incoming)[0]
            if len(self._incoming) < end:
                return
            frame = bytes(self._incoming[4:end])
            del self._incoming[:end]
            self.received.append(frame)
            if self._network.respond is not None:
                self._network.respond(self, frame)


class MemorySelector(Selector):
    """A `Selector` over memory. `poll` never sleeps: without events it advances the `ManualClock`.

    Connections are accepted unless `refuse` or `hold` changes that. `respond(peer, frame)` is called for each whole
    frame that arrives at a far end; `at` schedules a call for a time on the clock.
    """

    def __init__(
        self,
        clock: ManualClock,
        *,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        memory_limit_bytes: int | None = None,
        idle_ms: float = 540_000,
    ) -> None:
        super().__init__(
            clock,
            max_frame_bytes=max_frame_bytes,
            memory_limit_bytes=memory_limit_bytes,
            idle_ms=idle_ms,
            poller=_MemoryPoller(self, clock),
        )
        self.respond: Callable[[MemoryPeer, bytes], None] | None = None
        #: Every connection attempt so far that was not refused, oldest first.
        self.peers: list[MemoryPeer] = []
        self._refused: set[str] = set()
        self._held: set[str] = set()
        self._scheduled: list[tuple[float, int, Callable[[], None]]] = []
        self._schedule_count = 0

    def peer(self, id: str) -> MemoryPeer:
        """Return the far end of connection `id`, which must be open or connecting."""
        transport = self._channels[id].transport
        assert isinstance(transport, MemoryPeer)
        return transport

    def refuse(self, address: str) -> None:
        """Refuse connections to `address` ("host:port") from now on."""
        self._refused.add(address)

    def hold(self, address: str) -> None:
        """Leave connections to `address` pending until their peer's `accept`, `refuse` or `reset`."""
        self._held.add(address)

    def listen(self, address: str) -> None:
        """Accept connections to `address` again: undo `refuse` and `hold`."""
        self._refused.discard(address)
        self._held.discard(address)

    def at(self, now_ms: float, action: Callable[[], None]) -> None:
        """Run `action` during the first poll that reaches `now_ms` on the clock."""
        self._schedule_count += 1
        heapq.heappush(self._scheduled, (now_ms, self._schedule_count, action))

    def run_due(self, now_ms: float) -> None:
        """Run the actions scheduled by `at` up to now."""
        while self._scheduled and self._scheduled[0][0] <= now_ms:
            heapq.heappop(self._scheduled)[2]()

    def next_due_ms(self) -> float:
        """Return the time of the next scheduled action; infinity without one."""
        return self._scheduled[0][0] if self._scheduled else float("inf")

    def _open(
        self, address: SocketAddress, send_buffer_bytes: int, receive_buffer_bytes: int, transport: TransportFactory
    ) -> tuple[Transport, bool]:
        name = format_address(address)
        if name in self._refused:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        peer = MemoryPeer(name, self)
        self.peers.append(peer)
        if name in self._held:
            return peer, False
        peer.accept()
        return peer, True


class _MemoryPoller(Poller):
    """Finds channels with events from their far end; advances the clock while there are none."""

    def __init__(self, network: MemorySelector, clock: ManualClock) -> None:
        self._network = network
        self._clock = clock
        self._watched: dict[str, KafkaChannel] = {}
        self._woken = False

    def watch(self, channel: Watched) -> None:
        assert isinstance(channel, KafkaChannel), "a selector without sockets cannot listen"
        self._watched[channel.id] = channel

    def unwatch(self, channel: Watched) -> None:
        if isinstance(channel, KafkaChannel):
            self._watched.pop(channel.id, None)

    def wait(self, timeout_ms: float) -> list[tuple[Watched, int]]:
        deadline_ms = self._clock.now_ms() + timeout_ms
        while True:
            now_ms = self._clock.now_ms()
            self._network.run_due(now_ms)
            ready = self._ready()
            if ready or self._woken or now_ms >= deadline_ms:
                self._woken = False
                return ready
            until_ms = min(deadline_ms, self._network.next_due_ms())
            if until_ms == float("inf"):
                raise AssertionError("this poll would wait forever: no timeout, no scheduled action, no event")
            self._clock.advance(until_ms - now_ms)

    def wakeup(self) -> None:
        self._woken = True

    def close(self) -> None:
        self._watched.clear()

    def _ready(self) -> list[tuple[Watched, int]]:
        ready: list[tuple[Watched, int]] = []
        for channel in list(self._watched.values()):
            assert isinstance(channel.transport, MemoryPeer)
            events = channel.transport.ready_events() & channel.interest()
            if events:
                ready.append((channel, events))
        return ready
