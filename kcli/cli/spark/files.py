"""Atomic writes of output files: complete, or the old file unchanged."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from kcli.errors import ConfigError


def check_file(option: str, path: str) -> None:
    """Raise ConfigError if the file cannot be written, before a job starts."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise ConfigError(f"{option}: folder {folder} does not exist")
    if os.path.isdir(path):
        raise ConfigError(f"{option}: {path} is a folder; use a file")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise ConfigError(f"{option}: {path} is not writable")


def write_text(path: str, text: str) -> None:
    """Write UTF-8 text; lone surrogates are escaped. OSError."""

    def write(to: str) -> None:
        with open(to, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.write(text)

    write_whole(path, write)


def write_whole(path: str, write: Callable[[str], object]) -> None:
    """Call `write` with a temporary path, and rename that to `path`. OSError.

    Devices and pipes are written directly, as are files in a folder without write permission.
    """
    if os.path.exists(path) and (_is_device(path) or not os.access(os.path.dirname(path) or ".", os.W_OK)):
        write(path)
        return
    path = os.path.realpath(path)
    partial = f"{path}.part"
    try:
        write(partial)
        with suppress(FileNotFoundError):
            os.chmod(partial, os.stat(path).st_mode & 0o777)
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise


def _is_device(path: str) -> bool:
    return not os.path.isfile(path) or path.startswith("/dev/")
