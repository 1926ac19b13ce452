"""The wait of a selector: for events on many sockets, or for a wake-up from another thread."""

from __future__ import annotations

import contextlib
import selectors
import socket

from kcli.network.channel import KafkaChannel
from kcli.network.listener import Listener

Watched = KafkaChannel | Listener

# A signal just before the waiting system call does not end that call, and Python runs the handler only after it: Ctrl-C
# would take effect when a broker answers, or never.
_MAX_WAIT_S = 1.0


class Poller:
    """The wait of a selector: epoll, kqueue or the platform's equivalent, with a socket pair for wake-ups."""

    def __init__(self) -> None:
        self._select = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._select.register(self._wake_in, selectors.EVENT_READ, None)

    def watch(self, channel: Watched) -> None:
        """Wait for exactly `channel.interest()` from now on; 0 is no event."""
        interest, watched_events = channel.interest(), channel.watched_events
        if interest == watched_events:
            return
        if not interest:
            self._select.unregister(channel.transport)
        elif watched_events:
            self._select.modify(channel.transport, interest, channel)
        else:
            self._select.register(channel.transport, interest, channel)
        channel.watched_events = interest

    def unwatch(self, channel: Watched) -> None:
        """Stop watching a channel that is still open. A signal may have interrupted an earlier call for it."""
        if channel.watched_events:
            with contextlib.suppress(KeyError):  # a signal came between the two steps of an earlier call
                self._select.unregister(channel.transport)
            channel.watched_events = 0

    def wait(self, timeout_ms: float) -> list[tuple[Watched, int]]:
        """Return channels with their ready events; empty after a timeout, a wake-up, or at most a second."""
        timeout_s = min(timeout_ms / 1000.0, _MAX_WAIT_S)
        ready: list[tuple[Watched, int]] = []
        for key, events in self._select.select(timeout_s):
            if key.data is None:
                self._drain_wakeups()
            else:
                ready.append((key.data, events))
        return ready

    def wakeup(self) -> None:
        """End the current wait, or else the next one. Thread-safe."""
        # A full socket buffer means that a wake-up is pending; a closed one that the poller is closed.
        with contextlib.suppress(OSError):
            self._wake_out.send(b"w")

    def close(self) -> None:
        """Close the descriptors of this process. Nothing is unregistered, so that the parent of a fork goes on."""
        with contextlib.suppress(OSError):  # a kqueue does not exist in a child
            self._select.close()
        self._wake_in.close()
        self._wake_out.close()

    def _drain_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while len(self._wake_in.recv(4096)) == 4096:
                pass
