"""In which order a Java HashMap walks through its keys. Pure.

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


def _mixed(code: int) -> int:
    return code ^ (code >> 16)
