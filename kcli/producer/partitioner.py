"""Which partition a record goes to: by the hash of its key, as in Java's producer, or where the last one went. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """MurmurHash2 of `data`, 32 bits, unsigned, with the seed that Kafka uses.

    Java's `Utils.murmur2` returns the same bits as a signed int.
    """
    length = len(data)
    whole = length & ~3
    h = _SEED ^ length
    for k in struct.unpack_from(f"<{length >> 2}I", data):
        k = k * _M & _MASK
        h = (h * _M & _MASK) ^ ((k ^ k >> 24) * _M & _MASK)
    if whole != length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of `key` in a topic of so many, as Java's producer, and every client that copies it, decides."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class StickyPartitioner:
    """Where records without a key go: all to one partition until its batch is full, then to the next (KIP-480).

    The first is picked by `choose`; from there it goes round, so that partitions get equal numbers of batches. Java
    picks at random each time (KIP-794), which is equal only in the long run.
    """

    def __init__(self, choose: Callable[[int], int]) -> None:
        """`choose(n)` returns a number from 0 to n - 1."""
        self._choose = choose
        self._turns: dict[str, int] = {}

    def current(self, topic: str, available: Sequence[int]) -> int:
        """The partition to use now, out of those that have a leader."""
        if topic not in self._turns:
            self._turns[topic] = self._choose(len(available))
        return available[self._turns[topic] % len(available)]

    def batch_is_full(self, topic: str) -> None:
        """From now on the next partition."""
        self._turns[topic] = self._turns.get(topic, 0) + 1
