"""Many connections driven from one thread: frames sent and received, connections opened and lost."""

from __future__ import annotations

import socket
from collections.abc import Container, Iterator, Sequence
from time import monotonic_ns

from kcli import forks
from kcli.clock import Clock
from kcli.errors import ProtocolError
from kcli.network.channel import CONNECTING, HANDSHAKING, READY, KafkaChannel, PeerClosed, explain_os_error
from kcli.network.framing import (
    DEFAULT_MAX_FRAME_BYTES,
    INITIAL_FRAME_BYTES,
    FrameReader,
    Part,
    ReceiveBudget,
    TlsExpected,
)
from kcli.network.listener import Listener
from kcli.network.poller import Poller
from kcli.network.transport import (
    PlainTransport,
    SocketAddress,
    TlsError,
    Transport,
    TransportFactory,
    begin_connect,
    format_address,
    prepare_socket,
)

# A frame freed on another thread releases budget without waking the selector, so check again this often.
_MEMORY_WAIT_MS = 50.0


class Selector:
    """Drives connections. `poll` does all I/O; the other calls prepare it and never block.

    Not thread-safe, except `wakeup`. After a poll, and until the next one, these attributes are its results:

    - `completed_sends`: ids whose frame is completely written.
    - `completed_receives`: (id, frame without its length), at most one per connection and poll, so that one busy peer
      cannot starve the others.
    - `connected`: ids that can be sent to from now on.
    - `disconnected`: id -> reason, a sentence. Connections ended by `close` are not included.
    - `refused`: ids among the disconnected for which TLS failed in such a way that a new connection would fail as well,
      or for which the other side expects TLS and this one does not.
    - `violations`: id among the disconnected -> how the other side broke the protocol: bytes that are no frames, or TLS
      that failed; a sentence without its address.
    - `failed_sends`: ids among the disconnected whose frame was not completely written.
    - `accepted`: (socket, name of its listener), to `register` or close; `accept_error`: the error that stopped
      accepting.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        memory_limit_bytes: int | None = None,
        idle_ms: float = 540_000,
        poller: Poller | None = None,
        half_duplex: bool = False,
        initial_frame_bytes: int = INITIAL_FRAME_BYTES,
    ) -> None:
        """Make a selector without connections.

        `memory_limit_bytes` bounds received frames until they are freed. `idle_ms`: a connection without traffic for
        this long is closed; negative: never. `half_duplex`: a connection is not read while a frame to it is being sent.
        `initial_frame_bytes` are allocated for a frame before any of it arrives.
        """
        #: Nanoseconds that the last poll has waited for events, and those of its reads and writes.
        self.waited_ns = self.io_ns = 0
        self.completed_sends: list[str] = []
        self.completed_receives: list[tuple[str, bytearray]] = []
        self.connected: list[str] = []
        self.disconnected: dict[str, str] = {}
        self.refused: set[str] = set()
        self.violations: dict[str, str] = {}
        self.failed_sends: list[str] = []
        self.accepted: list[tuple[socket.socket, str]] = []
        self.accept_error: OSError | None = None
        self._clock = clock
        self._poller = poller or Poller()
        self._max_frame_bytes = max_frame_bytes
        self._budget = None if memory_limit_bytes is None else ReceiveBudget(memory_limit_bytes)
        self._idle = IdleTimes(idle_ms)
        self._half_duplex = half_duplex
        self._initial_frame_bytes = initial_frame_bytes
        self._listeners: list[Listener] = []
        self._channels: dict[str, KafkaChannel] = {}
        self._failed_connects: dict[str, str] = {}
        # Ordered sets of ids: to handle without waiting for an event; waiting for memory; received in this poll.
        self._pending: dict[str, None] = {}
        self._out_of_memory: dict[str, None] = {}
        self._received_from: dict[str, None] = {}
        forks.call_in_child(self._close_in_child)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {len(self._channels)} connections, {len(self._out_of_memory)} waiting for memory>"
        )

    def connect(
        self,
        id: str,
        address: SocketAddress,
        *,
        send_buffer_bytes: int = 131_072,
        receive_buffer_bytes: int = 65_536,
        transport: TransportFactory = PlainTransport,
    ) -> None:
        """Start connecting; a later poll reports `connected` or `disconnected`. ValueError when `id` is in use.

        Buffer sizes are those of the socket; -1 leaves them to the operating system.
        """
        self._check_free(id)
        try:
            opened, is_connected = self._open(address, send_buffer_bytes, receive_buffer_bytes, transport)
        except OSError as error:
            self._failed_connects[id] = explain_os_error(error, format_address(address), connecting=True)
            return
        self._add(id, opened, format_address(address), HANDSHAKING if is_connected else CONNECTING)

    def listen_on(self, sock: socket.socket, backlog: int = 50, name: str = "") -> None:
        """Listen on a bound socket; polls put new connections into `accepted`. `backlog` is the queue's length."""
        sock.listen(backlog)
        listener = Listener(sock, name)
        self._listeners.append(listener)
        self._poller.watch(listener)

    def pause_accepting(self, paused: bool = True) -> None:
        """Leave new connections in the operating system's queue, or accept them again."""
        for listener in self._listeners:
            listener.paused = paused
            self._poller.watch(listener)

    def stop_accepting(self) -> None:
        """Close the listening sockets."""
        for listener in self._listeners:
            self._poller.unwatch(listener)
            listener.transport.close()
        self._listeners.clear()

    def register(self, id: str, sock: socket.socket, *, transport: TransportFactory = PlainTransport) -> None:
        """Add an accepted socket; it is in `connected` once its handshake is complete."""
        self._check_free(id)
        prepare_socket(sock, -1, -1)
        try:
            peer = format_address((sock.family, sock.getpeername()))
        except OSError:
            peer = "a peer that already disconnected"
        self._add(id, transport(sock), peer, HANDSHAKING)

    def send(self, id: str, parts: Sequence[Part]) -> None:
        """Set a frame for the next poll to send. ValueError if `id` is not connected or is sending another one."""
        channel = self._channels.get(id)
        if channel is None or channel.state != READY:
            raise ValueError(f"connection {id} is not ready to send")
        channel.start_send(parts)
        self._pending[id] = None

    def mute(self, id: str) -> None:
        """Stop reading from `id` until `unmute`.

        The poller is not changed until something arrives: during a long poll nothing does, so both calls cost nothing.
        """
        self._channels[id].muted = True

    def unmute(self, id: str) -> None:
        channel = self._channels[id]
        channel.muted = False
        if channel.transport.has_buffered():
            self._pending[id] = None
        self._poller.watch(channel)

    def limit_frames(self, id: str, max_frame_bytes: int | None = None) -> None:
        """Set the limit of the next frames from `id`; None: the limit of all connections."""
        self._channels[id].limit_frames(self._max_frame_bytes if max_frame_bytes is None else max_frame_bytes)

    @property
    def is_sending(self) -> bool:
        """True while any frame is not completely written."""
        return any(channel.sending for channel in self._channels.values())

    def is_connected(self, id: str) -> bool:
        channel = self._channels.get(id)
        return channel is not None and channel.state == READY

    def channel(self, id: str) -> KafkaChannel | None:
        return self._channels.get(id)

    def longest_idle(self, among: Container[str]) -> tuple[str, float] | None:
        """Return the id and last activity in ms of the connection idle for longest among these, except muted ones."""
        rows = self._idle.by_age()
        return next(((id, at_ms) for id, at_ms in rows if id in among and not self._channels[id].muted), None)

    def close(self, id: str) -> None:
        """Close a connection; incomplete frames are dropped and no result mentions it. Unknown ids are ignored."""
        self._failed_connects.pop(id, None)
        channel = self._channels.pop(id, None)
        if channel is not None:
            self._forget(channel)

    def close_all(self) -> None:
        """Close all connections, listening sockets and the selector itself."""
        self.stop_accepting()
        for id in list(self._channels):
            self.close(id)
        self._poller.close()

    def _close_in_child(self) -> None:
        """Close the descriptors that a fork has copied: of all connections, of listening sockets, of the poller.

        Nothing is sent, and nothing is unregistered: the child has its parent's epoll.
        """
        self._poller.close()
        for channel in self._channels.values():
            channel.transport.close_descriptor()
        self._channels.clear()
        for sock in [listener.transport for listener in self._listeners] + [sock for sock, _ in self.accepted]:
            sock.close()
        self._listeners.clear()

    def wakeup(self) -> None:
        """Make the current poll, or else the next one, return at once. Thread-safe."""
        self._poller.wakeup()

    def poll(self, timeout_ms: float) -> None:
        """Do all possible I/O, waiting up to `timeout_ms` for it, and set the results."""
        started_ns = monotonic_ns()
        self._clear_results()
        self._handle_pending()
        self._read_after_memory()
        waiting_ns = monotonic_ns()
        ready = self._poller.wait(self._wait_ms(timeout_ms))
        waited_ns = monotonic_ns()
        for watched, events in ready:
            if isinstance(watched, Listener):
                self._accept(watched)
            else:
                self._handle(watched, events)
        self._close_idle()
        self.waited_ns = waited_ns - waiting_ns
        self.io_ns = monotonic_ns() - waited_ns + waiting_ns - started_ns

    def _accept(self, listener: Listener) -> None:
        accepted, error = listener.accept()
        self.accepted += [(sock, listener.name) for sock in accepted]
        self.accept_error = error or self.accept_error

    def _clear_results(self) -> None:
        self.completed_sends = []
        self.completed_receives = []
        self.connected = []
        self.refused = set()
        self.violations = {}
        self.failed_sends = []
        self.accepted = []
        self.accept_error = None
        self.disconnected, self._failed_connects = self._failed_connects, {}
        self._received_from.clear()

    def _handle_pending(self) -> None:
        waiting, self._pending = self._pending, {}
        for id in waiting:
            channel = self._channels[id]
            buffered = channel.transport.has_buffered()
            self._handle(channel, channel.transport.read_needs if buffered else 0, try_write=True)

    def _read_after_memory(self) -> None:
        """Read from connections that waited for memory, oldest first, while the budget lasts."""
        waiting, self._out_of_memory = self._out_of_memory, {}
        for id in waiting:
            channel = self._channels[id]
            if self._budget is None or self._budget.available():
                channel.out_of_memory = False
                self._handle(channel, channel.transport.read_needs)
            else:
                self._out_of_memory[id] = None

    def _wait_ms(self, timeout_ms: float) -> float:
        if self.completed_sends or self.completed_receives or self.connected or self.disconnected or self._pending:
            return 0
        if self._out_of_memory:
            timeout_ms = min(timeout_ms, _MEMORY_WAIT_MS)
        expiry_ms = self._idle.next_expiry_ms()
        if expiry_ms is not None:
            timeout_ms = min(timeout_ms, expiry_ms - self._clock.now_ms())
        return max(timeout_ms, 0)

    def _handle(self, channel: KafkaChannel, events: int, *, try_write: bool = False) -> None:
        """Do the I/O of a channel for these events; `try_write`: try to write without an event for it."""
        id, transport = channel.id, channel.transport
        if channel.muted and not channel.sending and channel.state == READY:
            self._poller.watch(channel)
            return
        try:
            if channel.state != READY:
                if not channel.establish():
                    self._idle.touch(id, self._clock.now_ms())
                    self._poller.watch(channel)
                    return
                self.connected.append(id)
                events = 0  # read from the next poll on, so that a refusal after the handshake comes after `connected`
            writable = try_write or events & transport.write_needs
            if events & transport.read_needs and channel.may_read and id not in self._received_from:
                frame = channel.read()
                if frame is not None:
                    self._received_from[id] = None
                    self.completed_receives.append((id, frame))
            if writable and channel.sending and channel.write():
                self.completed_sends.append(id)
        except (OSError, ProtocolError, PeerClosed) as error:
            if isinstance(error, TlsExpected) or (isinstance(error, TlsError) and error.refused):
                self.refused.add(id)
            if isinstance(error, (ProtocolError, TlsError)):
                self.violations[id] = str(error)
            self._disconnect(channel, channel.explain(error))
            return
        if not channel.in_partial_length:  # single bytes must not keep a connection open forever
            self._idle.touch(id, self._clock.now_ms())
        if channel.out_of_memory:
            self._out_of_memory[id] = None
        elif transport.has_buffered() and channel.may_read:
            self._pending[id] = None
        self._poller.watch(channel)

    def _close_idle(self) -> None:
        for id in self._idle.take_expired(self._clock.now_ms()):
            channel = self._channels[id]
            seconds = self._idle.limit_ms / 1000
            self._disconnect(channel, f"idle connection with {channel.peer} closed after {seconds:g} s without traffic")

    def _disconnect(self, channel: KafkaChannel, reason: str) -> None:
        self.disconnected[channel.id] = reason
        if channel.sending:
            self.failed_sends.append(channel.id)
        if channel.id in self.connected:
            self.connected.remove(channel.id)
        del self._channels[channel.id]
        self._forget(channel)

    def _open(
        self, address: SocketAddress, send_buffer_bytes: int, receive_buffer_bytes: int, transport: TransportFactory
    ) -> tuple[Transport, bool]:
        sock, done = begin_connect(address, send_buffer_bytes, receive_buffer_bytes)
        return transport(sock), done

    def _add(self, id: str, transport: Transport, peer: str, state: str) -> None:
        reader = FrameReader(self._max_frame_bytes, self._budget, self._initial_frame_bytes)
        channel = KafkaChannel(id, transport, peer, reader, state=state, half_duplex=self._half_duplex)
        self._channels[id] = channel
        self._idle.touch(id, self._clock.now_ms())
        if state == HANDSHAKING:
            self._pending[id] = None
        else:
            self._poller.watch(channel)

    def _check_free(self, id: str) -> None:
        if id in self._channels or id in self._failed_connects:
            raise ValueError(f"there is already a connection {id}")

    def _forget(self, channel: KafkaChannel) -> None:
        self._poller.unwatch(channel)
        self._idle.forget(channel.id)
        self._out_of_memory.pop(channel.id, None)
        self._pending.pop(channel.id, None)
        channel.close()


