"""One connection: its handshake, the frame being written, the frame being read."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from selectors import EVENT_WRITE

from kcli.errors import ProtocolError
from kcli.network.framing import FrameReader, Part, UnsentPart, drop_sent, frame_parts
from kcli.network.transport import Transport

# A channel moves forward only: CONNECTING until the TCP connection stands, HANDSHAKING until the transport is ready,
# READY while frames may pass, CLOSED for good. An accepted socket starts at HANDSHAKING, as does one that connected at
# once. Any of them goes to CLOSED on the first error.
CONNECTING, HANDSHAKING, READY, CLOSED = "connecting", "handshaking", "ready", "closed"

# Per call, so that neither a client that reads 50 MB as fast as we write it nor one that sends as much keeps all others
# waiting: at memory speed these take about half a millisecond each. Polls are level-triggered, so the rest goes next.
_WRITE_BYTES = 1 << 20
_READ_BYTES = 4 << 20


class PeerClosed(Exception):
    """The other side ended the connection in the orderly way."""


class KafkaChannel:
    """Carries one frame at a time in each direction. The selector drives it; no call blocks.

    Calls that do I/O raise OSError, PeerClosed or ProtocolError; `explain` turns those into a sentence.
    """

    def __init__(
        self,
        id: str,
        transport: Transport,
        peer: str,
        reader: FrameReader,
        *,
        state: str,
        in_turn: bool = False,
    ) -> None:
        """`in_turn`: read nothing while a frame is being sent, as a server that answers one request at a time."""
        self.id = id
        self.peer = peer
        self.transport = transport
        self.state = state
        self.muted = False
        self.starved = False
        self.in_turn = in_turn
        self.watched_events = 0
        self._reader = reader
        self._unsent: list[UnsentPart] = []
        self._frame_bytes = 0
        self._written_bytes = 0
        self._handshake_needs = EVENT_WRITE

    def __repr__(self) -> str:
        notes = [f"id={self.id}", self.peer, self.transport.name, self.state]
        if self._unsent:
            notes.append(f"sending={self._written_bytes}/{self._frame_bytes}")
        if self._reader.progress:
            notes.append("receiving={}/{}".format(*self._reader.progress))
        notes += [word for word, on in (("muted", self.muted), ("waiting-for-memory", self.starved)) if on]
        return f"<KafkaChannel {' '.join(notes)}>"

    @property
    def sending(self) -> bool:
        """A frame has been handed over and is not wholly written."""
        return bool(self._unsent)

    @property
    def may_read(self) -> bool:
        """It is not muted, and it is the other side's turn."""
        return not self.muted and not (self.in_turn and self._unsent)

    @property
    def dawdles(self) -> bool:
        """The other side has begun the four bytes of a length and not finished them."""
        progress = self._reader.progress
        return progress is not None and progress[1] == 4 and 0 < progress[0] < 4

    def interest(self) -> int:
        """The events that would let this channel make progress."""
        if self.state == CONNECTING:
            return EVENT_WRITE
        if self.state == HANDSHAKING:
            return self._handshake_needs
        events = self.transport.read_needs if self.may_read and not self.starved else 0
        return events | (self.transport.write_needs if self._unsent else 0)

    def establish(self) -> bool:
        """Take connecting and handshaking as far as they go now; True when the channel has become ready."""
        if self.state == CONNECTING:
            self.transport.finish_connect()
            self.state = HANDSHAKING
        self._handshake_needs = self.transport.handshake()
        if self._handshake_needs:
            return False
        self.state = READY
        return True

    def start_send(self, parts: Sequence[Part]) -> None:
        """Keep one frame to be written. ValueError while another is under way."""
        if self._unsent:
            raise ValueError(f"a frame is still being sent on {self!r}")
        self._unsent = frame_parts(parts)
        self._frame_bytes = sum(len(p) for p in self._unsent)
        self._written_bytes = 0

    def write(self) -> bool:
        """Write what the connection takes now, up to a bound; True when the frame is wholly written."""
        stop_at = self._written_bytes + _WRITE_BYTES
        while self._unsent and self._written_bytes < stop_at:
            count = self.transport.send(self._unsent)
            if not count:
                return False
            self._written_bytes += count
            drop_sent(self._unsent, count)
        return not self._unsent

    def read(self) -> bytearray | None:
        """Read what is there, up to the end of one frame and up to a bound; that frame when it is whole."""
        left = _READ_BYTES
        while left > 0:
            space = self._reader.space()
            if space is None:
                self.starved = True
                return None
            self.starved = False
            with space:
                count = self.transport.recv_into(space)
            if count is None:
                return None
            if not count:
                raise PeerClosed
            left -= count
            frame = self._reader.advance(count)
            if frame is not None:
                return frame
        return None

    def close(self) -> None:
        self.state = CLOSED
        self._unsent.clear()
        self._reader.discard()
        self.transport.close()

    def explain(self, error: Exception) -> str:
        """Why this connection is lost, in one sentence that names the other side."""
        if isinstance(error, ProtocolError):
            return f"{error.message} (from {self.peer})"
        if isinstance(error, PeerClosed):
            return f"closed by {self.peer}{self._loss()}"
        assert isinstance(error, OSError)
        return explain_os_error(error, self.peer, connecting=self.state == CONNECTING) + self._loss()

    def _loss(self) -> str:
        if self._reader.progress:
            return " in the middle of a frame, {} of {} bytes read".format(*self._reader.progress)
        if self._unsent:
            return f" while sending, {self._written_bytes} of {self._frame_bytes} bytes written"
        return " during the handshake" if self.state == HANDSHAKING else ""


def explain_os_error(error: OSError, peer: str, *, connecting: bool) -> str:
    """The operating system's error as a sentence about the connection with `peer`."""
    if error.errno == errno.ECONNREFUSED:
        return f"connection refused by {peer}"
    if error.errno in (errno.ECONNRESET, errno.EPIPE):
        return f"connection reset by {peer}"
    if error.errno == errno.ETIMEDOUT:
        return f"{peer} did not answer in time"
    text = os.strerror(error.errno) if error.errno else str(error)
    return f"cannot connect to {peer}: {text}" if connecting else f"connection with {peer} failed: {text}"
