"""What all batches of __consumer_offsets amount to: the latest record of each key, still in bytes. Pure.

A group commits the same few offsets over and over, so only what is left in the end is worth decoding.

Records of a transaction (KIP-98) wait under their producer until its marker tells what becomes of them; a marker ends
what the producer wrote in its own log, nothing else. This broker runs no transactions yet, but a real Kafka's
directory may hold some.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kcli.errors import CorruptRecords
from kcli.protocol.records import batch as layout
from kcli.protocol.records.checksum import crc32c
from kcli.protocol.records.pairs import read_pairs

_COMMIT = 1  # the type in the key of a transaction's marker; 0 is an abort

# The number of a log and the id of who wrote there.
Producer: TypeAlias = tuple[int, int]


class Latest(NamedTuple):
    """`place` is the offset of the key's last record that had a value; `value` None: a tombstone came behind it."""

    place: int
    value: bytes | None


class Replay:
    """`latest` by key; `deleted_at` has the places of the last tombstones; `open` what transactions hold; `touched`
    the places of all that any transaction wrote."""

    def __init__(self) -> None:
        self.latest: dict[bytes, Latest] = {}
        self.deleted_at: dict[bytes, int] = {}
        self.open: dict[Producer, dict[bytes, Latest]] = {}
        self.touched: dict[bytes, int] = {}

    def __repr__(self) -> str:
        return f"<Replay {len(self.latest)} keys, {len(self.open)} open transactions>"

    def take(self, log_number: int, data: memoryview) -> None:
        """The next whole batch of a log. CorruptRecords, and nothing changed, when it is damaged."""
        header = layout.HEADER.unpack_from(data)
        base_offset, magic, crc, attributes, producer = header[0], header[3], header[4], header[5], header[9]
        if magic == 2 and crc32c(data[layout.CRC_FROM :]) != crc & 0xFFFFFFFF:
            raise CorruptRecords("its checksum is wrong")
        pairs = read_pairs(data)
        if attributes & layout.CONTROL_BIT:
            for committed in [_is_commit(key) for _, key, _ in pairs]:
                self._end((log_number, producer), committed)
            return
        table = self.latest
        if attributes & layout.TRANSACTIONAL_BIT:
            table = self.open.setdefault((log_number, producer), {})
        for delta, key, value in pairs:
            if key is None:
                continue
            if value is None:
                self._delete(key, base_offset + delta)
                continue
            table[key] = Latest(base_offset + delta, value)
            if table is not self.latest:
                self.touched[key] = base_offset + delta

    def _delete(self, key: bytes, place: int) -> None:
        self.deleted_at[key] = place
        known = self.latest.get(key)
        if known is not None:
            self.latest[key] = Latest(known.place, None)
        for waiting in self.open.values():
            waiting.pop(key, None)

    def _end(self, producer: Producer, committed: bool) -> None:
        """What a transaction committed counts, unless a later record already said otherwise."""
        for key, record in self.open.pop(producer, {}).items():
            known = self.latest.get(key)
            if committed and (known is None or known.place < record.place):
                self.latest[key] = record


def _is_commit(key: bytes | None) -> bool:
    if key is None or len(key) < 4:
        raise CorruptRecords("a transaction's marker has no type")
    return int.from_bytes(key[2:4], "big") == _COMMIT
