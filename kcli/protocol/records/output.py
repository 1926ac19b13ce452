"""`Output`: the one bounded buffer that decompressed payloads are gathered in."""

from __future__ import annotations

import numpy as np

from kcli.protocol.records.batch import Buffer


class OutOfBudget(Exception):
    """The output would not fit into what is left of the bound."""


class Output:
    """Where decompressed data is gathered: one growing buffer of at most `limit` bytes.

    `data` is valid up to `used`. It moves when it grows or is trimmed: views of it do not outlive that.
    """

    def __init__(self, limit: int, expected: int = 0) -> None:
        self.limit = limit
        self.used = 0
        self.data = np.empty(min(limit, max(expected, 4096)), np.uint8)
        self._view = memoryview(self.data)  # type: ignore[arg-type]

    def room(self, wanted: int) -> memoryview:
        """The unused part of the buffer, of at least `wanted` bytes; `OutOfBudget` if it cannot be."""
        needed = self.used + wanted
        if needed > self.limit:
            raise OutOfBudget
        if needed > len(self.data):
            self._resize(min(self.limit, max(needed, 2 * len(self.data))))
        return self._view[self.used :]

    def trim(self) -> None:
        """Give back what is not used: a batch that failed may have filled all of it."""
        self._resize(self.used)

    def _resize(self, size: int) -> None:
        self._view.release()
        self.data.resize(size, refcheck=False)
        self._view = memoryview(self.data)  # type: ignore[arg-type]

    def write(self, piece: Buffer) -> None:
        """Append a copy."""
        before, behind = self.used, self.used + len(piece)
        if behind > len(self.data):
            self.room(len(piece))
        self._view[before:behind] = piece
        self.used = behind
