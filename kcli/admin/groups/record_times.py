"""When the record at an offset was written, and how far that can be believed: one small Fetch for each leader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.client.routing import Gathered
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient


class RecordTime(NamedTuple):
    """The first record at or behind an offset. `offset` -1: there is none. `timestamp_ms` -1: it has no time.

    `append_time`: the broker's clock wrote the time (LogAppendTime), not a producer's. An `offset` behind the one that
    was asked for: what was there is gone (compaction) or was never a record (a transaction's marker).
    """

    offset: int
    timestamp_ms: int = -1
    append_time: bool = False


def record_times(
    client: ConsumerNetworkClient, positions: Mapping[TopicPartition, int], deadline_ms: float
) -> Gathered[TopicPartition, RecordTime]:
    """The time of the record at each of these offsets."""
    raise NotImplementedError
