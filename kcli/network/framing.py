"""Length-prefixed frames cut out of a byte stream. Pure: no sockets, no clock.

Every Kafka request and response travels as a signed 32-bit big-endian length and that many bytes
(https://kafka.apache.org/protocol#protocol_common).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence

from kcli.errors import ProtocolError
from kcli.network.file_slice import FileSlice

Buffer = bytes | bytearray | memoryview

#: What a frame to be sent is made of; what of it is still to be sent.
Part = bytes | bytearray | memoryview | FileSlice
UnsentPart = memoryview | FileSlice

LENGTH = struct.Struct(">i")
MAX_LENGTH = 0x7FFFFFFF

#: Kafka's `socket.request.max.bytes`.
DEFAULT_MAX_FRAME_BYTES = 104_857_600

# A length is only a claim until bytes back it. This much is allocated on the claim alone; beyond it the buffer is at
# most four times what has arrived, unless this peer has already sent a whole frame of that size.
FIRST_STEP_BYTES = 256 * 1024
_GROWTH = 4


def frame_parts(parts: Iterable[Part]) -> list[UnsentPart]:
    """The length and then `parts`, as byte views and file slices without copying. ValueError beyond 2 GiB."""
    views: list[UnsentPart] = [p if isinstance(p, FileSlice) else memoryview(p).cast("B") for p in parts if len(p)]
    size = sum(len(v) for v in views)
    if size > MAX_LENGTH:
        raise ValueError(f"a frame of {size} bytes does not fit a 32-bit length")
    return [memoryview(LENGTH.pack(size)), *views]


def drop_sent(parts: list[UnsentPart], count: int) -> None:
    """Take the first `count` bytes off the front of `parts`, in place."""
    whole = 0
    while whole < len(parts) and count >= len(parts[whole]):
        count -= len(parts[whole])
        whole += 1
    del parts[:whole]
    if count:
        parts[0] = parts[0][count:]


class ReceiveBudget:
    """A bound on the bytes of all frames that are arriving or still in use by whoever took them.

    As in Kafka's memory pool, a frame is admitted while anything is left, so the last one may overshoot and a frame
    larger than the whole bound can still pass. A frame counts from its length until the `bytearray` handed out is gone,
    memoryviews over it included.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._used = 0
        # Frames may die on any thread; appending to a deque is safe where `-=` is not.
        self._returned: deque[int] = deque()

    @property
    def used_bytes(self) -> int:
        while self._returned:
            self._used -= self._returned.popleft()
        return self._used

    def available(self) -> bool:
        return self.used_bytes < self.limit_bytes

    def take(self, count: int) -> bool:
        """Reserve `count` bytes; False while nothing is left."""
        if not self.available():
            return False
        self._used += count
        return True

    def give_back(self, count: int) -> None:
        self._returned.append(count)


class _CountedFrame(bytearray):
    """A frame that returns its bytes to the budget when the last reference to it is gone."""

    budget: ReceiveBudget
    counted_bytes: int = 0

    def __del__(self) -> None:
        if self.counted_bytes:
            self.budget.give_back(self.counted_bytes)


class FrameReader:
    """Says where the next bytes go and hands out each frame when it is whole.

    `space()` is never empty: it ends where the length or the frame ends, so a frame is never read past.
    """

    def __init__(
        self,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        budget: ReceiveBudget | None = None,
        first_step_bytes: int = FIRST_STEP_BYTES,
    ) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._budget = budget
        self._header = bytearray(4)
        self._header_read = 0
        self._length = 0
        self._frame: bytearray | None = None
        self._read = 0
        self._proven_bytes = first_step_bytes

    @property
    def progress(self) -> tuple[int, int] | None:
        """(read, expected) bytes of the frame under way, or of its length at first; None between frames."""
        if self._header_read == 4:
            return self._read, self._length
        return (self._header_read, 4) if self._header_read else None

    def space(self) -> memoryview | None:
        """Where the next bytes go, to be released before `advance`; None while the budget has no room for the frame."""
        if self._header_read < 4:
            return memoryview(self._header)[self._header_read :]
        if self._frame is None and not self._begin():
            return None
        assert self._frame is not None
        if self._read == len(self._frame):
            self._grow(self._frame)
        return memoryview(self._frame)[self._read :]

    def advance(self, count: int) -> bytearray | None:
        """`count` bytes have been put into `space()`. The frame without its length, when this completes it.

        Raises ProtocolError for a length that no peer of good will sends.
        """
        if self._header_read < 4:
            self._header_read += count
            if self._header_read == 4:
                self._length = self._checked_length()
            return None
        self._read += count
        return self._finish() if self._read == self._length else None

    def discard(self) -> None:
        """Forget a frame under way: its connection is gone."""
        self._frame = None
        self._header_read = self._read = 0

    def _checked_length(self) -> int:
        (length,) = LENGTH.unpack(self._header)
        if length <= 0:
            raise ProtocolError(f"a frame length of {length} is not possible{_hint(self._header)}")
        if length > self._max_frame_bytes:
            raise ProtocolError(
                f"a frame length of {length} bytes is above the limit of {self._max_frame_bytes}{_hint(self._header)}"
            )
        return int(length)

    def _begin(self) -> bool:
        if self._budget is not None and not self._budget.take(self._length):
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


def _hint(header: Sequence[int]) -> str:
    """What a peer that does not speak Kafka may be, judged by the four bytes that should have been a length."""
    first = bytes(header)
    if first[:2] in (b"\x15\x03", b"\x16\x03"):
        return ": the bytes are those of TLS, so the other side expects a TLS connection"
    if first == b"HTTP":
        return ": the other side speaks HTTP"
    return ""
