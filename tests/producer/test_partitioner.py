"""Partitions by key as in Java's producer; sticky partitions without a key."""

import pytest

from kcli.producer.partitioner import StickyPartitioner, murmur2, partition_for_key

# Key (hex), Utils.murmur2 as a signed int, and its partition of 7, from a program run against kafka-clients 4.3.1.
FROM_JAVA = [
    ("", 275646681, 2),
    ("61", -1563381124, 5),
    ("6162", 316155434, 0),
    ("616263", 479470107, 4),
    ("61626364", -1323649548, 5),
    ("3231", -973932308, 3),
    ("666f6f626172", -790332482, 0),
    ("6f726465722d31", 1221710326, 4),
    ("612d6c6974746c652d6269742d6c6f6e672d737472696e67", -985981536, 1),
    ("6b636c692d6b65792d30313233343536373839", 686071363, 5),
    ("c3a4c3b6c3bc", -2070914556, 5),
    ("ff", -311467685, 5),
    ("fff8", -1496820858, 1),
    ("fff8f1", -1574845885, 5),
    ("fff8f1ea", 218394090, 5),
    ("fff8f1eae3", 1701666786, 1),
    ("fff8f1eae3dc", 1881629146, 5),
    ("fff8f1eae3dcd5", 1345988491, 1),
    ("fff8f1eae3dcd5ce", 976511118, 2),
    ("fff8f1eae3dcd5cec7", -47659333, 1),
    (bytes(range(256)).hex(), -1948347274, 3),
]


@pytest.mark.parametrize(("key", "hashed", "partition"), FROM_JAVA)
def test_hash_and_partition_equal_those_of_java(key: str, hashed: int, partition: int) -> None:
    assert murmur2(bytes.fromhex(key)) == hashed & 0xFFFFFFFF
    assert partition_for_key(bytes.fromhex(key), 7) == partition


def test_records_without_key_stay_until_the_batch_is_full_and_then_move_round_robin() -> None:
    sticky = StickyPartitioner(lambda n: n - 1)
    chosen = []
    for _ in range(4):
        chosen += [sticky.current("t", [0, 2, 5]), sticky.current("t", [0, 2, 5])]
        sticky.batch_is_full("t")
    assert chosen == [5, 5, 0, 0, 2, 2, 5, 5]


def test_a_partition_without_leader_is_not_chosen() -> None:
    sticky = StickyPartitioner(lambda n: n - 1)
    assert sticky.current("t", [0, 1, 2]) == 2
    assert sticky.current("t", [0, 1]) in (0, 1)
