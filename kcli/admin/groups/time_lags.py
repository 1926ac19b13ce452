"""The time lags of many rows: the records at their offsets are looked up together, each of them only once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.admin.groups.lag import PartitionLag
from kcli.admin.groups.record_times import record_times
from kcli.admin.groups.time_lag import time_position, with_time_lag
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient


def add_time_lags(client: ConsumerNetworkClient, rows: Iterable[list[PartitionLag]], deadline_ms: float) -> None:
    """Put the time lags as of now into those rows that are behind."""
    behind: list[tuple[list[PartitionLag], int, int]] = []  # where the row is, and the offset to look at
    positions: dict[TopicPartition, set[int]] = {}
    for its in rows:
        for number, row in enumerate(its):
            offset = time_position(row) if row.lag else None
            if offset is not None:
                behind.append((its, number, offset))
                positions.setdefault(row.tp, set()).add(offset)
    found = record_times(client, positions, deadline_ms)
    wall_ms = client.clock.wall_ms()
    for its, number, offset in behind:
        row = its[number]
        place = (row.tp, offset)
        its[number] = with_time_lag(row, found.values.get(place) or found.errors[place], wall_ms)
