"""When batches are full, due, held, or too late."""

from __future__ import annotations

from kcli.producer.accumulator import Accumulator
from kcli.producer.batches import HEADER_BYTES, Outcome, row_bytes
from kcli.protocol.records.record import NewRecord
from kcli.structs import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def rows(*values: str) -> list[NewRecord]:
    return [NewRecord(None, value.encode(), 0) for value in values]


def values(accumulator: Accumulator, tp: TopicPartition) -> list[str]:
    batch = accumulator.take(tp)
    accumulator.done(batch)
    return [row.value.decode() for row in batch.rows if row.value is not None]


def ignore(_: Outcome) -> None:
    pass


def accumulator(records: int = 2, linger_ms: float = 5) -> Accumulator:
    """Batches that take so many records of one letter."""
    size = HEADER_BYTES + records * row_bytes(rows("x")[0])
    return Accumulator(batch_bytes=size, linger_ms=linger_ms, delivery_timeout_ms=1000)


def test_a_batch_leaves_when_it_is_full() -> None:
    queue = accumulator()
    queue.append(A, rows("1"), 0, ignore)
    assert queue.sendable(0) == []
    queue.append(A, rows("2", "3"), 0, ignore)
    assert queue.sendable(0) == [A]
    assert values(queue, A) == ["1", "2"]
    assert queue.sendable(0) == []


def test_a_batch_leaves_when_it_has_lingered() -> None:
    queue = accumulator(linger_ms=5)
    queue.append(A, rows("1"), 10, ignore)
    assert queue.next_due_ms() == 15
    assert queue.sendable(14.9) == []
    assert queue.sendable(15) == [A]


def test_a_flush_does_not_wait_for_company() -> None:
    queue = accumulator()
    queue.append(A, rows("1"), 0, ignore)
    assert queue.sendable(0, at_once=True) == [A]


def test_batch_size_zero_sends_each_record_by_itself() -> None:
    queue = Accumulator(batch_bytes=0, linger_ms=1000, delivery_timeout_ms=2000)
    queue.append(A, rows("1", "2"), 0, ignore)
    assert values(queue, A) == ["1"]
    assert values(queue, A) == ["2"]
    assert queue.is_empty


def test_a_record_larger_than_a_batch_gets_one_of_its_own() -> None:
    queue = accumulator(records=2)
    queue.append(A, rows("1", "x" * 500, "2"), 0, ignore)
    assert [values(queue, A) for _ in range(3)] == [["1"], ["x" * 500], ["2"]]


def test_one_batch_of_a_partition_is_out_at_a_time() -> None:
    queue = accumulator(records=1)
    queue.append(A, rows("1", "2"), 0, ignore)
    queue.append(B, rows("3"), 0, ignore)
    first = queue.take(A)
    assert queue.sendable(0) == [B]
    queue.done(first)
    assert queue.sendable(0) == [A, B]


def test_a_batch_that_comes_back_goes_first_after_its_wait() -> None:
    queue = accumulator(records=1)
    queue.append(A, rows("1", "2"), 0, ignore)
    batch = queue.take(A)
    batch.retry_at_ms = 100
    queue.put_back(batch)
    assert queue.sendable(99) == []
    assert queue.sendable(99, at_once=True) == []
    assert queue.next_due_ms() == 100
    assert queue.sendable(100) == [A]
    assert values(queue, A) == ["1"]


def test_a_batch_that_was_sent_takes_no_more_records() -> None:
    queue = accumulator(records=10)
    queue.append(A, rows("1"), 0, ignore)
    queue.put_back(queue.take(A))
    queue.append(A, rows("2"), 0, ignore)
    assert values(queue, A) == ["1"]
    assert values(queue, A) == ["2"]


def test_what_waited_too_long_is_taken_out_and_no_longer_counted() -> None:
    queue = accumulator(records=1)
    queue.append(A, rows("1"), 0, ignore)
    queue.append(A, rows("2"), 500, ignore)
    assert [row.value for batch in queue.take_expired(1000) for row in batch.rows] == [b"1"]
    assert queue.next_due_ms() <= 500
    assert [row.value for batch in queue.take_expired(1500) for row in batch.rows] == [b"2"]
    assert queue.is_empty
    assert queue.buffered_bytes == 0


def test_what_is_out_does_not_expire_here() -> None:
    queue = accumulator(records=1)
    queue.append(A, rows("1"), 0, ignore)
    batch = queue.take(A)
    assert queue.take_expired(5000) == []
    assert not queue.is_empty
    queue.put_back(batch)
    assert queue.take_expired(5000) == [batch]


def test_buffered_bytes_come_back_to_nothing() -> None:
    queue = accumulator()
    queue.append(A, rows("1", "2", "3"), 0, ignore)
    assert queue.buffered_bytes == 2 * HEADER_BYTES + 3 * row_bytes(rows("1")[0])
    queue.put_back_split(queue.take(A))
    while queue.sendable(0, at_once=True):
        values(queue, A)
    assert queue.buffered_bytes == 0
    assert queue.is_empty


def test_a_batch_too_large_for_the_broker_comes_back_as_two_and_later_ones_are_smaller() -> None:
    queue = accumulator(records=4)
    told: list[Outcome] = []
    queue.append(A, rows("1", "2", "3", "4"), 0, told.append)
    queue.put_back_split(queue.take(A))
    queue.append(A, rows("5", "6", "7"), 0, ignore)
    queue.append(B, rows("1", "2", "3"), 0, ignore)
    assert [values(queue, A) for _ in range(2)] == [["1", "2"], ["3", "4"]]
    assert len(values(queue, A)) < 3
    assert values(queue, B) == ["1", "2", "3"]


def test_with_one_batch_it_stops_when_that_is_full() -> None:
    queue = accumulator(records=2)
    several = rows("1", "2", "3", "4", "5")
    assert queue.append(A, several, 0, ignore, one_batch=True) == 2
    assert queue.is_full(A)
    assert queue.append(B, several, 0, ignore, start=2, one_batch=True) == 4
    assert queue.append(B, several, 0, ignore, start=4, one_batch=True) == 5
    assert not queue.is_full(B)
