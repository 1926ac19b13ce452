"""The time lags of many rows: the records at their offsets are looked up together, one of each partition at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.admin.groups.lag import PartitionLag
from kcli.admin.groups.record_times import RecordTime, record_times
from kcli.admin.groups.time_lag import time_position, with_time_lag
from kcli.errors import KcliError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient


def add_time_lags(
    client: ConsumerNetworkClient, rows: Mapping[str, list[PartitionLag]], deadline_ms: float
) -> dict[str, list[PartitionLag]]:
    """The rows of each group, with time lags as of now.

    A request asks for one offset of a partition, so groups that are at different offsets of it take turns.
    """
    found: dict[tuple[TopicPartition, int], RecordTime | KcliError] = {}
    turns = _turns(rows)
    while turns:
        if found and client.clock.now_ms() >= deadline_ms:
            late = client.timed_out("the times of records")
            found.update({(tp, offset): late for tp, offsets in turns.items() for offset in offsets})
            break
        turn = {tp: offsets.pop() for tp, offsets in turns.items()}
        times = record_times(client, turn, deadline_ms)
        for tp, offset in turn.items():
            found[tp, offset] = times.values[tp] if tp in times.values else times.errors[tp]
        turns = {tp: offsets for tp, offsets in turns.items() if offsets}
    wall_ms = client.clock.wall_ms()

    def aged(row: PartitionLag) -> PartitionLag:
        offset = time_position(row)
        return with_time_lag(row, None if offset is None else found.get((row.tp, offset)), wall_ms)

    return {name: [aged(row) for row in its] for name, its in rows.items()}


def _turns(rows: Mapping[str, list[PartitionLag]]) -> dict[TopicPartition, set[int]]:
    """The offsets to look at, by partition."""
    turns: dict[TopicPartition, set[int]] = {}
    for its in rows.values():
        for row in its:
            offset = time_position(row)
            if offset is not None:
                turns.setdefault(row.tp, set()).add(offset)
    return turns
