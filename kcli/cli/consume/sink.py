"""Standard output for bulk: whole buffers straight to the file descriptor."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO


class Sink:
    """Writes buffers whole, in order, at once. `BrokenPipeError` passes through when the reader has gone.

    `written` counts the bytes that the system has taken, those of a buffer that failed half-way too.
    """

    def __init__(self, stream: BinaryIO) -> None:
        stream.flush()
        self._stream = stream
        self.written = 0
        try:
            self._fd: int | None = stream.fileno()
        except (io.UnsupportedOperation, AttributeError):
            self._fd = None

    def write(self, data: bytes | memoryview) -> None:
        """Write all of `data`, however many calls that takes; a full non-blocking pipe is waited for."""
        if self._fd is None:
            self._stream.write(data)
            self.written += len(data)
            return
        rest = memoryview(data)
        while len(rest):
            try:
                taken = os.write(self._fd, rest)
                self.written += taken
                rest = rest[taken:]
            except BlockingIOError:
                _wait_until_writable(self._fd)

    def check(self) -> None:
        """BrokenPipeError if the reader has gone, for the time when there is nothing to write that would tell."""
        if self._fd is not None and _is_hung_up(self._fd):
            raise BrokenPipeError


def _is_hung_up(fd: int) -> bool:
    import select

    poll = select.poll()
    poll.register(fd, 0)  # errors and hang-ups are told unasked
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _wait_until_writable(fd: int) -> None:
    import select

    select.select([], [fd], [])
