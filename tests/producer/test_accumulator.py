"""Batches that are full, due, in flight, requeued or expired."""

from __future__ import annotations

from kcli.producer.accumulator import Accumulator
from kcli.producer.batches import HEADER_BYTES, CallbackReceiver, OnOutcome, Outcome, SizedRecords
from kcli.protocol.records.record import NewRecords
from kcli.structs import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def new_records(*values: str, on_outcome: OnOutcome = lambda _: None) -> SizedRecords:
    return SizedRecords(NewRecords([value.encode() for value in values], 0), CallbackReceiver(on_outcome))


def values(accumulator: Accumulator, tp: TopicPartition) -> list[str]:
    batch = accumulator.take(tp)
    accumulator.complete(batch)
    return [value.decode() for value in batch.records.values if value is not None]


def accumulator(records: int = 2, linger_ms: float = 5) -> Accumulator:
    """An accumulator whose batches take this number of records with a value of one byte."""
    size = HEADER_BYTES + records * new_records("x").size_bytes(0, 1)
    return Accumulator(batch_bytes=size, linger_ms=linger_ms, delivery_timeout_ms=1000)


def test_a_full_batch_is_sendable_at_once() -> None:
    queue = accumulator()
    queue.append(A, new_records("1"), 0)
    assert queue.sendable(0) == []
    queue.append(A, new_records("2", "3"), 0)
    assert queue.sendable(0) == [A]
    assert values(queue, A) == ["1", "2"]
    assert queue.sendable(0) == []


def test_a_batch_is_sendable_after_linger_ms() -> None:
    queue = accumulator(linger_ms=5)
    queue.append(A, new_records("1"), 10)
    assert queue.next_due_ms() == 15
    assert queue.sendable(14.9) == []
    assert queue.sendable(15) == [A]


def test_a_flush_does_not_wait_for_linger_ms() -> None:
    queue = accumulator()
    queue.append(A, new_records("1"), 0)
    queue.close_batches()
    assert queue.sendable(0) == [A]


def test_a_flush_waits_for_the_records_before_it_and_for_their_parts_after_a_split() -> None:
    queue = accumulator(records=4)
    queue.append(A, new_records("1", "2"), 0)
    generation = queue.close_batches()
    queue.append(A, new_records("3"), 0)
    queue.requeue_split(queue.take(A))
    assert [values(queue, A)] == [["1"]]
    assert queue.has_batches(generation)
    assert [values(queue, A)] == [["2"]]
    assert not queue.has_batches(generation)
    assert queue.record_count == 1


def test_a_batch_that_waits_grows_beyond_the_size_that_makes_it_due() -> None:
    size = HEADER_BYTES + 2 * new_records("1").size_bytes(0, 1)
    queue = Accumulator(batch_bytes=size, limit_bytes=2 * size, linger_ms=5, delivery_timeout_ms=5000)
    queue.append(A, new_records("1", "2"), 0)
    assert queue.sendable(0) == [A]
    assert queue.is_full(A)
    queue.append(A, new_records("3"), 0)
    assert values(queue, A) == ["1", "2", "3"]


def test_batch_size_zero_sends_each_record_by_itself() -> None:
    queue = Accumulator(batch_bytes=0, linger_ms=1000, delivery_timeout_ms=2000)
    queue.append(A, new_records("1", "2"), 0)
    assert values(queue, A) == ["1"]
    assert values(queue, A) == ["2"]
    assert queue.is_empty


def test_a_record_larger_than_batch_size_is_a_batch_of_its_own() -> None:
    queue = accumulator(records=2)
    queue.append(A, new_records("1", "x" * 500, "2"), 0)
    assert [values(queue, A) for _ in range(3)] == [["1"], ["x" * 500], ["2"]]


def test_one_batch_per_partition_is_in_flight() -> None:
    queue = accumulator(records=1)
    queue.append(A, new_records("1", "2"), 0)
    queue.append(B, new_records("3"), 0)
    first = queue.take(A)
    assert queue.sendable(0) == [B]
    queue.complete(first)
    assert queue.sendable(0) == [A, B]


