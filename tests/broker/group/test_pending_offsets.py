"""Offsets of transactions: pending until the marker, and the same after a restart (KIP-98, KIP-447)."""

from __future__ import annotations

import random

import pytest

from kcli.broker.group.expiry import GroupFacts
from kcli.broker.group.offset_store import NewOffset
from kcli.error_codes import ErrorCode
from kcli.protocol.records import batch as layout
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.record import NewRecord
from kcli.structs import TopicPartition
from tests.broker.group.store_harness import DAY_MS, NOW_MS, StoreHarness, orders

GROUP = "billing"
FIRST, SECOND = 7000, 7001


class TransactionHarness(StoreHarness):
    """The store, with markers in its log."""

    def pend(self, producer_id: int, *offsets: tuple[TopicPartition, int], group: str = GROUP) -> list[ErrorCode]:
        new = [NewOffset(partition, offset) for partition, offset in offsets]
        return self.offsets.commit_pending(group, producer_id, 3, new, self.clock.wall_ms())

    def end(self, producer_id: int, *, commit: bool) -> None:
        """Append a marker to the group's partition, and apply it."""
        tp = self.offsets.partition_for(GROUP)
        row = NewRecord(bytes((0, 0, 0, commit)), b"\0\0\0\0\0\0", NOW_MS)
        marker = build_batch([row], producer_id=producer_id, producer_epoch=3, transactional=True, control=True)
        self.replicas.append_internal(tp, marker, NOW_MS)
        self.offsets.end_transaction(tp.partition, producer_id, is_commit=commit)

    def unstable(self, group: str = GROUP) -> set[int]:
        return {number for number in range(4) if self.offsets.is_unstable(group, orders(number))}


@pytest.fixture
def harness() -> TransactionHarness:
    return TransactionHarness()


def test_offsets_of_a_transaction_are_committed_by_its_marker(harness: TransactionHarness) -> None:
    harness.commit(GROUP, (orders(0), 1))

    assert harness.pend(FIRST, (orders(0), 5), (orders(1), 6)) == [ErrorCode.NONE, ErrorCode.NONE]
    assert (harness.committed(GROUP), harness.unstable()) == ({orders(0): 1}, {0, 1})

    harness.end(FIRST, commit=True)
    assert (harness.committed(GROUP), harness.unstable()) == ({orders(0): 5, orders(1): 6}, set())


def test_offsets_of_an_aborted_transaction_are_dropped(harness: TransactionHarness) -> None:
    harness.commit(GROUP, (orders(0), 1))
    harness.pend(FIRST, (orders(0), 5))

    harness.end(FIRST, commit=False)

    assert (harness.committed(GROUP), harness.unstable()) == ({orders(0): 1}, set())


def test_a_pending_offset_creates_the_group(harness: TransactionHarness) -> None:
    harness.pend(FIRST, (orders(0), 5))

    assert harness.groups.restored == {GROUP: None}


def test_the_batch_has_the_producer_and_is_transactional(harness: TransactionHarness) -> None:
    harness.pend(FIRST, (orders(0), 5))

    log = harness.replicas.logs[harness.offsets.partition_for(GROUP)]
    [(_, data)] = log.batches
    info = layout.read_batch_info(memoryview(data), 0)
    assert (info.producer_id, info.producer_epoch, info.base_sequence, info.is_transactional) == (FIRST, 3, 0, True)


def test_a_later_commit_without_a_transaction_stays(harness: TransactionHarness) -> None:
    harness.pend(FIRST, (orders(0), 5))
    harness.commit(GROUP, (orders(0), 9))
    assert (harness.committed(GROUP), harness.unstable()) == ({orders(0): 9}, {0})

    harness.end(FIRST, commit=True)

    assert harness.committed(GROUP) == {orders(0): 9}


