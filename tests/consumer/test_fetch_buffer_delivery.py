"""Handing out: how many responses may wait, and what a halt means."""

from __future__ import annotations

from kcli.consumer.fetch_buffer import Delivery, Failure, Received, Section
from kcli.consumer.subscription import FetchPosition, SubscriptionState
from kcli.errors import KcliError
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.structs import TopicPartition

T0 = TopicPartition("t", 0)


def reading(offset: int = 0) -> tuple[SubscriptionState, Delivery]:
    subscription = SubscriptionState()
    subscription.assign([T0])
    subscription.seek(T0, offset)
    return subscription, Delivery(subscription, check_crcs=True)


def batches(base: int, count: int, size: int = 1) -> memoryview:
    codec = "zstd" if size > 1 else "none"
    return memoryview(
        b"".join(
            build_batch([NewRecord(None, b"x" * size, 0)], base_offset=base + i, compression=codec)
            for i in range(count)
        )
    )


def test_a_broker_may_be_asked_again_when_its_response_is_begun_but_only_once() -> None:
    subscription, delivery = reading()
    delivery.add(Received(1, [Section(T0, batches(0, 100, 1 << 20), 0)], []))
    assert delivery.has_from(1)
    delivery.begin_next()
    assert not delivery.has_from(1)
    delivery.take()
    assert len(delivery) == 1, "it is a response of several pieces"
    subscription.fetched(T0, 0, FetchPosition(100))
    delivery.add(Received(1, [Section(T0, batches(100, 1), 100)], []))
    delivery.begin_next()
    assert delivery.has_from(1), "the next response waits, though pieces of the one before are still to come"
    while delivery:
        delivery.begin_next()
        delivery.take()
    position = subscription.state(T0).position
    assert position is not None
    assert position.offset == 101


def test_a_failure_is_told_behind_the_records_before_it_and_halts_until_then() -> None:
    subscription, delivery = reading()
    subscription.fetched(T0, 0, FetchPosition(3))
    delivery.add(Received(1, [Section(T0, batches(0, 3), 0)], []))
    delivery.add(Received(1, [], [Failure(T0, 3, KcliError("no more"))]))
    assert delivery.is_halted(T0, 3)
    assert [len(columns) for _, columns in delivery.take()] == [3]
    assert delivery.take_failures() == []
    delivery.take()
    assert [str(failure.error) for failure in delivery.take_failures()] == ["no more"]
    assert not delivery.is_halted(T0, 3)


def test_a_failure_of_a_position_that_was_left_is_not_told() -> None:
    subscription, delivery = reading()
    delivery.add(Received(1, [], [Failure(T0, 0, KcliError("no more"))]))
    subscription.seek(T0, 9)
    assert not delivery.is_halted(T0, 9)
    delivery.take()
    assert delivery.take_failures() == []


def test_the_first_compressed_batch_is_decoded_alone_and_tells_how_many_follow_at_once() -> None:
    _, delivery = reading()
    delivery.add(Received(1, [Section(T0, batches(0, 20, 1 << 20), 0)], []))
    counts = []
    while delivery:
        counts += [len(columns) for _, columns in delivery.take()]
    assert counts[0] == 1
    assert 6 <= max(counts) <= 10, "pieces are of about 8 MiB"
    assert sum(counts) == 20


def test_a_halt_ends_when_what_was_received_is_dropped() -> None:
    subscription, delivery = reading()
    delivery.add(Received(1, [Section(T0, batches(0, 1)[:30], 0)], []))
    delivery.halt(T0, 0)
    subscription.pause(T0)
    delivery.take()
    subscription.resume(T0)
    assert not delivery.is_halted(T0, 0)
