"""Offsets of transactions, as a real Kafka's directory may hold them: they wait for the marker (KIP-98)."""

from __future__ import annotations

import pytest

from kcli.broker.group.expiry import CommittedOffset
from kcli.broker.group.group_log import EndOfTransaction, LoggedRecord, items_of
from kcli.broker.group.offset_cache import OffsetCache
from kcli.errors import CorruptRecords
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.rows import NewRecord
from tests.broker.group.offsets_lab import orders

LOG = 7
FIRST, SECOND = (LOG, 4000), (LOG, 4001)
FIVE, NINE = CommittedOffset(5), CommittedOffset(9)


@pytest.fixture
def cache() -> OffsetCache:
    return OffsetCache()


def test_an_offset_in_a_transaction_counts_when_that_is_committed(cache: OffsetCache) -> None:
    cache.replay(0, FIRST, "g", orders(0), FIVE)
    assert (dict(cache.of_group("g")), list(cache.groups())) == ({}, ["g"])
    assert cache.is_unstable("g", orders(0))
    assert not cache.is_unstable("g", orders(1))
    assert cache.has_open_transaction("g")
    assert not cache.has_open_transaction("another")

    cache.end_transaction(FIRST, committed=True)

    assert cache.of_group("g") == {orders(0): FIVE}
    assert not cache.is_unstable("g", orders(0))
    assert not cache.has_open_transaction("g")


def test_an_aborted_one_never_does(cache: OffsetCache) -> None:
    cache.replay(0, None, "g", orders(0), FIVE)
    cache.replay(1, FIRST, "g", orders(0), NINE)

    cache.end_transaction(FIRST, committed=False)

    assert cache.of_group("g") == {orders(0): FIVE}


def test_of_several_producers_each_ends_its_own(cache: OffsetCache) -> None:
    cache.replay(0, FIRST, "g", orders(0), FIVE)
    cache.replay(1, SECOND, "g", orders(1), NINE)

    cache.end_transaction(SECOND, committed=True)

    assert cache.of_group("g") == {orders(1): NINE}
    assert cache.is_unstable("g", orders(0))


def test_a_marker_in_another_log_ends_nothing_here(cache: OffsetCache) -> None:
    cache.replay(0, FIRST, "g", orders(0), FIVE)

    cache.end_transaction((LOG + 1, 4000), committed=True)

    assert dict(cache.of_group("g")) == {}
    assert cache.is_unstable("g", orders(0))


def test_what_was_committed_later_in_the_log_is_not_overwritten_by_a_marker(cache: OffsetCache) -> None:
    cache.replay(0, FIRST, "g", orders(0), FIVE)
    cache.replay(1, None, "g", orders(0), NINE)

    cache.end_transaction(FIRST, committed=True)

    assert cache.of_group("g") == {orders(0): NINE}


def test_of_two_transactions_the_later_record_counts_whatever_marker_comes_first(cache: OffsetCache) -> None:
    cache.replay(0, FIRST, "g", orders(0), FIVE)
    cache.replay(1, SECOND, "g", orders(0), NINE)

    cache.end_transaction(SECOND, committed=True)
    cache.end_transaction(FIRST, committed=True)

    assert cache.of_group("g") == {orders(0): NINE}


def test_a_tombstone_takes_waiting_offsets_too(cache: OffsetCache) -> None:
    cache.replay(0, FIRST, "g", orders(0), FIVE)
    assert cache.partitions_to_forget("g") == [orders(0)]

    cache.replay(1, None, "g", orders(0), None)
    cache.end_transaction(FIRST, committed=True)

    assert dict(cache.of_group("g")) == {}
    assert list(cache.groups()) == []


def test_a_marker_of_nobody_changes_nothing(cache: OffsetCache) -> None:
    cache.replay(0, None, "g", orders(0), FIVE)
    cache.end_transaction(FIRST, committed=True)
    assert cache.of_group("g") == {orders(0): FIVE}


@pytest.mark.parametrize(("kind", "committed"), [(0, False), (1, True)])
def test_markers_are_read_from_control_batches(kind: int, committed: bool) -> None:
    row = NewRecord(bytes((0, 0, 0, kind)), b"\0\0\0\0\0\0", 5)
    data = build_batch([row], producer_id=4000, producer_epoch=0, transactional=True, control=True)

    assert items_of(memoryview(data), LOG) == [EndOfTransaction(FIRST, committed)]


def test_a_marker_without_a_type_is_damage() -> None:
    data = build_batch([NewRecord(b"\0", b"", 5)], producer_id=4000, transactional=True, control=True)
    with pytest.raises(CorruptRecords, match="marker"):
        items_of(memoryview(data), LOG)


def test_an_idempotent_batch_outside_of_transactions_counts_at_once() -> None:
    data = build_batch([NewRecord(b"\0\1", b"", 5)], producer_id=4000, producer_epoch=0, base_sequence=0)
    (record,) = items_of(memoryview(data), LOG)
    assert isinstance(record, LoggedRecord)
    assert record.producer is None
