"""A byte stream cut at a delimiter, however it arrives, in bounded memory. Pure."""

from __future__ import annotations


class Splitter:
    """Feed it chunks, take the pieces between delimiters. The last piece needs no delimiter behind it.

    A piece longer than `longest_bytes` is left out and counted in `too_long`; no more than that is ever kept. An empty
    delimiter makes the whole stream one piece.
    """

    def __init__(self, delimiter: bytes, longest_bytes: int) -> None:
        self.too_long = 0
        self._delimiter = delimiter
        self._longest_bytes = longest_bytes
        self._overlap = max(len(delimiter) - 1, 0)  # bytes at the end that may be the beginning of a delimiter
        self._rest = b""
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The pieces that end in this chunk."""
        if not self._delimiter:
            pieces = [self._rest + chunk]
        else:
            pieces = (self._rest + chunk).split(self._delimiter)
        self._rest = pieces.pop()
        if pieces and self._skipping:
            del pieces[0]
            self._skipping = False
        if self._skipping or len(self._rest) > self._longest_bytes + self._overlap:
            self.too_long += not self._skipping
            self._skipping = True
            self._rest = self._rest[len(self._rest) - self._overlap :]
        return self._without_too_long(pieces)

    def finish(self) -> list[bytes]:
        """The piece behind the last delimiter, if there is one. The splitter is then as new."""
        rest, self._rest = self._rest, b""
        if self._skipping:
            self._skipping = False
            return []
        return self._without_too_long([rest]) if rest else []

    def _without_too_long(self, pieces: list[bytes]) -> list[bytes]:
        if not pieces or max(map(len, pieces)) <= self._longest_bytes:
            return pieces
        kept = [piece for piece in pieces if len(piece) <= self._longest_bytes]
        self.too_long += len(pieces) - len(kept)
        return kept
