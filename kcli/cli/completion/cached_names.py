"""Names that are slow to find, in a file each, found by a child process while the caller waits for a short time only.

The folder is $XDG_CACHE_HOME/kcli/completion, by default ~/.cache/kcli/completion. It belongs to the user and is closed
to others; otherwise nothing is read or written. A file has the text of its key, the time at which the names were found,
and one name per line. Its modification time is the time of the last attempt.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple, NoReturn

from kcli.private_files import make_folder
from kcli.whole_files import replacing

#: Seconds from one attempt to find the names to the next one.
FRESH_S = 10.0
#: Seconds for which names are shown that could not be found again.
STALE_S = 3600.0
#: Seconds after which the child process is ended.
LIMIT_S = 3
_REMOVED_AFTER_S = 86_400.0
_MAX_NAMES = 50_000
_MAX_BYTES = 8 << 20


class Cache(NamedTuple):
    """The folder of the cache; None: no names are kept."""

    folder: str | None

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> Cache:
        """Return the cache of the user. The folder is made if it is missing."""
        base = environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(base):
            home = environ.get("HOME", "")
            if not os.path.isabs(home):
                return cls(None)
            base = os.path.join(home, ".cache")
        folder = os.path.join(base, "kcli", "completion")
        try:
            make_folder(folder)
            found = os.lstat(folder)
        except OSError:
            return cls(None)
        is_safe = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
        return cls(folder if is_safe else None)

    def names(self, key: str, find: Callable[[], Iterable[str]], wait_s: float) -> list[str]:
        """Return the names under this key.

        If the last attempt is older than `FRESH_S`, a child process finds the names, with `find`. The caller waits for
        it for `wait_s` seconds at most, and then returns older names, or none.
        """
        now = time.time()
        known = self._read(key)
        if 0 <= now - known.attempted < FRESH_S:
            return known.names
        self._write(key, known.found, known.names)  # others do not try at the same time
        text = _ask_child(lambda: self._find(key, find), wait_s)
        return known.names if text is None else text.split("\n")[:-1]

    def _find(self, key: str, find: Callable[[], Iterable[str]]) -> str:
        names = [name for name in dict.fromkeys(find()) if name.isprintable()][:_MAX_NAMES]
        self._write(key, time.time(), names)
        self._remove_old_files()
        return "".join(f"{name}\n" for name in names)

    def _path(self, key: str) -> str:
        from zlib import crc32

        assert self.folder is not None
        return os.path.join(self.folder, f"{crc32(key.encode(errors='surrogateescape')):08x}")

    def _read(self, key: str) -> _Known:
        if self.folder is None:
            return _UNKNOWN
        try:
            with open(os.open(self._path(key), os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                attempted = os.fstat(file.fileno()).st_mtime
                stored, found, *names = file.read(_MAX_BYTES).decode(errors="surrogateescape").split("\n")
            if stored != key:  # another key of the same checksum
                return _UNKNOWN
            is_usable = 0 <= time.time() - float(found) < STALE_S
            return _Known(attempted, float(found), names[:-1] if is_usable else [])
        except (OSError, ValueError):
            return _UNKNOWN

    def _write(self, key: str, found: float, names: Iterable[str]) -> None:
        if self.folder is None:
            return
        text = "".join(f"{line}\n" for line in (key, found, *names))
        with suppress(OSError), replacing(self._path(key), mode=0o600) as file:
            file.write(text.encode(errors="surrogateescape"))

    def _remove_old_files(self) -> None:
        with suppress(OSError):
            for entry in os.scandir(self.folder):
                if time.time() - entry.stat(follow_symlinks=False).st_mtime > _REMOVED_AFTER_S:
                    os.unlink(entry.path)


class _Known(NamedTuple):
    """The content of a file: times in seconds since the epoch, and the names."""

    attempted: float
    found: float
    names: list[str]


_UNKNOWN = _Known(0.0, 0.0, [])


def _ask_child(find: Callable[[], str], wait_s: float) -> str | None:
    """Return the text that `find` returns in a child process; None if it fails, or takes longer than `wait_s`.

    The child goes on without this process, without a terminal and without its streams, for `LIMIT_S` seconds at most.
    """
    from select import select

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _run_child(find, reading, writing)
    os.close(writing)
    deadline, parts = time.monotonic() + wait_s, list[bytes]()
    with open(reading, "rb", buffering=0) as pipe:
        while select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            part = pipe.read(1 << 16)
            if not part:
                text = b"".join(parts).decode(errors="surrogateescape")
                return text.removesuffix(_END) if text.endswith(_END) else None
            parts.append(part)
    return None


_END = "\0"  # after a complete text


def _run_child(find: Callable[[], str], reading: int, writing: int) -> NoReturn:
    import signal

    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LIMIT_S)
        os.setsid()
        os.close(reading)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        with open(writing, "wb") as pipe:
            pipe.write((find() + _END).encode(errors="surrogateescape"))
    finally:
        os._exit(0)
