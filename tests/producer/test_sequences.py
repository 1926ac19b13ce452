"""Sequence numbers over success, refusal and doubt (KIP-98)."""

from __future__ import annotations

from kcli.producer.batches import Identity, ProducerBatch
from kcli.producer.sequences import Sequences
from kcli.protocol.records.record import NewRecord
from kcli.structs import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def batch(tp: TopicPartition, records: int = 3) -> ProducerBatch:
    made = ProducerBatch(tp, 0)
    made.rows = [NewRecord(None, b"", 0)] * records
    return made


def sent(sequences: Sequences, tp: TopicPartition, records: int = 3) -> ProducerBatch:
    made = batch(tp, records)
    sequences.assign(made)
    return made


def begun() -> Sequences:
    sequences = Sequences()
    assert not sequences.is_ready
    sequences.begin(7, 0)
    return sequences


def test_each_partition_counts_from_zero_by_what_was_stored() -> None:
    sequences = begun()
    first = sent(sequences, A)
    assert first.identity == Identity(7, 0, 0)
    sequences.stored(first)
    assert sent(sequences, A).identity == Identity(7, 0, 3)
    assert sent(sequences, B).identity == Identity(7, 0, 0)


def test_a_retry_keeps_its_numbers() -> None:
    sequences = begun()
    first = sent(sequences, A)
    sequences.begin(8, 0)
    sequences.assign(first)
    assert first.identity == Identity(7, 0, 0)


def test_numbers_that_were_surely_not_used_go_to_the_next_batch() -> None:
    sequences = begun()
    sequences.failed(sent(sequences, A), surely_not_stored=True)
    assert sequences.is_ready
    assert sent(sequences, A).identity == Identity(7, 0, 0)


def test_a_batch_given_up_in_doubt_ends_the_producer_id() -> None:
    sequences = begun()
    other = sent(sequences, B)
    sequences.failed(sent(sequences, A), surely_not_stored=False)
    assert not sequences.is_ready
    sequences.begin(8, 0)
    sequences.stored(other)
    assert sent(sequences, B).identity == Identity(8, 0, 0)


def test_doubt_about_an_old_id_does_not_end_the_new_one() -> None:
    sequences = begun()
    old = sent(sequences, A)
    sequences.begin(8, 0)
    sequences.failed(old, surely_not_stored=False)
    assert sequences.is_ready


def test_numbers_wrap_behind_the_largest_int() -> None:
    sequences = begun()
    made = batch(A, records=5)
    made.identity = Identity(7, 0, (1 << 31) - 2)
    sequences.stored(made)
    assert sent(sequences, A).identity == Identity(7, 0, 3)
