"""Records by value: one that was read (`Record`) and one to be written (`NewRecord`). No numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

#: Names with values, in the order of the record. A name may occur twice; a value of None is null.
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

#: Types of the control records that end a transaction (KIP-98).
ABORT_MARKER, COMMIT_MARKER = 0, 1


class Record(NamedTuple):
    """One record. `timestamp_ms` is -1 for a record without a timestamp (message format 0)."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class NewRecord(NamedTuple):
    """A record to be written. Its offset follows from its place in the batch."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()


def control_type(key: bytes | None) -> int | None:
    """Return the type in the key of a control record, an int16 after an int16 version; None if there is none."""
    return int.from_bytes(key[2:4], "big", signed=True) if key is not None and len(key) >= 4 else None