def test_the_later_record_of_two_transactions_stays(harness: TransactionHarness) -> None:
    harness.pend(FIRST, (orders(0), 5))
    harness.pend(SECOND, (orders(0), 6))

    harness.end(SECOND, commit=True)
    assert (harness.committed(GROUP), harness.unstable()) == ({orders(0): 6}, {0})
    harness.end(FIRST, commit=True)

    assert (harness.committed(GROUP), harness.unstable()) == ({orders(0): 6}, set())


def test_a_deleted_offset_is_not_committed_by_the_marker(harness: TransactionHarness) -> None:
    harness.pend(FIRST, (orders(0), 5), (orders(1), 6))

    assert harness.offsets.delete(GROUP, [orders(0)], NOW_MS) is ErrorCode.NONE
    assert harness.unstable() == {1}
    harness.end(FIRST, commit=True)

    assert harness.committed(GROUP) == {orders(1): 6}


def test_a_group_with_a_pending_offset_does_not_expire(harness: TransactionHarness) -> None:
    harness.commit(GROUP, (orders(0), 1), (orders(1), 2))
    harness.pend(FIRST, (orders(0), 5))
    harness.groups.known[GROUP] = GroupFacts("Empty", None, None)

    assert harness.offsets.expire(NOW_MS + 8 * DAY_MS) == []
    assert harness.committed(GROUP) == {orders(0): 1}

    harness.end(FIRST, commit=False)
    assert harness.offsets.expire(NOW_MS + 8 * DAY_MS) == [GROUP]


def test_the_marker_of_another_partition_ends_nothing(harness: TransactionHarness) -> None:
    harness.pend(FIRST, (orders(0), 5))

    number = harness.offsets.partition_for(GROUP).partition
    harness.offsets.end_transaction(number + 1, FIRST, is_commit=True)

    assert (harness.committed(GROUP), harness.unstable()) == ({}, {0})


def test_a_failed_append_leaves_nothing_pending(harness: TransactionHarness) -> None:
    harness.replicas.failure = ErrorCode.NOT_LEADER_OR_FOLLOWER

    assert harness.pend(FIRST, (orders(0), 5)) == [ErrorCode.NOT_COORDINATOR]
    assert harness.unstable() == set()


@pytest.mark.parametrize("seed", range(30))
def test_a_restart_gives_the_same_offsets_as_memory(seed: int) -> None:
    """Commits, pending offsets, markers and deletions in any order; memory and replay must agree at every point."""
    chance, harness = random.Random(seed), TransactionHarness()
    harness.commit(GROUP, (orders(0), 0))
    for step in range(40):
        producer, tp = chance.choice((FIRST, SECOND, 7002)), orders(chance.randrange(4))
        act = chance.choice(("commit", "pend", "pend", "pend", "end", "end", "delete", "restart"))
        if act == "commit":
            harness.commit(GROUP, (tp, step))
        elif act == "pend":
            harness.pend(producer, (tp, step), (orders(chance.randrange(4)), step))
        elif act == "end":
            harness.end(producer, commit=chance.random() < 0.7)
        elif act == "delete":
            harness.offsets.delete(GROUP, [tp], NOW_MS)
        else:
            before = harness.committed(GROUP), harness.unstable()
            harness.start()
            assert (harness.committed(GROUP), harness.unstable()) == before, f"after step {step}"
    for producer in (FIRST, SECOND, 7002):
        harness.end(producer, commit=True)
    before = harness.committed(GROUP)
    harness.start()
    assert (harness.committed(GROUP), harness.unstable()) == (before, set())


def test_unloading_drops_pending_offsets(harness: TransactionHarness) -> None:
    harness.pend(FIRST, (orders(0), 5))
    harness.groups.known.clear()

    harness.offsets.unload(lambda group_id: group_id == GROUP)
    harness.offsets.end_transaction(harness.offsets.partition_for(GROUP).partition, FIRST, is_commit=True)

    assert (harness.committed(GROUP), harness.unstable()) == ({}, set())
