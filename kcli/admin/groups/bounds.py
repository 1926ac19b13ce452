"""Where the logs of partitions begin and end, asked of their leaders; a partition that cannot tell is an error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.patience import LEADERLESS_MS, half_of
from kcli.client.offset_lookup import EARLIEST, LATEST, list_offsets
from kcli.errors import KcliError, TimeoutExpired
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient


class LogBounds(NamedTuple):
    """By partition, the first offset and the one behind the last record, or why it is not known.

    `ends_ms` is the moment (of the client's steady clock) when the ends were there.
    """

    starts: dict[TopicPartition, int | KcliError]
    ends: dict[TopicPartition, int | KcliError]
    ends_ms: float


def log_bounds(
    client: ConsumerNetworkClient,
    partitions: Iterable[TopicPartition],
    deadline_ms: float,
    *,
    isolation_level: int = 0,
) -> LogBounds:
    """Bounds of the logs; with `isolation_level` 1 the end is the last stable offset.

    Partitions without a leader are waited for a moment only, and who does not tell an end is not asked for its start.
    """
    wanted = sorted(partitions)
    try:
        learn_leaders(client, {tp.topic for tp in wanted}, half_of(client, deadline_ms))
    except TimeoutExpired as late:
        return LogBounds({}, dict.fromkeys(wanted, late), client.clock.now_ms())
    led = [tp for tp in wanted if client.metadata.leader(tp).node is not None]
    ends = _offsets(client, led, LATEST, half_of(client, deadline_ms), isolation_level)
    leaderless = sorted(set(wanted).difference(led))
    patience_ms = min(half_of(client, deadline_ms), client.clock.now_ms() + LEADERLESS_MS)
    ends |= _offsets(client, leaderless, LATEST, patience_ms, isolation_level)
    ends_ms = client.clock.now_ms()
    starts = _offsets(client, [tp for tp, end in ends.items() if isinstance(end, int)], EARLIEST, deadline_ms, 0)
    return LogBounds(starts, ends, ends_ms)


def learn_leaders(client: ConsumerNetworkClient, topics: Iterable[str], deadline_ms: float) -> None:
    """Ask for those of these topics of which nothing is known yet, in one question."""
    known = client.metadata.cluster.topics
    if unknown := sorted(set(topics).difference(known)):
        client.topics_metadata(unknown, deadline_ms)


def _offsets(
    client: ConsumerNetworkClient,
    partitions: list[TopicPartition],
    which: int,
    deadline_ms: float,
    isolation_level: int,
) -> dict[TopicPartition, int | KcliError]:
    try:
        found = list_offsets(client, dict.fromkeys(partitions, which), deadline_ms, isolation_level)
    except TimeoutExpired as late:  # not even the leaders could be learned
        return dict.fromkeys(partitions, late)
    told: dict[TopicPartition, int | KcliError] = {tp: it.offset for tp, it in found.values.items()}
    return told | found.errors
