"""Drives many connections from one thread: frames out, frames in, and who came or went."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Protocol

from kcli.clock import Clock
from kcli.errors import ProtocolError
from kcli.network.channel import CONNECTING, HANDSHAKING, READY, KafkaChannel, PeerClosed, explain_os_error
from kcli.network.framing import DEFAULT_MAX_FRAME_BYTES, FIRST_STEP_BYTES, FrameReader, Part, ReceiveBudget
from kcli.network.listener import Listener
from kcli.network.poller import Poller, SocketPoller
from kcli.network.transport import (
    PlainTransport,
    SocketAddress,
    Transport,
    TransportFactory,
    begin_connect,
    format_address,
    prepare_socket,
)

# A frame that is dropped on another thread frees budget without waking the selector: look again this often.
_STARVED_WAIT_MS = 50.0


class SelectorLike(Protocol):
    """What the client and the broker drive: real sockets (`Selector`) or memory (`MemorySelector`)."""

    completed_sends: list[str]
    completed_receives: list[tuple[str, bytearray]]
    connected: list[str]
    disconnected: dict[str, str]
    failed_sends: list[str]

    def connect(
        self,
        id: str,
        address: SocketAddress,
        *,
        send_buffer_bytes: int = ...,
        receive_buffer_bytes: int = ...,
        transport: TransportFactory = ...,
    ) -> None: ...
    def send(self, id: str, parts: Sequence[Part]) -> None: ...
    def poll(self, timeout_ms: float) -> None: ...
    def mute(self, id: str) -> None: ...
    def unmute(self, id: str) -> None: ...
    def close(self, id: str) -> None: ...
    def close_all(self) -> None: ...
    def wakeup(self) -> None: ...
    def is_connected(self, id: str) -> bool: ...
    def channel(self, id: str) -> KafkaChannel | None: ...


class Selector:
    """`poll` does all the I/O; the other calls prepare it and never block. Only `wakeup` may come from another thread.

    After a poll, and until the next, these hold what it did:

    - `completed_sends`: ids whose frame is wholly written.
    - `completed_receives`: (id, frame without its length), at most one per connection and poll, so that one busy peer
      cannot starve the others.
    - `connected`: ids that may be sent to from now on.
    - `disconnected`: id -> why, a sentence. Connections ended by `close` are not listed.
    - `failed_sends`: ids among the disconnected that had a frame not wholly written.
    - `accepted`: sockets that came to a listener, for `register` or to be closed; `accept_error`: why not more came.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        memory_limit_bytes: int | None = None,
        idle_ms: float = 540_000,
        poller: Poller | None = None,
        in_turn: bool = False,
        first_step_bytes: int = FIRST_STEP_BYTES,
    ) -> None:
        """`memory_limit_bytes` bounds received frames until their takers drop them; `idle_ms` negative: never idle.

        `in_turn`: nothing is read from a connection while a frame to it is not wholly written. `first_step_bytes` are
        allocated for a frame before any of it has come.
        """
        self.completed_sends: list[str] = []
        self.completed_receives: list[tuple[str, bytearray]] = []
        self.connected: list[str] = []
        self.disconnected: dict[str, str] = {}
        self.failed_sends: list[str] = []
        self.accepted: list[socket.socket] = []
        self.accept_error: OSError | None = None
        self._clock = clock
        self._poller = poller or SocketPoller()
        self._max_frame_bytes = max_frame_bytes
        self._budget = None if memory_limit_bytes is None else ReceiveBudget(memory_limit_bytes)
        self._idle = IdleTimes(idle_ms)
        self._in_turn = in_turn
        self._first_step_bytes = first_step_bytes
        self._listeners: list[Listener] = []
        self._channels: dict[str, KafkaChannel] = {}
        self._failed_connects: dict[str, str] = {}
        # Dicts as ordered sets of ids: to be handled without waiting for an event; out of memory; received this poll.
        self._to_attend: dict[str, None] = {}
        self._starved: dict[str, None] = {}
        self._served: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self._channels)} connections, {len(self._starved)} waiting for memory>"

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
            pipe, done = self._open(address, send_buffer_bytes, receive_buffer_bytes, transport)
        except OSError as error:
            self._failed_connects[id] = explain_os_error(error, format_address(address), connecting=True)
            return
        self._add(id, pipe, format_address(address), HANDSHAKING if done else CONNECTING)

    def listen_on(self, sock: socket.socket, backlog: int = 50) -> None:
        """Let a bound socket listen; each poll reports who came in `accepted`, and so many more may queue."""
        sock.listen(backlog)
        listener = Listener(sock)
        self._listeners.append(listener)
        self._poller.watch(listener)

    def pause_accepting(self, paused: bool = True) -> None:
        """Let new connections queue in the operating system, or take them again."""
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
        """Take over an accepted socket; it is reported in `connected` when its handshake is done."""
        self._check_free(id)
        prepare_socket(sock, -1, -1)
        try:
            peer = format_address((sock.family, sock.getpeername()))
        except OSError:
            peer = "a peer that is already gone"
        self._add(id, transport(sock), peer, HANDSHAKING)

    def send(self, id: str, parts: Sequence[Part]) -> None:
        """Keep one frame for the next poll. ValueError when `id` is not connected or has one under way."""
        channel = self._channels.get(id)
        if channel is None or channel.state != READY:
            raise ValueError(f"connection {id} is not ready to send")
        channel.start_send(parts)
        self._to_attend[id] = None

    def mute(self, id: str) -> None:
        """Read nothing more from `id` until `unmute`.

        The poller learns of it when something comes: in a long poll nothing does, and both calls cost nothing.
        """
        self._channels[id].muted = True

    def unmute(self, id: str) -> None:
        channel = self._channels[id]
        channel.muted = False
        if channel.transport.has_buffered():
            self._to_attend[id] = None
        self._poller.watch(channel)

    @property
    def is_sending(self) -> bool:
        """Some frame is not wholly written."""
        return any(channel.sending for channel in self._channels.values())

    def is_connected(self, id: str) -> bool:
        channel = self._channels.get(id)
        return channel is not None and channel.state == READY

    def channel(self, id: str) -> KafkaChannel | None:
        return self._channels.get(id)

    def quietest(self) -> tuple[str, float] | None:
        """The connection without traffic for longest, and since when, muted ones left out."""
        return next((found for found in self._idle.by_age() if not self._channels[found[0]].muted), None)

    def close(self, id: str) -> None:
        """End a connection now; what it had under way is dropped and nothing is reported. Unknown ids are fine."""
        self._failed_connects.pop(id, None)
        channel = self._channels.pop(id, None)
        if channel is not None:
            self._forget(channel)

    def close_all(self) -> None:
        """End all connections, listening sockets and the selector itself."""
        self.stop_accepting()
        for id in list(self._channels):
            self.close(id)
        self._poller.close()

    def wakeup(self) -> None:
        """Make the poll under way, or else the next one, return at once. Safe from any thread."""
        self._poller.wakeup()

    def poll(self, timeout_ms: float) -> None:
        """Do the I/O that is possible, waiting up to `timeout_ms` for some, and set the result lists."""
        self._clear_results()
        self._attend()
        self._feed_starved()
        for watched, events in self._poller.wait(self._wait_ms(timeout_ms)):
            if isinstance(watched, Listener):
                self.accepted, self.accept_error = watched.accept()
            else:
                self._handle(watched, events)
        self._close_idle()

    def _clear_results(self) -> None:
        self.completed_sends = []
        self.completed_receives = []
        self.connected = []
        self.failed_sends = []
        self.accepted = []
        self.accept_error = None
        self.disconnected, self._failed_connects = self._failed_connects, {}
        self._served.clear()

    def _attend(self) -> None:
        waiting, self._to_attend = self._to_attend, {}
        for id in waiting:
            channel = self._channels[id]
            buffered = channel.transport.has_buffered()
            self._handle(channel, channel.transport.read_needs if buffered else 0, unasked=True)

    def _feed_starved(self) -> None:
        """First come, first served, as far as the budget goes."""
        waiting, self._starved = self._starved, {}
        for id in waiting:
            channel = self._channels[id]
            if self._budget is None or self._budget.available():
                channel.starved = False
                self._handle(channel, channel.transport.read_needs)
            else:
                self._starved[id] = None

    def _wait_ms(self, timeout_ms: float) -> float:
        if self.completed_sends or self.completed_receives or self.connected or self.disconnected or self._to_attend:
            return 0
        if self._starved:
            timeout_ms = min(timeout_ms, _STARVED_WAIT_MS)
        expiry_ms = self._idle.next_expiry_ms()
        if expiry_ms is not None:
            timeout_ms = min(timeout_ms, expiry_ms - self._clock.now_ms())
        return max(timeout_ms, 0)

    def _handle(self, channel: KafkaChannel, events: int, *, unasked: bool = False) -> None:
        """All that `channel` can do on these events; `unasked`: also try to write, and look whether it works."""
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
            writable = unasked or events & transport.write_needs
            if events & transport.read_needs and channel.may_read and id not in self._served:
                frame = channel.read()
                if frame is not None:
                    self._served[id] = None
                    self.completed_receives.append((id, frame))
            if writable and channel.sending and channel.write():
                self.completed_sends.append(id)
        except (OSError, ProtocolError, PeerClosed) as error:
            self._lose(channel, channel.explain(error))
            return
        if not channel.dawdles:  # a byte now and then must not hold a connection open for ever
            self._idle.touch(id, self._clock.now_ms())
        if channel.starved:
            self._starved[id] = None
        elif transport.has_buffered() and channel.may_read:
            self._to_attend[id] = None
        self._poller.watch(channel)

    def _close_idle(self) -> None:
        for id in self._idle.take_expired(self._clock.now_ms()):
            channel = self._channels[id]
            seconds = self._idle.limit_ms / 1000
            self._lose(channel, f"connection with {channel.peer} closed by us after {seconds:g} s without traffic")

    def _lose(self, channel: KafkaChannel, reason: str) -> None:
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
        reader = FrameReader(self._max_frame_bytes, self._budget, self._first_step_bytes)
        channel = KafkaChannel(id, transport, peer, reader, state=state, in_turn=self._in_turn)
        self._channels[id] = channel
        self._idle.touch(id, self._clock.now_ms())
        if state == HANDSHAKING:
            self._to_attend[id] = None
        else:
            self._poller.watch(channel)

    def _check_free(self, id: str) -> None:
        if id in self._channels or id in self._failed_connects:
            raise ValueError(f"there is already a connection {id}")

    def _forget(self, channel: KafkaChannel) -> None:
        self._poller.unwatch(channel)
        self._idle.forget(channel.id)
        self._starved.pop(channel.id, None)
        self._to_attend.pop(channel.id, None)
        channel.close()


