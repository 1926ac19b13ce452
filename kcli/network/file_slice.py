"""A slice of an open file as a part of a frame: the operating system sends it without a copy in Python."""

from __future__ import annotations

from typing import Protocol


class SliceableFile(Protocol):
    """A file that slices can be taken of. `fileno` is -1 for a file in memory, whose bytes only `read_at` returns."""

    def fileno(self) -> int: ...

    def read_at(self, position: int, length: int) -> bytes: ...


class FileSlice:
    """`length` bytes of `file` from `position` on. It keeps the file open until it is freed.

    `bytes(part)` reads them; `part[n:]` is the rest after `n` bytes are sent.
    """

    __slots__ = ("file", "length", "position")

    def __init__(self, file: SliceableFile, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __repr__(self) -> str:
        return f"<FileSlice {self.position}+{self.length} of {self.file!r}>"

    def __len__(self) -> int:
        return self.length

    def __bytes__(self) -> bytes:
        return self.file.read_at(self.position, self.length)

    def __getitem__(self, key: slice) -> FileSlice:
        start, stop, step = key.indices(self.length)
        if step != 1:
            raise ValueError("a file slice must have a step of 1")
        return FileSlice(self.file, self.position + start, max(stop - start, 0))
