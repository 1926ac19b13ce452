"""Who is told what, when a batch holds records of several calls, is split, or is refused for some of its records."""

from __future__ import annotations

from kcli.errors import KcliError
from kcli.producer.batches import Outcome, ProducerBatch
from kcli.protocol.records.record import NewRecord
from kcli.structs import TopicPartition

TP = TopicPartition("t", 3)


def batch_of(*sizes: int) -> tuple[ProducerBatch, list[list[Outcome]]]:
    """A batch with the records of one call after another, and what each call was told."""
    batch, told = ProducerBatch(TP, 0), []
    for size in sizes:
        first = len(batch.rows)
        batch.rows += [NewRecord(None, b"x", 0)] * size
        heard: list[Outcome] = []
        batch.add_segment(first, heard.append)
        told.append(heard)
    return batch, told


def test_each_call_hears_where_its_first_record_went() -> None:
    batch, told = batch_of(2, 3)
    batch.stored(100, -1)
    assert told == [[Outcome(TP, 2, 100)], [Outcome(TP, 3, 102)]]


def test_an_unknown_offset_stays_unknown() -> None:
    batch, told = batch_of(1, 1)
    batch.stored(-1, -1)
    assert told == [[Outcome(TP, 1, -1)], [Outcome(TP, 1, -1)]]


def test_culprits_hear_their_own_error_and_the_others_that_of_the_batch() -> None:
    batch, told = batch_of(1, 4)
    all_of_it, own = KcliError("all"), KcliError("own")
    batch.failed(all_of_it, {2: own, 4: own})
    assert told[0] == [Outcome(TP, 1, error=all_of_it)]
    assert [(o.records, o.error) for o in told[1]] == [(1, all_of_it), (1, own), (1, all_of_it), (1, own)]


def test_a_split_tells_each_half_by_itself() -> None:
    batch, told = batch_of(3, 2)
    first, second = batch.split()
    assert (len(first.rows), len(second.rows)) == (2, 3)
    second.stored(50, -1)
    error = KcliError("no")
    first.failed(error)
    assert told[0] == [Outcome(TP, 1, 50), Outcome(TP, 2, error=error)]
    assert told[1] == [Outcome(TP, 2, 51)]
