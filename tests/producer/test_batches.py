"""Outcomes of a batch with records of several calls, after a split, and with errors of single records."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.errors import KcliError
from kcli.producer import batches
from kcli.producer.batches import HEADER_BYTES, CallbackReceiver, Outcome, ProducerBatch, SizedRecords
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.record import NewRecord, NewRecords
from kcli.structs import TopicPartition

TP = TopicPartition("t", 3)


def batch_of(*sizes: int) -> tuple[ProducerBatch, list[list[Outcome]]]:
    """A batch with the records of several calls, and the outcomes that each call received."""
    batch, outcomes = ProducerBatch(TP, 0), []
    for size in sizes:
        received: list[Outcome] = []
        batch.add(NewRecords([b"x"] * size, 0), CallbackReceiver(received.append), size)
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
    assert (first.record_count, second.record_count) == (2, 3)
    second.stored(50, -1)
    error = KcliError("no")
    first.failed(error)
    assert outcomes[0] == [Outcome(TP, 1, 50), Outcome(TP, 2, error=error)]
    assert outcomes[1] == [Outcome(TP, 2, 51)]


blobs = st.none() | st.binary(max_size=20)
rows = st.builds(
    NewRecord, blobs, blobs, st.integers(-1, 2**40), st.lists(st.tuples(st.just("name"), blobs), max_size=2)
)


def size_of(row: NewRecord) -> int:
    """The estimate: 12 bytes, key and value, and for each header 3 bytes, name and value."""
    headers = sum(3 + len(name) + len(value or b"") for name, value in row.headers)
    return 12 + len(row.key or b"") + len(row.value or b"") + headers


@settings(deadline=None)
@given(st.lists(rows, max_size=8), st.integers(0, 300), st.data())
def test_the_records_that_fit_are_those_that_fit_one_after_the_other(table, room, data):
    start = data.draw(st.integers(0, len(table)))
    sized = SizedRecords(NewRecords.of(table), CallbackReceiver(lambda outcome: None))
    end, size = start, 0
    while end < len(table) and size + size_of(table[end]) <= room:
        size += size_of(table[end])
        end += 1
    assert sized.fitting(start, room) == (end, size)
    assert sized.all_fit(room) == all(size_of(row) <= room for row in table)
    assert sized.larger_than(40) == [size_of(row) > 40 for row in table]


def plain(rows: Iterable[NewRecord]) -> list[NewRecord]:
    return [row._replace(headers=list(row.headers)) for row in rows]


@settings(deadline=None)
@given(
    calls=st.lists(st.lists(rows, min_size=1, max_size=4), min_size=2, max_size=6),
    at_once=st.sampled_from([1, 60, 1 << 20]),
    compression=st.sampled_from(["none", "lz4"]),
)
def test_records_encoded_call_by_call_are_those_encoded_together_also_after_a_split(
    calls: list[list[NewRecord]], at_once: int, compression: str
) -> None:
    table = [row for call in calls for row in call]
    batch = ProducerBatch(TP, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "_ENCODED_AT_ONCE_BYTES", at_once)
        for call in calls:
            batch.add(NewRecords.of(call), CallbackReceiver(lambda outcome: None), sum(map(size_of, call)))
    assert plain(batch.records.rows()) == plain(table)
    assert batch.encode(compression).batch() == build_batch(table, compression=compression)
    halves = batch.split()
    assert plain([*halves[0].records.rows(), *halves[1].records.rows()]) == plain(table)
    assert sum(half.size_bytes for half in halves) == batch.size_bytes + HEADER_BYTES
