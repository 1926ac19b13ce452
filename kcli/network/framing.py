"""Length-prefixed frames in a byte stream. Pure: no sockets, no clock.

Every Kafka request and response travels as a signed 32-bit big-endian length and that many bytes
(https://kafka.apache.org/protocol#protocol_common).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable

from kcli.errors import ProtocolError
from kcli.network.file_slice import FileSlice

Buffer = bytes | bytearray | memoryview

#: A part of a frame to send; a part not yet sent.
Part = bytes | bytearray | memoryview | FileSlice
UnsentPart = memoryview | FileSlice

LENGTH = struct.Struct(">i")
MAX_LENGTH = 0x7FFFFFFF

#: Kafka's `socket.request.max.bytes`.
DEFAULT_MAX_FRAME_BYTES = 104_857_600

# A declared length is not trusted until bytes arrive. This much is allocated for a declared length alone; beyond it the
# buffer is at most four times the received bytes, unless this peer has already sent a whole frame of that size.
INITIAL_FRAME_BYTES = 256 * 1024
_GROWTH = 4

_SMALL_BYTES = 1024

_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")  # the starts of an alert and of a handshake

_HTTP_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN")


def frame_parts(parts: Iterable[Part]) -> list[UnsentPart]:
    """Return the length and then `parts`, as byte views and file slices. ValueError beyond 2 GiB.

    Parts are not copied, except a single small one: one buffer costs less to send than two.
    """
    views: list[UnsentPart] = [p if isinstance(p, FileSlice) else memoryview(p).cast("B") for p in parts if len(p)]
    size = sum(len(v) for v in views)
    if len(views) == 1 and size <= _SMALL_BYTES and not isinstance(views[0], FileSlice):
        return [memoryview(LENGTH.pack(size) + views[0])]
    if size > MAX_LENGTH:
        raise ValueError(f"a frame of {size} bytes is longer than a 32-bit length allows")
    return [memoryview(LENGTH.pack(size)), *views]


class TlsExpected(ProtocolError):
    """The other side sent a TLS record instead of a frame, so it expects a TLS connection."""


def drop_sent(parts: list[UnsentPart], count: int) -> None:
    """Remove the first `count` bytes from `parts`, in place."""
    sent = 0
    while sent < len(parts) and count >= len(parts[sent]):
        count -= len(parts[sent])
        sent += 1
    del parts[:sent]
    if count:
        parts[0] = parts[0][count:]


class ReceiveBudget:
    """A bound on the bytes of all frames that are being received or are still in use.

    As in Kafka's memory pool, a frame is admitted while anything is left, so the last frame may exceed the bound, and a
    frame larger than the bound can still be received. A frame counts from the arrival of its length until the
    `bytearray` returned for it is freed, memoryviews over it included.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._used_bytes = 0
        # Frames may be freed on any thread; appending to a deque is thread-safe, `-=` is not.
        self._released: deque[int] = deque()

    @property
    def used_bytes(self) -> int:
        while self._released:
            self._used_bytes -= self._released.popleft()
        return self._used_bytes

    def available(self) -> bool:
        return self.used_bytes < self.limit_bytes

    def reserve(self, count: int) -> bool:
        """Reserve `count` bytes; False while nothing is left."""
        if not self.available():
            return False
        self._used_bytes += count
        return True

    def release(self, count: int) -> None:
        self._released.append(count)


class _CountedFrame(bytearray):
    """A frame that releases its bytes in the budget when it is freed."""

    budget: ReceiveBudget
    counted_bytes: int = 0

    def __del__(self) -> None:
        if self.counted_bytes:
            self.budget.release(self.counted_bytes)


class FrameReader:
    """Assembles frames: `space` is the buffer for the next bytes, `advance` returns each complete frame.

    `space()` is never empty. It ends where the length or the frame ends, so bytes of the next frame are never read.
    """

    def __init__(
        self,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        budget: ReceiveBudget | None = None,
        initial_frame_bytes: int = INITIAL_FRAME_BYTES,
    ) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._budget = budget
        self._header = bytearray(4)
        self._header_read = 0
        self._length = 0
        self._frame: bytearray | None = None
        self._read = 0
        self._proven_bytes = initial_frame_bytes

    def limit(self, max_frame_bytes: int) -> None:
        """Set the limit of frames whose length has not arrived yet."""
        self._max_frame_bytes = max_frame_bytes

    @property
    def progress(self) -> tuple[int, int] | None:
        """(read, expected) bytes of the current frame, or of its length before that; None between frames."""
        if self._header_read == 4:
            return self._read, self._length
        return (self._header_read, 4) if self._header_read else None

    def space(self) -> memoryview | None:
        """Return the buffer for the next bytes, to release before `advance`; None while the budget is exhausted.

        ProtocolError for a frame that does not fit into the memory of the process.
        """
        if self._header_read < 4:
            return memoryview(self._header)[self._header_read :]
        try:
            if self._frame is None and not self._begin():
                return None
            assert self._frame is not None
            if self._read == len(self._frame):
                self._grow(self._frame)
        except MemoryError:
            raise ProtocolError(f"there is not enough memory for a frame of {self._length} bytes") from None
        return memoryview(self._frame)[self._read :]

    def advance(self, count: int) -> bytearray | None:
        """Account for `count` bytes read into `space()`; return the frame without its length when it is complete.

        ProtocolError for a length that is not valid or above the limit.
        """
        if self._header_read < 4:
            self._header_read += count
            if self._header_read == 4:
                self._length = self._checked_length()
            return None
        self._read += count
        return self._finish() if self._read == self._length else None

    def discard(self) -> None:
        """Drop an incomplete frame after its connection is lost."""
        self._frame = None
        self._header_read = self._read = 0

    def _checked_length(self) -> int:
        (length,) = LENGTH.unpack(self._header)
        if 0 < length <= self._max_frame_bytes:
            return int(length)
        if self._header[:2] in _TLS_RECORDS:
            raise TlsExpected("a TLS record came instead of a frame, so the other side expects a TLS connection")
        if self._header in _HTTP_METHODS:
            raise ProtocolError("an HTTP request came instead of a frame, so the other side is not a Kafka client")
        is_http = self._header == b"HTTP"
        hint = ": the bytes are HTTP, so the other side is not a Kafka port" if is_http else ""
        if length <= 0:
            raise ProtocolError(f"a frame length of {length} is not valid{hint}")
        raise ProtocolError(f"a frame length of {length} bytes is above the limit of {self._max_frame_bytes}{hint}")

    def _begin(self) -> bool:
        if self._budget is not None and not self._budget.reserve(self._length):
            return False
        size = min(self._length, self._proven_bytes)
        if self._budget is None:
            self._frame = bytearray(size)
        else:
            self._frame = frame = _CountedFrame(size)
            frame.budget, frame.counted_bytes = self._budget, self._length
        return True

    def _grow(self, frame: bytearray) -> None:
        frame += bytes(min(self._length, len(frame) * _GROWTH) - len(frame))

    def _finish(self) -> bytearray:
        frame, self._frame = self._frame, None
        assert frame is not None
        self._proven_bytes = max(self._proven_bytes, self._length)
        self._header_read = self._read = 0
        return frame
