"""The records between the thread and the tasks of an `AsyncConsumer`, without a network."""

from __future__ import annotations

import numpy as np

from kcli.aio.received import Received
from kcli.consumer.subscription import SubscriptionState
from kcli.protocol.records.columns import RecordColumns
from kcli.structs import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def columns_of(first: int, count: int) -> RecordColumns:
    """Records without keys and values from this offset on."""
    numbers = np.arange(first, first + count)
    nothing = np.full(count, -1)
    zero = np.zeros(count, np.int64)
    return RecordColumns(
        b"",
        offsets=numbers,
        timestamps_ms=zero,
        key_starts=zero,
        key_lengths=nothing,
        value_starts=zero,
        value_lengths=nothing,
        header_starts=zero,
        header_counts=zero,
        header_ends=zero,
        timestamp_types=np.zeros(count, np.int8),
    )


class World:
    """Two partitions with 4 records each, as after a poll that returned them."""

    def __init__(self) -> None:
        self.subscription = SubscriptionState()
        self.subscription.assign([T0, T1])
        self.received = Received(None)
        for tp in (T0, T1):
            self.subscription.seek(tp, 14)
        self.received.put({T0: columns_of(10, 4), T1: columns_of(10, 4)})
        self.received.ask()

    def next(self) -> tuple[int, int] | None:
        """Return partition and offset of the next record."""
        for record in self.received.records:
            return record.partition, record.offset
        return None

    def positions(self) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Return what a call of the consumer sees: unread records, and those in hand."""
        progress = self.received.begin_call(self.subscription)
        seen = dict(self.subscription.unread), dict(self.subscription.in_hand)
        self.received.end_call(self.subscription, progress)
        return seen


def test_a_record_is_unread_then_in_hand_then_handled() -> None:
    world = World()
    assert world.positions() == ({T0: 10, T1: 10}, {})
    assert world.next() == (0, 10)
    assert world.positions() == ({T0: 11, T1: 10}, {T0: 10})
    assert [world.next() for _ in range(3)] == [(0, 11), (0, 12), (0, 13)]
    assert world.positions() == ({T1: 10}, {T0: 13})
    assert world.next() == (1, 10)
    assert world.positions() == ({T1: 11}, {T1: 10})
    world.received.ask()
    assert world.positions() == ({T1: 11}, {})


def test_a_poll_takes_the_rest_which_is_in_hand_until_the_next_one() -> None:
    world = World()
    world.next()
    taken = world.received.take()
    assert {tp: columns.offsets.tolist() for tp, columns in taken.items()} == {T0: [11, 12, 13], T1: [10, 11, 12, 13]}
    assert world.positions() == ({}, {T0: 11, T1: 10})
    assert world.next() is None
    assert world.received.take() == {}
    assert world.positions() == ({}, {})


def test_a_seek_drops_the_rows_of_its_partition_only() -> None:
    world = World()
    world.next()
    progress = world.received.begin_call(world.subscription)
    world.subscription.seek(T0, 3)
    world.received.end_call(world.subscription, progress)
    assert world.next() == (1, 10)
    assert world.positions() == ({T1: 11}, {T1: 10})


def test_a_commit_handles_the_rows_that_were_in_hand_when_it_began() -> None:
    world = World()
    world.next()
    progress = world.received.begin_call(world.subscription)
    world.subscription.handled(None)
    assert world.next() == (0, 11)  # meanwhile
    world.received.end_call(world.subscription, progress)
    assert world.positions() == ({T0: 12, T1: 10}, {T0: 11})


def test_no_record_is_returned_while_a_call_moves_positions() -> None:
    """A pause sets the position to the first unread record, so that a record returned meanwhile would be read twice."""
    world = World()
    world.next()
    with world.received.held():
        progress = world.received.begin_call(world.subscription)
        assert world.next() is None
        assert not world.received.is_ready
        assert world.received.take() == {}
        world.subscription.pause(T0)
        world.received.end_call(world.subscription, progress)
    assert world.received.is_ready
    world.received.ask()
    assert [world.next() for _ in range(5)] == [(1, 10), (1, 11), (1, 12), (1, 13), None]
    position = world.subscription.state(T0).position
    assert position is not None
    assert position.offset == 11
