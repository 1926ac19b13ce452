"""Iteration order of Java's hash tables. Pure.

The group coordinator keeps members, topics and partitions in hash tables and iterates over them, so the assignment
depends on their order. A table places keys by the low bits of their hash codes, mixed with the high bits; keys that
share a bucket keep their order of insertion. (Eight or more keys in one bucket would become a tree with a different
order; this does not happen with ids of members and topics.)

Source: the contracts of java.lang.String.hashCode and org.apache.kafka.common.Uuid.hashCode; OpenJDK's HashMap.
"""

from collections.abc import Callable, Iterable
from struct import unpack
from typing import TypeVar
from uuid import UUID

from kcli.assignors.model import java_order

T = TypeVar("T")
_MASK_32 = 0xFFFF_FFFF
_LEAST_TABLE = 16
_GOLDEN = 0x9E37_79B9_7F4A_7C15  # 2**64 divided by the golden ratio


def walk(keys: Iterable[T], table: int, hash_code: Callable[[T], int]) -> list[T]:
    """Return the keys in the iteration order of a table of that size, inserted in the given order."""
    return sorted(keys, key=lambda key: _spread_hash(hash_code(key)) & (table - 1))


def grown_table(count: int) -> int:
    """Return the size of a table into which `count` keys were inserted one by one (load factor 3/4)."""
    table = _LEAST_TABLE
    while count * 4 > table * 3:
        table *= 2
    return table


def copied_table(count: int) -> int:
    """Return the size of a HashSet made from a collection of `count` keys. It is larger than necessary."""
    table = _LEAST_TABLE
    while table < count * 4 // 3 + 1:
        table *= 2
    return table


def timeline_walk(keys: Iterable[T], hash_code: Callable[[T], int]) -> list[T]:
    """Return the keys in the iteration order of Kafka's TimelineHashMap, inserted in the given order.

    The table only grows. It uses Fibonacci hashing and a higher load factor than Java's. Source: Kafka's BaseHashTable.
    """
    listed = list(keys)
    bits = 1
    while len(listed) * 3 > 4 << bits:
        bits += 1
    return sorted(listed, key=lambda key: _fibonacci(hash_code(key)) >> 64 - bits)


def hash_of_text(text: str) -> int:
    """Return String.hashCode as an unsigned number."""
    units = java_order(text)
    code = 0
    for unit in unpack(f">{len(units) // 2}H", units):
        code = (code * 31 + unit) & _MASK_32
    return code


def hash_of_id(topic_id: UUID) -> int:
    """Return Uuid.hashCode as an unsigned number."""
    high, low = divmod(topic_id.int, 1 << 64)
    return ((high ^ low) >> 32) ^ ((high ^ low) & _MASK_32)


def hash_of_number(number: int) -> int:
    """Return Integer.hashCode of a partition number."""
    return number


def order_of_id(topic_id: UUID) -> tuple[int, int]:
    """Return a sort key for topic ids in the order of Uuid.compareTo: two signed halves."""
    high, low = divmod(topic_id.int, 1 << 64)
    return _signed(high), _signed(low)


def _signed(half: int) -> int:
    return half - (1 << 64) if half >> 63 else half


def _fibonacci(code: int) -> int:
    signed = code - (1 << 32) if code >> 31 else code
    return signed * _GOLDEN % (1 << 64)


def _spread_hash(code: int) -> int:
    return code ^ (code >> 16)
