"""Sequence numbers after success, failure and doubt (KIP-98)."""

from __future__ import annotations

from kcli.producer.batches import CallbackReceiver, Identity, ProducerBatch
from kcli.producer.sequences import Sequences
from kcli.protocol.records.record import NewRecords
from kcli.structs import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def batch(records: int, tp: TopicPartition) -> ProducerBatch:
    made = ProducerBatch(tp, created_ms=0)
    made.add(NewRecords([b"v"] * records, 0), CallbackReceiver(lambda _: None), 0)
    return made


def assigned(sequences: Sequences, tp: TopicPartition, records: int = 3) -> ProducerBatch:
    new = batch(records, tp=tp)
    sequences.assign(new)
    return new


def doubtful(sent: ProducerBatch) -> ProducerBatch:
    sent.may_be_stored = True
    return sent


def sequences_with_id() -> Sequences:
    sequences = Sequences()
    assert not sequences.is_ready
    sequences.begin(7, 0)
    return sequences


def test_sequence_numbers_of_a_partition_follow_its_stored_records() -> None:
    sequences = sequences_with_id()
    first = assigned(sequences, A)
    assert first.identity == Identity(7, 0, 0)
    sequences.stored(first)
    assert assigned(sequences, A).identity == Identity(7, 0, 3)
    assert assigned(sequences, B).identity == Identity(7, 0, 0)


def test_a_retry_keeps_its_identity() -> None:
    sequences = sequences_with_id()
    first = assigned(sequences, A)
    sequences.begin(8, 0)
    sequences.assign(first)
    assert first.identity == Identity(7, 0, 0)


def test_sequence_numbers_of_a_batch_that_is_not_stored_are_reused() -> None:
    sequences = sequences_with_id()
    sequences.failed(assigned(sequences, A))
    assert sequences.is_ready
    assert assigned(sequences, A).identity == Identity(7, 0, 0)


def test_a_failed_batch_that_may_be_stored_ends_the_producer_id() -> None:
    sequences = sequences_with_id()
    other = assigned(sequences, B)
    sequences.failed(doubtful(assigned(sequences, A)))
    assert not sequences.is_ready
    sequences.begin(8, 0)
    sequences.stored(other)
    assert assigned(sequences, B).identity == Identity(8, 0, 0)


def test_a_failed_batch_with_an_older_producer_id_does_not_end_the_new_one() -> None:
    sequences = sequences_with_id()
    old = assigned(sequences, A)
    sequences.begin(8, 0)
    sequences.failed(doubtful(old))
    assert sequences.is_ready


def test_sequence_numbers_wrap_after_the_largest_int() -> None:
    sequences = sequences_with_id()
    new = batch(5, tp=A)
    new.identity = Identity(7, 0, (1 << 31) - 2)
    sequences.stored(new)
    assert assigned(sequences, A).identity == Identity(7, 0, 3)
