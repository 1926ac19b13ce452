"""Files that are replaced as a whole: a reader sees the old content or the new one. Ground: imports nothing of kcli.

The new content is written beside the file, to a name that others can guess. So it is always a new file: one that is
there already, such as a symbolic link that somebody else made in a shared folder, is removed and never opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO


@contextmanager
def replacing(
    path: str | os.PathLike[str],
    *,
    mode: int = 0o666,
    partial: str | os.PathLike[str] | None = None,
    durable: bool = False,
) -> Iterator[BinaryIO]:
    """A new file that is renamed to `path` after the block; if that raises, `path` is unchanged. OSError.

    `partial` is the temporary path, by default beside `path` with the process id. The umask limits `mode`. `durable`
    flushes the content to the disk before the rename; the caller flushes the folder with `sync_folder`.
    """
    partial = partial or f"{os.fspath(path)}.{os.getpid()}.part"
    with suppress(FileNotFoundError):
        os.unlink(partial)
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(descriptor)
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Flush a folder, which makes the names of its new and replaced files durable. OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