class IdleTimes:
    """Connections in the order of their last activity. Every operation is O(1).

    `limit_ms` negative: nothing ever expires.
    """

    def __init__(self, limit_ms: float) -> None:
        self.limit_ms = limit_ms
        self._last_ms: dict[str, float] = {}

    def touch(self, id: str, now_ms: float) -> None:
        """`id` did something: it is the youngest now."""
        self._last_ms.pop(id, None)
        self._last_ms[id] = now_ms

    def forget(self, id: str) -> None:
        self._last_ms.pop(id, None)

    def by_age(self) -> Iterator[tuple[str, float]]:
        """Ids with the time of their last activity, quietest first."""
        return iter(self._last_ms.items())

    def next_expiry_ms(self) -> float | None:
        """When the quietest connection reaches the limit; None when none ever will."""
        if self.limit_ms < 0 or not self._last_ms:
            return None
        return next(iter(self._last_ms.values())) + self.limit_ms

    def take_expired(self, now_ms: float) -> list[str]:
        """Those over the limit, quietest first; they are forgotten here and the caller closes them."""
        expired: list[str] = []
        while (expiry := self.next_expiry_ms()) is not None and expiry <= now_ms:
            oldest = next(iter(self._last_ms))
            del self._last_ms[oldest]
            expired.append(oldest)
        return expired
