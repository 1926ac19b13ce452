"""Outcomes of a batch with records of several calls, after a split, and with errors of single records."""

from __future__ import annotations

from kcli.errors import KcliError
from kcli.producer.batches import Outcome, ProducerBatch
from kcli.protocol.records.record import NewRecord
from kcli.structs import TopicPartition

TP = TopicPartition("t", 3)


def batch_of(*sizes: int) -> tuple[ProducerBatch, list[list[Outcome]]]:
    """A batch with the records of several calls, and the outcomes that each call received."""
    batch, outcomes = ProducerBatch(TP, 0), []
    for size in sizes:
        first = len(batch.records)
        batch.records += [NewRecord(None, b"x", 0)] * size
        received: list[Outcome] = []
        batch.add_segment(first, received.append)
        outcomes.append(received)
    return batch, outcomes


def test_each_call_receives_the_offset_of_its_first_record() -> None:
    batch, outcomes = batch_of(2, 3)
    batch.stored(100, -1)
    assert outcomes == [[Outcome(TP, 2, 100)], [Outcome(TP, 3, 102)]]


def test_an_unknown_offset_is_reported_as_unknown() -> None:
    batch, outcomes = batch_of(1, 1)
    batch.stored(-1, -1)
    assert outcomes == [[Outcome(TP, 1, -1)], [Outcome(TP, 1, -1)]]


def test_records_with_an_own_error_receive_it_and_the_others_that_of_the_batch() -> None:
    batch, outcomes = batch_of(1, 4)
    of_batch, own = KcliError("all"), KcliError("own")
    batch.failed(of_batch, {2: own, 4: own})
    assert outcomes[0] == [Outcome(TP, 1, error=of_batch)]
    assert [(o.record_count, o.error) for o in outcomes[1]] == [(1, of_batch), (1, own), (1, of_batch), (1, own)]


def test_the_halves_of_a_split_batch_report_separately() -> None:
    batch, outcomes = batch_of(3, 2)
    first, second = batch.split()
    assert (len(first.records), len(second.records)) == (2, 3)
    second.stored(50, -1)
    error = KcliError("no")
    first.failed(error)
    assert outcomes[0] == [Outcome(TP, 1, 50), Outcome(TP, 2, error=error)]
    assert outcomes[1] == [Outcome(TP, 2, 51)]
