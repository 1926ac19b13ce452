"""Reads that are killed at any poll and go on from their last checkpoint print each record exactly once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.consumer.merged_reader import MergedReader
from kcli.consumer.range_reader import RangeReader
from kcli.consumer.read_checkpoint import (
    Checkpoint,
    Selection,
    format_checkpoint,
    parse_checkpoint,
    resume_ranges,
)
from kcli.consumer.read_range import ReadRange
from kcli.consumer.subscription import FetchPosition
from kcli.log_place import LOG_END, LOG_START
from kcli.structs import TopicPartition
from tests.consumer.cluster import FakeCluster
from tests.consumer.test_tail import BATCHES, PARTITIONS, fill

ALL = Selection({"t": None})
LAST = 200  # polls of the last read, which ends by itself


def read_with_kills(cluster: FakeCluster, data: st.DataObject, *, merge: bool) -> list[tuple[int, int]]:
    """Return the output, (partition, offset) of each record, of reads of which each but the last is killed."""
    client, config = cluster.client(max_partition_fetch_bytes=150)
    output: list[tuple[int, int]] = []
    text, length = "", 0
    for polls in [*data.draw(st.lists(st.integers(0, 6), max_size=4)), LAST]:
        del output[length:]
        ranges: dict[TopicPartition, ReadRange] = dict.fromkeys(PARTITIONS, ReadRange(LOG_START, LOG_END))
        epochs = {}
        if text:
            kept = parse_checkpoint(text, "cp")
            ranges = resume_ranges(kept, "cp", None, ALL, {}, ranges)
            epochs = {tp: position.epoch for tp, position in kept.positions.items()}
        reader: Any = RangeReader(client, ranges, config, epochs=epochs)
        if merge:
            reader = MergedReader(reader, cluster.clock)
        reader.resolve(cluster.clock.now_ms() + 10_000)
        for poll in range(polls + 1):
            unprinted = {}
            if poll:
                unprinted = print_some(reader.poll(100), output, data if polls != LAST else None)
            if unprinted or reader.done or poll == 0 or data.draw(st.booleans()):
                text, length = format_checkpoint(checkpoint_of({**reader.positions(), **unprinted})), len(output)
            if reader.done or unprinted:
                break
        reader.close()
    return output


def print_some(
    polled: list[Any], output: list[tuple[int, int]], data: st.DataObject | None
) -> dict[Any, FetchPosition]:
    """Print the records, with `data` sometimes only the first ones, as -n does.

    Return the position of the first unprinted record of each partition.
    """
    rows = [
        (number, offset)
        for tp, columns in polled
        for number, offset in zip(columns.partition_numbers(tp.partition), columns.offsets.tolist(), strict=True)
    ]
    limit = data.draw(st.none() | st.integers(0, len(rows))) if data is not None and polled else None
    output += rows[:limit]
    unprinted: dict[Any, FetchPosition] = {}
    for number, offset in rows[len(rows) if limit is None else limit :]:
        unprinted.setdefault(TopicPartition("t", number), FetchPosition(offset))
    return unprinted


def checkpoint_of(positions: dict[Any, FetchPosition]) -> Checkpoint:
    return Checkpoint(None, ALL, {"t": None}, positions)


@pytest.mark.parametrize("merge", [False, True])
@settings(max_examples=60, deadline=None)
@given(logs=st.tuples(BATCHES, BATCHES, BATCHES), data=st.data())
def test_each_record_is_printed_once_and_each_partition_in_order(
    merge: bool, logs: tuple[list[list[int | None]], ...], data: st.DataObject
) -> None:
    cluster = FakeCluster()
    cluster.topic("t", partitions=3)
    truth = []
    for tp, batches in zip(PARTITIONS, logs, strict=True):
        truth += [(tp.partition, offset) for _, offset in fill(cluster.logs[tp], batches)]
    output = read_with_kills(cluster, data, merge=merge)
    assert sorted(output, key=lambda row: row[0]) == truth  # a stable sort: offsets stay in the order of the output
