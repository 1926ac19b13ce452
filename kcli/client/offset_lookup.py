"""Offsets by time and ends of leader epochs, asked of the leaders side by side (ListOffsets, OffsetForLeaderEpoch)."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.client.offset_requests import EpochEnd, epochs_request, offsets_request, read_epochs, read_offsets
from kcli.client.routing import Gathered, ask_leaders
from kcli.structs import OffsetAndTimestamp, TopicPartition

__all__ = ["EARLIEST", "LATEST", "MAX_TIMESTAMP", "EpochEnd", "list_offsets", "offsets_for_leader_epoch"]

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3

_MAX_TIMESTAMP_VERSION = 7  # KIP-734


def list_offsets(
    client: ConsumerNetworkClient,
    wanted: Mapping[TopicPartition, int],
    deadline_ms: float,
    isolation_level: int = 0,
) -> Gathered[TopicPartition, OffsetAndTimestamp]:
    """The offset of EARLIEST, LATEST, MAX_TIMESTAMP, or of the first record at or after a time in ms, by partition.

    Offset -1: there is no such record. With `isolation_level` 1 LATEST is the last stable offset. Errors are data,
    among them UnsupportedVersion for MAX_TIMESTAMP from a broker older than 3.0.
    """
    timeout_ms = client.config.request_timeout_ms
    return ask_leaders(
        client,
        wanted,
        lambda _node, tps: offsets_request(
            client.metadata, {tp: wanted[tp] for tp in tps}, isolation_level, timeout_ms
        ),
        read_offsets,
        deadline_ms,
        min_version=_MAX_TIMESTAMP_VERSION if MAX_TIMESTAMP in wanted.values() else None,
    )


def offsets_for_leader_epoch(
    client: ConsumerNetworkClient, epochs: Mapping[TopicPartition, int], deadline_ms: float
) -> Gathered[TopicPartition, EpochEnd]:
    """Where the epoch under which each partition was read has ended; before our position means a truncated log."""
    return ask_leaders(
        client,
        epochs,
        lambda _node, tps: epochs_request(client.metadata, {tp: epochs[tp] for tp in tps}),
        read_epochs,
        deadline_ms,
    )
