"""Partitions by key as in Java's producer; sticky partitions without a key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.producer import partitioner
from kcli.producer.partitioner import (
    StickyPartitioner,
    murmur2,
    murmur2_of_many,
    partition_for_key,
    rows_by_partition,
)

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


def test_hashes_of_many_keys_equal_those_of_java() -> None:
    keys = [bytes.fromhex(key) for key, _, _ in FROM_JAVA]
    assert murmur2_of_many(keys).tolist() == [hashed & 0xFFFFFFFF for _, hashed, _ in FROM_JAVA]


KEYS = st.binary(max_size=20) | st.binary(min_size=250, max_size=260)


@given(keys=st.lists(KEYS, max_size=40))
def test_the_hash_of_a_key_does_not_depend_on_the_others(keys: list[bytes]) -> None:
    assert murmur2_of_many(keys).tolist() == [murmur2(key) for key in keys]


@pytest.mark.parametrize("fewest", [1, 1 << 30])
@given(
    keys=st.lists(st.none() | KEYS, min_size=1, max_size=40),
    count=st.sampled_from([1, 2, 7, 255, 256, 65_535, 65_536, 100_000]),
    data=st.data(),
)
def test_each_partition_gets_its_rows_in_order(
    fewest: int, keys: list[bytes | None], count: int, data: st.DataObject
) -> None:
    null_partition = data.draw(st.integers(0, count - 1))
    expected: dict[int, list[int]] = {}
    for row, key in enumerate(keys):
        expected.setdefault(null_partition if key is None else partition_for_key(key, count), []).append(row)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitioner, "_FEWEST_KEYS_WITH_NUMPY", fewest)
        patch.setattr(partitioner, "_FEWEST_KEYS_FOR_IMPORT", fewest)
        assert rows_by_partition(keys, count, null_partition) == expected


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
