"""The partition of a record: by the hash of its key as in Java's producer, else sticky. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """MurmurHash2 of `data`, 32 bits, unsigned, with Kafka's seed.

    Java's `Utils.murmur2` returns the same bits as a signed int.
    """
    length = len(data)
    aligned_length = length & ~3
    h = _SEED ^ length
    for k in struct.unpack_from(f"<{length >> 2}I", data):
        k = k * _M & _MASK
        h = (h * _M & _MASK) ^ ((k ^ k >> 24) * _M & _MASK)
    if aligned_length != length:
        h = (h ^ int.from_bytes(data[aligned_length:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of `key`, as Java's producer chooses it."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """The partition of records without a key: the same one until its batch is full, then the next (KIP-480).

    `choose` selects the first one; from there the order is round robin, so that all partitions get the same number of
    batches. Java chooses at random each time (KIP-794), which is even only in the long run.
    """

    def __init__(self, choose: Callable[[int], int]) -> None:
        """`choose(n)` returns a number from 0 to n - 1."""
        self._choose = choose
        self._positions: dict[str, int] = {}

    def current(self, topic: str, available: Sequence[int]) -> int:
        """Return the current partition of `topic`, out of the `available` ones (those with a leader)."""
        if topic not in self._positions:
            self._positions[topic] = self._choose(len(available))
        return available[self._positions[topic] % len(available)]

    def batch_is_full(self, topic: str) -> None:
        """Move on to the next partition."""
        self._positions[topic] = self._positions.get(topic, 0) + 1
