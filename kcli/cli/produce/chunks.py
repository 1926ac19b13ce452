"""Bytes from files and pipes as they come, and whether more is there already."""

from __future__ import annotations

import select
from collections.abc import Iterable, Iterator
from typing import BinaryIO

CHUNK_BYTES = 128 * 1024


def read_chunks(stream: BinaryIO) -> Iterator[bytes]:
    """What the stream has, up to `CHUNK_BYTES` at a time; waits only when it has nothing."""
    read = getattr(stream, "read1", stream.read)
    while chunk := read(CHUNK_BYTES):
        yield chunk


def has_more_now(stream: BinaryIO) -> bool:
    """Reading would not wait: there is input, or its end. True too for what cannot be asked."""
    try:
        ready, _, _ = select.select([stream.fileno()], [], [], 0)
    except (OSError, ValueError):
        return True
    return bool(ready)


def open_inputs(paths: Iterable[str], stdin: BinaryIO) -> Iterator[BinaryIO]:
    """The named files one after another, each closed before the next; "-" is `stdin`, which stays open."""
    for path in paths:
        if path == "-":
            yield stdin
        else:
            with open(path, "rb") as stream:
                yield stream
