"""Files that a command leaves behind: whole, or the old one as it was."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from kcli.errors import ConfigError


def check_file(option: str, path: str) -> None:
    """ConfigError if there can be no file: so nobody waits for a job to learn it."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise ConfigError(f"{option}: there is no folder {folder}")
    if os.path.isdir(path):
        raise ConfigError(f"{option}: {path} is a folder; name a file")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise ConfigError(f"{option}: {path} cannot be written")


def write_text(path: str, text: str) -> None:
    """Write it, as UTF-8, in which half of a character is shown escaped. OSError."""

    def write(to: str) -> None:
        with open(to, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.write(text)

    write_whole(path, write)


def write_whole(path: str, write: Callable[[str], object]) -> None:
    """Have `write` write another file, and put that in the place of this one. What is no file, like a pipe, is written
    itself, and so is a file in a folder that takes no others. OSError."""
    if os.path.exists(path) and (_is_device(path) or not os.access(os.path.dirname(path) or ".", os.W_OK)):
        write(path)
        return
    path = os.path.realpath(path)
    beside = f"{path}.part"
    try:
        write(beside)
        with suppress(FileNotFoundError):
            os.chmod(beside, os.stat(path).st_mode & 0o777)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def _is_device(path: str) -> bool:
    return not os.path.isfile(path) or path.startswith("/dev/")
