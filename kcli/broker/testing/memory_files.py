"""`Files` in memory for tests: injected I/O errors, torn writes, a full disk, and power loss."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kcli.protocol.records.batch import Buffer


@dataclass
class Fault:
    """Fail `operation` with errno `code` on paths with this ending, `times` times after `skip` successes.

    A failing append leaves `torn_bytes` bytes in the file, as if the truncation after it failed, too.
    """

    operation: str
    path_ending: str = ""
    code: int = errno.EIO
    skip: int = 0
    times: int = 1
    torn_bytes: int | None = None

    def matches(self, operation: str, path: str) -> bool:
        if operation != self.operation or not path.endswith(self.path_ending) or not self.times:
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.times -= 1
        return True


class _Data:
    """The bytes of a file, and those that survive a power loss (None: not even the file survives)."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.synced: bytes | None = None
        self.modified_ms = 0


class MemoryFile:
    """A `LogFile` in memory; like a descriptor, it remains usable after the file is removed or renamed."""

    def __init__(self, files: MemoryFiles, path: str, data: _Data) -> None:
        self.path = path
        self._files = files
        self._data = data
        self._is_open = True

    def __repr__(self) -> str:
        return f"<MemoryFile {self.path} {self.size} bytes>"

    @property
    def size(self) -> int:
        return len(self._data.bytes)

    def append(self, parts: Sequence[Buffer]) -> None:
        data = b"".join(parts)
        fault = self._files.next_fault("append", self.path)
        if fault is not None:
            self._data.bytes += data[: fault.torn_bytes or 0]
            raise _error(fault.code, self.path)
        self._grow(len(data))
        self._data.bytes += data

    def _grow(self, count: int) -> None:
        capacity = self._files.capacity_bytes
        if capacity is not None and count > capacity - self._files.used_bytes:
            raise _error(errno.ENOSPC, self.path)
        self._data.modified_ms = self._files.now_wall_ms

    def read_at(self, position: int, length: int) -> bytes:
        self._files.check("read", self.path)
        return bytes(memoryview(self._data.bytes)[position : position + length])

    def truncate(self, size: int) -> None:
        self._files.check("truncate", self.path)
        del self._data.bytes[size:]
        self._data.bytes += bytes(size - self.size)

    def sync(self) -> None:
        self._files.check("sync", self.path)
        self._data.synced = bytes(self._data.bytes)

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self._is_open = False


class _MemoryLock:
    def __init__(self, held: set[str], path: str) -> None:
        self._held, self._path = held, path

    def close(self) -> None:
        self._held.discard(self._path)


class MemoryFiles:
    """Directories and files in memory. The first matching one of `faults` applies; `capacity_bytes`: disk size.

    `operations` records all operations as (operation, path). `now_wall_ms` is the modification time of written files.
    """

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.faults: list[Fault] = []
        self.operations: list[tuple[str, str]] = []
        self.capacity_bytes = capacity_bytes
        self.now_wall_ms = 0
        self.release: Callable[[], None] = lambda: None
        self._files: dict[str, _Data] = {}
        self._directories = {"/"}
        self._synced_names: dict[str, _Data] = {}
        self._locked: set[str] = set()

    def __repr__(self) -> str:
        return f"<MemoryFiles {len(self._files)} files, {self.used_bytes} bytes>"

    @property
    def used_bytes(self) -> int:
        return sum(len(data.bytes) for data in self._files.values())

    def next_fault(self, operation: str, path: str) -> Fault | None:
        """Record the operation and return the fault for it, if any."""
        self.operations.append((operation, path))
        return next((fault for fault in self.faults if fault.matches(operation, path)), None)

    def check(self, operation: str, path: str) -> None:
        """Record the operation; OSError if there is a fault for it."""
        fault = self.next_fault(operation, path)
        if fault is not None and fault.code == errno.EMFILE:
            self.release()
            fault = self.next_fault(operation, path)
        if fault is not None:
            raise _error(fault.code, path)

    def after_power_loss(self) -> MemoryFiles:
        """Return the disk after a power loss: synced bytes under synced names. Directories survive."""
        disk = MemoryFiles(capacity_bytes=self.capacity_bytes)
        disk._directories = set(self._directories)
        for path, data in self._synced_names.items():
            synced = disk._files[path] = _Data()
            synced.bytes = bytearray(data.synced or b"")
            synced.synced = bytes(synced.bytes)
        disk._synced_names = dict(disk._files)
        return disk

    def data(self, path: str) -> bytearray:
        """Return the bytes of a file, for a test to inspect or corrupt."""
        return self._find(path).bytes

    # ---- Files ----

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self.check("open", path)
        if path not in self._files:
            if not create:
                raise _error(errno.ENOENT, path)
            self._need_directory(os.path.dirname(path))
            self._files[path] = _Data()
        return MemoryFile(self, path, self._files[path])

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._directories

    def is_dir(self, path: str) -> bool:
        return path in self._directories

    def size(self, path: str) -> int:
        return len(self._find(path).bytes)

    def modified_ms(self, path: str) -> int:
        return self._find(path).modified_ms

    def list(self, directory: str) -> list[str]:
        self.check("list", directory)
        self._need_directory(directory)
        paths = (*self._files, *self._directories - {"/"})
        return sorted(os.path.basename(path) for path in paths if os.path.dirname(path) == directory)

    def make_dir(self, path: str) -> None:
        self.check("make_dir", path)
        while path not in self._directories:
            self._directories.add(path)
            path = os.path.dirname(path)

    def rename(self, path: str, new_path: str) -> None:
        self.check("rename", path)
        if path in self._directories:
            self._rename_directory(path, new_path)
        else:
            self._files[new_path] = self._find(path)
            del self._files[path]

    def _rename_directory(self, path: str, new_path: str) -> None:
        def moved(name: str) -> str:
            return new_path + name[len(path) :] if name == path or name.startswith(path + "/") else name

        self._directories = {moved(name) for name in self._directories}
        self._files = {moved(name): data for name, data in self._files.items()}

    def remove(self, path: str) -> None:
        self.check("remove", path)
        self._find(path)
        del self._files[path]

    def remove_tree(self, path: str) -> None:
        self.check("remove_tree", path)
        if path in self._files:
            del self._files[path]
            return
        self._need_directory(path)
        self._directories = {name for name in self._directories if name != path and not name.startswith(path + "/")}
        self._files = {name: data for name, data in self._files.items() if not name.startswith(path + "/")}

    def read_bytes(self, path: str) -> bytes:
        self.check("read", path)
        return bytes(self._find(path).bytes)

    def write_atomically(self, path: str, data: bytes) -> None:
        self.check("write_atomically", path)
        self._need_directory(os.path.dirname(path))
        new = _Data()
        new.bytes, new.synced = bytearray(data), bytes(data)
        self._files[path] = self._synced_names[path] = new

    def sync_dir(self, path: str) -> None:
        self.check("sync_dir", path)
        kept = {name: data for name, data in self._synced_names.items() if os.path.dirname(name) != path}
        here = {name: data for name, data in self._files.items() if os.path.dirname(name) == path}
        self._synced_names = kept | here

    def lock(self, path: str) -> _MemoryLock | None:
        if path in self._locked:
            return None
        self._locked.add(path)
        return _MemoryLock(self._locked, path)

    def _find(self, path: str) -> _Data:
        if path not in self._files:
            raise _error(errno.ENOENT, path)
        return self._files[path]

    def _need_directory(self, path: str) -> None:
        if path not in self._directories:
            raise _error(errno.ENOENT, path)


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
