"""Standard output for bulk data."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO


class Sink:
    """Writes whole buffers to the file descriptor of standard output. BrokenPipeError is raised.

    `written` counts the bytes that the system has accepted, also those of a buffer that failed partly.
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
        """Write all of `data`, in several calls if necessary; wait while a non-blocking pipe is full."""
        if self._fd is None:
            self._stream.write(data)
            self.written += len(data)
            return
        remaining = memoryview(data)
        while len(remaining):
            try:
                taken = os.write(self._fd, remaining)
                self.written += taken
                remaining = remaining[taken:]
            except BlockingIOError:
                _wait_until_writable(self._fd)

    def check(self) -> None:
        """Raise BrokenPipeError if the reading process has ended, while there is nothing to write."""
        if self._fd is not None and _is_hung_up(self._fd):
            raise BrokenPipeError


def _is_hung_up(fd: int) -> bool:
    import select

    poll = select.poll()
    poll.register(fd, 0)  # errors and hang-ups are always reported
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _wait_until_writable(fd: int) -> None:
    import select

    select.select([], [fd], [])