class IdleTimes:
    """Connections in the order of their last activity. Every operation is O(1).

    A connection expires after `limit_ms` without activity; negative: never. Time comes in as a number.
    """

    def __init__(self, limit_ms: float) -> None:
        self.limit_ms = limit_ms
        self._last_ms: dict[str, float] = {}

    def touch(self, id: str, now_ms: float) -> None:
        """Record activity of `id`."""
        self._last_ms.pop(id, None)
        self._last_ms[id] = now_ms

    def forget(self, id: str) -> None:
        self._last_ms.pop(id, None)

    def by_age(self) -> Iterator[tuple[str, float]]:
        """Iterate over ids with the time of their last activity, longest idle first."""
        return iter(self._last_ms.items())

    def next_expiry_ms(self) -> float | None:
        """Return the time at which the next connection expires; None if none will."""
        if self.limit_ms < 0 or not self._last_ms:
            return None
        return next(iter(self._last_ms.values())) + self.limit_ms

    def take_expired(self, now_ms: float) -> list[str]:
        """Remove and return the expired connections, longest idle first; the caller closes them."""
        expired: list[str] = []
        while (expiry := self.next_expiry_ms()) is not None and expiry <= now_ms:
            oldest = next(iter(self._last_ms))
            del self._last_ms[oldest]
            expired.append(oldest)
        return expired
