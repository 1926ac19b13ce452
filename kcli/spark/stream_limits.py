"""How much a batch of a stream takes: maxOffsetsPerTrigger, shared out over partitions. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.structs import TopicPartition


def limit_pro_rata(
    begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], most: int
) -> dict[TopicPartition, int]:
    """Ends such that about `most` offsets are read: each partition's share is that of its backlog, at least one, so
    that small ones do not starve; that may make it a few more."""
    backlog = {tp: ends[tp] - begins[tp] for tp in ends if ends[tp] > begins[tp]}
    total = sum(backlog.values())
    limited = dict(ends)
    for tp, size in backlog.items():
        limited[tp] = min(ends[tp], begins[tp] + max(1, most * size // total))
    return limited
