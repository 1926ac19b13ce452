"""The partition of a record: by the hash of its key as in Java's producer, else sticky. Pure."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF

# Fewer keys are hashed one by one: the calls of numpy cost as much as 20 keys. Its import costs as much as 50,000: it
# is imported for many keys at a time, or for a producer that has hashed many one by one, which will hash more.
_FEWEST_KEYS_WITH_NUMPY, _FEWEST_KEYS_FOR_IMPORT, _IMPORT_IS_WORTH_KEYS = 32, 2048, 10_000
_hashed_one_by_one = 0
# Longer keys are hashed one by one, because each four bytes of the longest key cost a pass over all keys.
_LONGEST_KEY_WITH_NUMPY = 256


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
    return (murmur2(key) & _POSITIVE) % partition_count


def rows_by_partition(
    keys: Sequence[bytes | None], partition_count: int, null_partition: int
) -> dict[int, Sequence[int]]:
    """Return the ascending indices of the keys of each partition. Null keys belong to `null_partition`."""
    global _hashed_one_by_one
    has_numpy = "numpy" in sys.modules or _hashed_one_by_one >= _IMPORT_IS_WORTH_KEYS
    if len(keys) >= (_FEWEST_KEYS_WITH_NUMPY if has_numpy else _FEWEST_KEYS_FOR_IMPORT):
        return _rows_by_partition_of_many(keys, partition_count, null_partition)
    _hashed_one_by_one += len(keys)
    rows: dict[int, list[int]] = {}
    for row, key in enumerate(keys):
        partition = null_partition if key is None else partition_for_key(key, partition_count)
        rows.setdefault(partition, []).append(row)
    return dict(rows)


def _rows_by_partition_of_many(
    keys: Sequence[bytes | None], partition_count: int, null_partition: int
) -> dict[int, Sequence[int]]:
    import numpy as np

    null_rows = [row for row, key in enumerate(keys) if key is None] if None in keys else []
    hashes = murmur2_of_many([key or b"" for key in keys] if null_rows else keys)  # type: ignore[arg-type]
    partitions = (hashes & np.uint32(_POSITIVE)) % np.uint32(partition_count)
    partitions[null_rows] = null_partition
    # The stable sort of numbers of 16 bits is a radix sort, ten times as fast as that of 32 bits.
    order = np.argsort(partitions.astype(np.min_scalar_type(partition_count)), kind="stable")
    ends = np.flatnonzero(np.diff(partitions[order])) + 1
    return {int(partitions[rows[0]]): rows.tolist() for rows in np.split(order, ends)}


def murmur2_of_many(keys: Sequence[bytes]) -> NDArray[np.uint32]:
    """Return `murmur2` of each key, 20 times as fast as one by one if there are thousands.

    The keys are joined, and `at` is the address of the next bytes of each key. Each pass takes the next four bytes of
    all keys that have as many and mixes them into the array of hashes. The arithmetic of uint32 drops the bits over 32.
    """
    import numpy as np

    m = np.uint32(_M)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    long_rows = np.flatnonzero(lengths > _LONGEST_KEY_WITH_NUMPY).tolist()
    lengths[long_rows] = 0
    short_keys = [key if length else b"" for key, length in zip(keys, lengths, strict=True)] if long_rows else keys
    data = b"".join([*short_keys, b"\0\0\0\0"])  # so that four bytes can be read at the end of the last key
    words = np.ndarray(len(data) - 3, "<u4", data, strides=1)  # the four bytes at each address
    at = lengths.cumsum() - lengths
    hashes: NDArray[np.uint32] = (lengths ^ _SEED).astype(np.uint32)
    word_counts = lengths >> 2
    shortest = word_counts.min(initial=_LONGEST_KEY_WITH_NUMPY)
    for i in range(word_counts.max(initial=0)):
        rows = slice(None) if i < shortest else np.flatnonzero(word_counts > i)
        k = words[at[rows]] * m
        hashes[rows] = hashes[rows] * m ^ (k ^ k >> np.uint32(24)) * m
        at[rows] += 4
    tail_lengths = lengths & 3
    tails = words[at] & np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)[tail_lengths]
    hashes = np.where(tail_lengths > 0, (hashes ^ tails) * m, hashes)
    hashes = (hashes ^ hashes >> np.uint32(13)) * m
    hashes ^= hashes >> np.uint32(15)
    hashes[long_rows] = [murmur2(keys[row]) for row in long_rows]
    return hashes


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
