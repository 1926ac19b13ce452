"""Records of one batch of format v2, one after another. Imports no numpy unless the batch is compressed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kcli.errors import CorruptRecords, ProtocolError
from kcli.protocol.primitives import read_varint, read_varlong
from kcli.protocol.records import batch
from kcli.protocol.records.batch import Buffer

#: What a batch may grow to when it is decompressed; brokers refuse requests of more than 100 MiB.
MOST_BYTES = 128 << 20


class ScannedRecord(NamedTuple):
    """A record; `headers` as they stand, names as text."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def iter_records(data: Buffer) -> Iterator[ScannedRecord]:
    """The records of the batch that `data` begins with; `CorruptRecords` for what is none. The CRC is not looked at."""
    raise NotImplementedError
