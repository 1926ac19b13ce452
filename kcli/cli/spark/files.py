"""Atomic writes of output files: complete, or the old file unchanged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from kcli.errors import ConfigError
from kcli.whole_files import replacing


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
    with output_file(path) as file:
        file.write(text.encode(errors="backslashreplace"))


@contextmanager
def output_file(path: str) -> Iterator[BinaryIO]:
    """A file to write, which replaces `path` after the block. OSError.

    Devices and pipes are written directly, as are files in a folder without write permission.
    """
    if os.path.exists(path) and (_is_device(path) or not os.access(os.path.dirname(path) or ".", os.W_OK)):
        with open(path, "wb") as file:
            yield file
        return
    path = os.path.realpath(path)
    with replacing(path) as file:
        with suppress(FileNotFoundError):
            os.fchmod(file.fileno(), os.stat(path).st_mode & 0o777)
        yield file


def _is_device(path: str) -> bool:
    return not os.path.isfile(path) or path.startswith("/dev/")
