"""Files and directories: the only access of the broker to the disk. Only its owner can read what it creates.

The second implementation, `memory_files`, fails, tears writes or fills up on demand.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from kcli import forks
from kcli.private_files import FILE_MODE, make_folder
from kcli.protocol.records.batch import Buffer
from kcli.whole_files import replacing

TEMPORARY_SUFFIX = ".tmp"

_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

T = TypeVar("T")


def lacks_descriptors(error: OSError) -> bool:
    """Return whether the process or the system has no free file descriptors; nothing was read or written."""
    return error.errno in _NO_DESCRIPTORS


def is_exhausted(error: OSError) -> bool:
    """Return whether descriptors or disk space ran out. The files that exist are intact, and a later try may succeed.

    An error of `LogFile.sync` is never one of these.
    """
    return error.errno in _NO_DESCRIPTORS or error.errno in _NO_SPACE


def reason_with_file(error: OSError, directory: str) -> str:
    """Return the reason of an error, with the name of the file if it is one below `directory`."""
    reason, path = error.strerror or str(error), error.filename
    is_below = isinstance(path, str) and path.startswith(os.path.join(directory, "")) and error.errno != errno.ENOTDIR
    return f"{reason}: {os.path.relpath(path, directory)}" if is_below else reason


def retry_without(release: Callable[[], None], action: Callable[[], T]) -> T:
    """Return `action()`; if there are no free descriptors, `release` some and try once more."""
    try:
        return action()
    except OSError as error:
        if not lacks_descriptors(error):
            raise
    release()
    return action()


class LogFile(Protocol):
    """An open file for appending. `fileno` is -1 for a file in memory. All methods may raise OSError."""

    path: str
    size: int

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write all bytes at the end. After an error the file is truncated to its previous size.

        EIO if that is not possible, too.
        """

    def read_at(self, position: int, length: int) -> bytes:
        """Read `length` bytes, fewer only at the end of the file."""

    def truncate(self, size: int) -> None:
        """Truncate the file to this size, or extend it with zeros."""

    def sync(self) -> None:
        """Flush the file to the disk (fsync). EIO for any error, because written data may be lost."""

    def fileno(self) -> int: ...

    def close(self) -> None:
        """Close the descriptor; dropping the last reference closes it, too. Closing twice is allowed."""


class Lock(Protocol):
    """A held lock. The system releases it when the process dies."""

    def close(self) -> None: ...


class Files(Protocol):
    """A tree of directories and files with absolute paths. All methods may raise OSError.

    When there are no free file descriptors, `release` is called, and the operation is tried once more.
    """

    release: Callable[[], None]

    def open(self, path: str, *, create: bool = False) -> LogFile:
        """Open for reading and appending. FileNotFoundError if the file does not exist, unless `create`."""

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """Return the time of the last write, in ms since the epoch."""

    def list(self, directory: str) -> list[str]:
        """Return the sorted names in a directory."""

    def make_dir(self, path: str) -> None:
        """Create a directory and its missing parents; it may exist already."""

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or directory; an existing file of that name is replaced."""

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory with its contents, or a file."""

    def read_bytes(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes) -> None:
        """Replace the contents of a file; after a crash it has the old or the new contents, never a part.

        After an error, except EIO, it has the old contents.
        """

    def sync_dir(self, path: str) -> None:
        """Flush the names in a directory to the disk."""

    def lock(self, path: str) -> Lock | None:
        """Lock a file against other processes, creating it if needed. None if the lock is held elsewhere."""


class DiskFile:
    """A `LogFile` on a real disk. Its size is cached, because no other process writes to it."""

    __slots__ = ("_fd", "path", "size")

    def __init__(self, path: str, *, create: bool = False) -> None:
        self._fd = -1
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), FILE_MODE)
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
            try:
                os.ftruncate(self._fd, start)
            except OSError as second:
                raise OSError(errno.EIO, os.strerror(errno.EIO), self.path) from second
            raise
        self.size = start + len(data)

    def _write(self, position: int, data: Buffer) -> None:
        written = os.pwrite(self._fd, data, position)
        while written < len(data):  # nearly full disk or file size limit: the next write raises
            more = os.pwrite(self._fd, memoryview(data)[written:], position + written)
            if not more:
                raise OSError(errno.EIO, "no more bytes could be written", self.path)
            written += more

    def read_at(self, position: int, length: int) -> bytes:
        data = os.pread(self._fd, length, position)
        if len(data) == length or position + len(data) >= self.size:
            return data
        parts = [data]
        while (missing := min(length, self.size - position) - sum(map(len, parts))) > 0:
            more = os.pread(self._fd, missing, position + sum(map(len, parts)))
            if not more:
                break
            parts.append(more)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self.size = size

    def sync(self) -> None:
        _sync(self._fd, self.path)

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

    def __init__(self) -> None:
        self.release: Callable[[], None] = lambda: None

    def open(self, path: str, *, create: bool = False) -> LogFile:
        return retry_without(self.release, lambda: DiskFile(path, create=create))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list(self, directory: str) -> list[str]:
        return sorted(retry_without(self.release, lambda: os.listdir(directory)))

    def make_dir(self, path: str) -> None:
        make_folder(path)

    def rename(self, path: str, new_path: str) -> None:
        os.replace(path, new_path)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        if not os.path.isdir(path) or os.path.islink(path):
            os.remove(path)
            return
        import shutil  # slow to import, because of the archive formats

        retry_without(self.release, lambda: shutil.rmtree(path))

    def read_bytes(self, path: str) -> bytes:
        with retry_without(self.release, lambda: open(path, "rb", buffering=0)) as file:
            return file.read()

    def write_atomically(self, path: str, data: bytes) -> None:
        retry_without(self.release, lambda: _write_atomically(path, data))

    def sync_dir(self, path: str) -> None:
        retry_without(self.release, lambda: _sync_dir(path))

    def lock(self, path: str) -> Lock | None:
        return _DiskLock.take(path)


def _write_atomically(path: str, data: bytes) -> None:
    directory = os.path.dirname(path)
    with _descriptor(directory, os.O_RDONLY) as directory_fd:
        with replacing(path, mode=FILE_MODE, partial=path + TEMPORARY_SUFFIX, durable=True) as file:
            file.write(data)
        _sync(directory_fd, directory)


def _sync_dir(path: str) -> None:
    with _descriptor(path, os.O_RDONLY) as fd:
        _sync(fd, path)


def _sync(fd: int, path: str) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        raise OSError(errno.EIO, error.strerror, path) from error


@contextlib.contextmanager
def _descriptor(path: str, flags: int) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


class _DiskLock:
    """Two locks on one file: Java uses `lockf`, but only `flock` excludes a second broker in the same process."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        forks.call_in_child(self.close)  # the child's copy would hold the lock after the parent has closed its own

    @classmethod
    def take(cls, path: str) -> _DiskLock | None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
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
