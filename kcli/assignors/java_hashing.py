"""In which order hash tables of a Java program walk through their keys. Pure.

The group coordinator keeps members, topics and partitions in hash tables and takes them as they come, so who gets which
partition hangs on it. A table goes by the low bits of its keys' hash codes, mixed with their high bits; keys that share
a bucket stay in the order of their coming. (Eight or more of them in one bucket would become a tree, whose order is
another; among the ids that members and topics have this does not happen.)

Source: the contracts of java.lang.String.hashCode and org.apache.kafka.common.Uuid.hashCode; OpenJDK's HashMap.
"""

from collections.abc import Callable, Iterable
from struct import unpack
from typing import TypeVar
from uuid import UUID

from kcli.assignors.model import java_order

T = TypeVar("T")
_WORD = 0xFFFF_FFFF
_LEAST_TABLE = 16
_GOLDEN = 0x9E37_79B9_7F4A_7C15  # 2**64 by the golden ratio


def walk(keys: Iterable[T], table: int, hash_code: Callable[[T], int]) -> list[T]:
    """The keys in the order of a table of that size, into which they were put in the order given."""
    return sorted(keys, key=lambda key: _mixed(hash_code(key)) & (table - 1))


def grown_table(count: int) -> int:
    """The size of a table into which so many keys were put one by one: at most three quarters of it are taken."""
    table = _LEAST_TABLE
    while count * 4 > table * 3:
        table *= 2
    return table


def copied_table(count: int) -> int:
    """The size of a HashSet made from a collection that tells so many keys: somewhat larger than it need be."""
    table = _LEAST_TABLE
    while table < count * 4 // 3 + 1:
        table *= 2
    return table


def timeline_walk(keys: Iterable[T], hash_code: Callable[[T], int]) -> list[T]:
    """The keys in the order of Kafka's TimelineHashMap, which grew as they came in the order given and never shrank.

    It spreads them by Fibonacci hashing and is more crowded than Java's. Source: its BaseHashTable.
    """
    listed = list(keys)
    bits = 1
    while len(listed) * 3 > 4 << bits:
        bits += 1
    return sorted(listed, key=lambda key: _fibonacci(hash_code(key)) >> 64 - bits)


def hash_of_text(text: str) -> int:
    """String.hashCode, as an unsigned number."""
    units = java_order(text)
    code = 0
    for unit in unpack(f">{len(units) // 2}H", units):
        code = (code * 31 + unit) & _WORD
    return code


def hash_of_id(topic_id: UUID) -> int:
    """Uuid.hashCode, as an unsigned number."""
    high, low = divmod(topic_id.int, 1 << 64)
    return ((high ^ low) >> 32) ^ ((high ^ low) & _WORD)


def hash_of_number(number: int) -> int:
    """Integer.hashCode of a partition."""
    return number


def order_of_id(topic_id: UUID) -> tuple[int, int]:
    """A sort key that puts topic ids in the order of Uuid.compareTo: two signed halves."""
    high, low = divmod(topic_id.int, 1 << 64)
    return _signed(high), _signed(low)


def _signed(half: int) -> int:
    return half - (1 << 64) if half >> 63 else half


def _fibonacci(code: int) -> int:
    signed = code - (1 << 32) if code >> 31 else code
    return signed * _GOLDEN % (1 << 64)


def _mixed(code: int) -> int:
    return code ^ (code >> 16)
