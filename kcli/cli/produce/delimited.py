"""Pieces of text or bytes as records: the value, or key and value with a delimiter between them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcli.protocol.records.record import NewRecord


class Shape(NamedTuple):
    """How a piece becomes a record.

    `key` is for all, `key_delimiter` takes it from the piece, up to its first place; a piece without it has no key.
    `empty_is_null`: an empty key or value is sent as null.
    """

    key: bytes | None = None
    key_delimiter: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    empty_is_null: bool = False


def records_of(pieces: Sequence[bytes], shape: Shape, timestamp_ms: int) -> list[NewRecord]:
    """One record for each piece."""
    from kcli.protocol.records.record import NewRecord

    if shape.key_delimiter is None and not shape.empty_is_null:
        return [NewRecord(shape.key, piece, timestamp_ms, shape.headers) for piece in pieces]
    records = []
    for piece in pieces:
        key, value = _key_and_value(piece, shape)
        if shape.empty_is_null:
            key, value = key or None, value or None
        records.append(NewRecord(key, value, timestamp_ms, shape.headers))
    return records


def _key_and_value(piece: bytes, shape: Shape) -> tuple[bytes | None, bytes | None]:
    if shape.key_delimiter is None:
        return shape.key, piece
    key, found, value = piece.partition(shape.key_delimiter)
    return (key, value) if found else (None, piece)
