"""Files named on the command line, read to the byte: notes of commits may hold line breaks of any kind."""

from __future__ import annotations

from typing import BinaryIO

from kcli.errors import ConfigError

LARGEST_BYTES = 1 << 30


def load_text(path: str, stdin: BinaryIO) -> str:
    """The text of a file, or with `-` of standard input. ConfigError if it cannot be read."""
    try:
        if path == "-":
            data = stdin.read(LARGEST_BYTES + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(LARGEST_BYTES + 1)
        if len(data) > LARGEST_BYTES:
            raise ConfigError(f"{file_name(path)} is larger than 1 GiB")
        return data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"cannot read {file_name(path)}: {reason}") from error


def file_name(path: str) -> str:
    """How sentences call it."""
    return "standard input" if path == "-" else path
