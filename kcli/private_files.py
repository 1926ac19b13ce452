"""Folders and files that only their owner can read, whatever the umask: data of the broker, caches, credentials."""

from __future__ import annotations

import os

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
        make_folder(name)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file in UTF-8; an existing one becomes private before the text is in it. OSError."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), FILE_MODE)
        file.truncate(0)
        file.write(text)