def test_a_full_batch_after_one_in_flight_is_encoded_in_the_meantime() -> None:
    queue = accumulator(records=1)
    queue.append(A, new_records("1", "2", "3"), 0)
    queue.append(B, new_records("4"), 0)
    assert queue.next_full() == []
    first = queue.take(A)
    second = queue.first(A)
    assert queue.next_full() == [second]
    second.encode("none")
    assert queue.next_full() == []
    queue.complete(first)
    assert queue.take(A) is second


def test_a_batch_that_takes_more_records_is_not_encoded_in_advance() -> None:
    queue = accumulator(records=2)
    queue.append(A, new_records("1", "2", "3"), 0)
    queue.take(A)
    assert queue.next_full() == []


def test_a_requeued_batch_is_first_after_its_backoff() -> None:
    queue = accumulator(records=1)
    queue.append(A, new_records("1", "2"), 0)
    queue.close_batches()
    batch = queue.take(A)
    batch.retry_at_ms = 100
    queue.requeue(batch)
    assert queue.sendable(99) == []
    assert queue.next_due_ms() == 100
    assert queue.sendable(100) == [A]
    assert values(queue, A) == ["1"]


def test_a_batch_takes_no_records_after_its_first_attempt() -> None:
    queue = accumulator(records=10)
    queue.append(A, new_records("1"), 0)
    queue.requeue(queue.take(A))
    queue.append(A, new_records("2"), 0)
    assert values(queue, A) == ["1"]
    assert values(queue, A) == ["2"]


def test_expired_batches_are_removed_and_not_counted() -> None:
    queue = accumulator(records=1)
    queue.append(A, new_records("1"), 0)
    queue.append(A, new_records("2"), 500)
    assert [list(batch.records.values) for batch in queue.take_expired(1000)] == [[b"1"]]
    assert queue.next_due_ms() <= 500
    assert [list(batch.records.values) for batch in queue.take_expired(1500)] == [[b"2"]]
    assert queue.is_empty
    assert queue.buffered_bytes == 0


def test_a_batch_in_flight_does_not_expire() -> None:
    queue = accumulator(records=1)
    queue.append(A, new_records("1"), 0)
    batch = queue.take(A)
    assert queue.take_expired(5000) == []
    assert not queue.is_empty
    queue.requeue(batch)
    assert queue.take_expired(5000) == [batch]


def test_buffered_bytes_return_to_zero() -> None:
    queue = accumulator()
    queue.append(A, new_records("1", "2", "3"), 0)
    assert queue.buffered_bytes == 2 * HEADER_BYTES + 3 * new_records("1").size_bytes(0, 1)
    queue.requeue_split(queue.take(A))
    queue.close_batches()
    while queue.sendable(0):
        values(queue, A)
    assert queue.buffered_bytes == 0
    assert queue.is_empty


def test_a_batch_too_large_for_the_broker_is_split_and_later_batches_are_smaller() -> None:
    queue = accumulator(records=4)
    outcomes: list[Outcome] = []
    queue.append(A, new_records("1", "2", "3", "4", on_outcome=outcomes.append), 0)
    queue.requeue_split(queue.take(A))
    queue.append(A, new_records("5", "6", "7"), 0)
    queue.append(B, new_records("1", "2", "3"), 0)
    assert [values(queue, A) for _ in range(2)] == [["1", "2"], ["3", "4"]]
    assert len(values(queue, A)) < 3
    assert values(queue, B) == ["1", "2", "3"]


def test_append_of_one_batch_stops_when_the_batch_is_full() -> None:
    queue = accumulator(records=2)
    several = new_records("1", "2", "3", "4", "5")
    assert queue.append(A, several, 0, one_batch=True) == 2
    assert queue.is_full(A)
    assert queue.append(B, several, 0, start=2, one_batch=True) == 4
    assert queue.append(B, several, 0, start=4, one_batch=True) == 5
    assert not queue.is_full(B)
