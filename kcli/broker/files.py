"""The broker's only way to the disk. The other implementation, `memory_files`, fails, tears or fills up on demand."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from typing import Protocol

from kcli.protocol.records.batch import Buffer

TEMPORARY_SUFFIX = ".tmp"


class LogFile(Protocol):
    """An open file that grows at its end. `fileno` is -1 for one that only exists in memory. All may raise OSError."""

    path: str
    size: int

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write all bytes behind the end. After an error the file is cut back to where it was, if that can be done."""

    def read_at(self, position: int, length: int) -> bytes:
        """At most `length` bytes: fewer only at the file's end."""

    def write_at(self, position: int, data: Buffer) -> None:
        """Overwrite bytes that are there; what lies behind the end makes the file larger."""

    def truncate(self, size: int) -> None:
        """Cut the file, or fill it with zeros, to this size."""

    def sync(self) -> None:
        """Return when every byte is on the disk."""

    def fileno(self) -> int: ...

    def close(self) -> None:
        """Give the descriptor back; so does dropping the last reference. Closing twice is no error."""


class Lock(Protocol):
    """A lock that is held; the system frees it, too, when its process dies."""

    def close(self) -> None: ...


class Files(Protocol):
    """A tree of directories and files under absolute paths. All may raise OSError."""

    def open(self, path: str, *, create: bool = False) -> LogFile:
        """Open for reading and appending; FileNotFoundError if it is not there and not to be created."""

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written, ms since the epoch."""

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""

    def make_dir(self, path: str) -> None:
        """Make a directory and what is missing above it; it may be there."""

    def rename(self, path: str, new_path: str) -> None:
        """Give a file or directory another name, in the place of a file that has it."""

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def read_bytes(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes) -> None:
        """Replace a file by `data`: after a crash it has the old or the new contents, never a part."""

    def sync_dir(self, path: str) -> None:
        """Return when the names in a directory are on the disk."""

    def lock(self, path: str) -> Lock | None:
        """Lock a file (made when missing) against other processes; None when somebody else has it."""


class DiskFile:
    """A `LogFile` on a real disk: a descriptor and its size, which nobody else changes."""

    __slots__ = ("_fd", "path", "size")

    def __init__(self, path: str, *, create: bool = False) -> None:
        self._fd = -1
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)
        self.path = path
        self.size = os.fstat(self._fd).st_size

    def __repr__(self) -> str:
        return f"<DiskFile {self.path} {self.size} bytes{'' if self._fd >= 0 else ' closed'}>"

    def append(self, parts: Sequence[Buffer]) -> None:
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        start = self.size
        try:
            self._write(start, data)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, start)
            raise
        self.size = start + len(data)

    def _write(self, position: int, data: Buffer) -> None:
        written = os.pwrite(self._fd, data, position)
        while written < len(data):  # the disk is nearly full, or a limit is near: the next try says so
            more = os.pwrite(self._fd, memoryview(data)[written:], position + written)
            if not more:
                raise OSError(errno.EIO, "nothing more could be written", self.path)
            written += more

    def read_at(self, position: int, length: int) -> bytes:
        data = os.pread(self._fd, length, position)
        if len(data) == length or position + len(data) >= self.size:
            return data
        parts = [data]
        while (left := min(length, self.size - position) - sum(map(len, parts))) > 0:
            more = os.pread(self._fd, left, position + sum(map(len, parts)))
            if not more:
                break
            parts.append(more)
        return b"".join(parts)

    def write_at(self, position: int, data: Buffer) -> None:
        self._write(position, data)
        self.size = max(self.size, position + len(data))

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self.size = size

    def sync(self) -> None:
        os.fsync(self._fd)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class DiskFiles:
    """`Files` on a real disk."""

    def open(self, path: str, *, create: bool = False) -> LogFile:
        return DiskFile(path, create=create)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def make_dir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, path: str, new_path: str) -> None:
        os.replace(path, new_path)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        import shutil  # knows all archive formats, which takes its time to import

        shutil.rmtree(path)

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write_atomically(self, path: str, data: bytes) -> None:
        temporary = path + TEMPORARY_SUFFIX
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        self.sync_dir(os.path.dirname(path))

    def sync_dir(self, path: str) -> None:
        with _descriptor(path, os.O_RDONLY) as fd:
            os.fsync(fd)

    def lock(self, path: str) -> Lock | None:
        return _DiskLock.take(path)


@contextlib.contextmanager
def _descriptor(path: str, flags: int) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


class _DiskLock:
    """Two locks on one file: Java takes the first kind, and only the second keeps out another of the same process."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def take(cls, path: str) -> _DiskLock | None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(fd)
            return None
        return cls(fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
