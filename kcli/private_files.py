"""Folders and files that only their owner can read, whatever the umask: data of the broker, caches, credentials."""

from __future__ import annotations

import os
from contextlib import suppress

from kcli.whole_files import replacing

#: The mode of a new file, as for `os.open`.
FILE_MODE = 0o600
_FOLDER_MODE = 0o700


def make_folder(path: str | os.PathLike[str]) -> None:
    """Create a folder and its missing parents. Existing ones keep their modes. OSError."""
    name = os.fspath(path)
    try:
        os.mkdir(name, _FOLDER_MODE)
    except FileExistsError:
        if not os.path.isdir(name):
            raise
    except FileNotFoundError:
        parent = os.path.dirname(name.rstrip(os.sep))
        if not parent or parent == name:
            raise
        make_folder(parent)
        with suppress(FileExistsError):  # another process has made it meanwhile
            os.mkdir(name, _FOLDER_MODE)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file in UTF-8, which replaces an existing one. OSError."""
    with replacing(path, mode=FILE_MODE) as file:
        file.write(text.encode())
