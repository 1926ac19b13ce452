"""One connection: its handshake, the frame being sent, the frame being received."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from selectors import EVENT_WRITE

from kcli.errors import ProtocolError
from kcli.network.framing import FrameReader, Part, UnsentPart, drop_sent, frame_parts
from kcli.network.transport import TlsError, Transport

# States in order: CONNECTING until the TCP connection is established, HANDSHAKING until the transport is ready, READY
# while frames may be sent, CLOSED. An accepted socket starts in HANDSHAKING, as does one that connected immediately.
# The first error moves a channel from any state to CLOSED.
CONNECTING, HANDSHAKING, READY, CLOSED = "connecting", "handshaking", "ready", "closed"

# Bounds per call, so that one client that reads or sends 50 MB does not delay all others: at memory speed these take
# about half a millisecond each. Polls are level-triggered, so the next poll continues.
_WRITE_BYTES = 1 << 20
_READ_BYTES = 4 << 20


class PeerClosed(Exception):
    """The other side closed the connection in an orderly way."""


class KafkaChannel:
    """One frame at a time in each direction over a transport. The selector drives it; no call blocks.

    Calls that do I/O raise OSError, PeerClosed or ProtocolError; `explain` turns these into a sentence.
    """

    def __init__(
        self,
        id: str,
        transport: Transport,
        peer: str,
        reader: FrameReader,
        *,
        state: str,
        half_duplex: bool = False,
    ) -> None:
        """`half_duplex`: do not read while a frame is being sent, as a server that answers one request at a time."""
        self.id = id
        self.peer = peer
        self.transport = transport
        self.state = state
        self.muted = False
        self.out_of_memory = False
        self.half_duplex = half_duplex
        self.watched_events = 0
        self._reader = reader
        self._unsent: list[UnsentPart] = []
        self._frame_bytes = 0
        self._written_bytes = 0
        self._handshake_needs = EVENT_WRITE

    def __repr__(self) -> str:
        details = [f"id={self.id}", self.peer, self.transport.name, self.state]
        if self._unsent:
            details.append(f"sending={self._written_bytes}/{self._frame_bytes}")
        if self._reader.progress:
            details.append("receiving={}/{}".format(*self._reader.progress))
        details += [name for name, on in (("muted", self.muted), ("waiting-for-memory", self.out_of_memory)) if on]
        return f"<KafkaChannel {' '.join(details)}>"

    @property
    def sending(self) -> bool:
        """True while a frame is not completely written."""
        return bool(self._unsent)

    @property
    def may_read(self) -> bool:
        """True unless the channel is muted, or half-duplex and sending."""
        return not self.muted and not (self.half_duplex and self._unsent)

    @property
    def in_partial_length(self) -> bool:
        """True while only a part of the four bytes of a frame length is received."""
        progress = self._reader.progress
        return progress is not None and progress[1] == 4 and 0 < progress[0] < 4

    def limit_frames(self, max_frame_bytes: int) -> None:
        """Set the limit of the frames that are received from now on."""
        self._reader.limit(max_frame_bytes)

    def interest(self) -> int:
        """Return the events that this channel waits for."""
        if self.state == CONNECTING:
            return EVENT_WRITE
        if self.state == HANDSHAKING:
            return self._handshake_needs
        events = self.transport.read_needs if self.may_read and not self.out_of_memory else 0
        return events | (self.transport.write_needs if self._unsent else 0)

    def establish(self) -> bool:
        """Continue connecting and the handshake without blocking; True when the channel becomes ready."""
        if self.state == CONNECTING:
            self.transport.finish_connect()
            self.state = HANDSHAKING
        self._handshake_needs = self.transport.handshake()
        if self._handshake_needs:
            return False
        self.state = READY
        return True

    def start_send(self, parts: Sequence[Part]) -> None:
        """Set the frame to send. ValueError while another one is being sent."""
        if self._unsent:
            raise ValueError(f"a frame is still being sent on {self!r}")
        self._unsent = frame_parts(parts)
        self._frame_bytes = sum(len(p) for p in self._unsent)
        self._written_bytes = 0

    def write(self) -> bool:
        """Write as much as the connection accepts now, up to a bound; True when the frame is completely written."""
        stop_at = self._written_bytes + _WRITE_BYTES
        while self._unsent and self._written_bytes < stop_at:
            count = self.transport.send(self._unsent)
            if not count:
                return False
            self._written_bytes += count
            drop_sent(self._unsent, count)
        return not self._unsent

    def read(self) -> bytearray | None:
        """Read available bytes, up to the end of one frame and up to a bound; return the frame when it is complete."""
        remaining = _READ_BYTES
        while remaining > 0:
            space = self._reader.space()
            if space is None:
                self.out_of_memory = True
                return None
            self.out_of_memory = False
            with space:
                count = self.transport.recv_into(space)
            if count is None:
                return None
            if not count:
                raise PeerClosed
            remaining -= count
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
        """Return the reason for the loss of this connection, in one sentence that names the other side."""
        if isinstance(error, ProtocolError):
            return f"{error.message} (from {self.peer})"
        if isinstance(error, PeerClosed):
            return f"closed by {self.peer}{self._progress_at_loss()}"
        assert isinstance(error, OSError)
        if isinstance(error, TlsError):
            return f"TLS with {self.peer} failed: {error}"
        return explain_os_error(error, self.peer, connecting=self.state == CONNECTING) + self._progress_at_loss()

    def _progress_at_loss(self) -> str:
        if self._reader.progress:
            return " in the middle of a frame, {} of {} bytes read".format(*self._reader.progress)
        if self._unsent:
            return f" while sending, {self._written_bytes} of {self._frame_bytes} bytes written"
        return " during the handshake" if self.state == HANDSHAKING else ""


def explain_os_error(error: OSError, peer: str, *, connecting: bool) -> str:
    """Return an error of the operating system as a sentence about the connection with `peer`."""
    if error.errno == errno.ECONNREFUSED:
        return f"connection refused by {peer}"
    if error.errno in (errno.ECONNRESET, errno.EPIPE):
        return f"connection reset by {peer}"
    if error.errno == errno.ETIMEDOUT:
        return f"connection with {peer} timed out"
    text = os.strerror(error.errno) if error.errno else str(error)
    return f"cannot connect to {peer}: {text}" if connecting else f"connection with {peer} failed: {text}"
