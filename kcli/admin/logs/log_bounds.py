"""Start and end offsets of partitions, from their leaders. The failure of a partition is a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kcli.client.offset_lookup import EARLIEST, LATEST, list_offsets
from kcli.client.requests import half_deadline, more_telling
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import Cluster

# An election takes well under a second; a partition without a leader for longer has no eligible replica.
_LEADERLESS_MS = 1_000
_FINAL = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE}


class LogBounds(NamedTuple):
    """Start offset and end offset (that of the last record plus 1) of each partition, or its error.

    `ends_ms` is the time (of the client's steady clock) when the end offsets were received.
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
    """Return the bounds of logs of topics that `learn_topics` has requested.

    With `isolation_level` 1 the ends are the last stable offsets. The wait for a partition without a leader is short,
    and a topic that does not exist is not waited for. The start is requested only where the end is known. A leader that
    refuses for a reason that passes, such as OFFSET_NOT_AVAILABLE after its election, is asked until the deadline.
    """
    ends: dict[TopicPartition, int | KcliError] = {}
    with_leader, leaderless = [], []
    for tp in sorted(partitions):
        error = _topic_error(client.metadata.cluster, tp)
        if error is not None:
            ends[tp] = error
        elif client.metadata.leader(tp).node is not None:
            with_leader.append(tp)
        else:
            leaderless.append(tp)
    ends |= _offsets(client, with_leader, LATEST, half_deadline(client, deadline_ms), isolation_level)
    leaderless_deadline_ms = min(half_deadline(client, deadline_ms), client.clock.now_ms() + _LEADERLESS_MS)
    ends |= _offsets(client, leaderless, LATEST, leaderless_deadline_ms, isolation_level)
    ends_ms = client.clock.now_ms()
    starts = _offsets(client, [tp for tp, end in ends.items() if isinstance(end, int)], EARLIEST, deadline_ms, 0)
    if not_ready := [tp for tp in with_leader if isinstance(ends[tp], BrokerError) and may_pass(ends[tp])]:
        later = _offsets(client, not_ready, LATEST, deadline_ms, isolation_level)
        ends_ms = client.clock.now_ms()
        ends |= _better_of(ends, later)
        starts |= _offsets(client, [tp for tp, end in later.items() if isinstance(end, int)], EARLIEST, deadline_ms, 0)
    return LogBounds(starts, ends, ends_ms)


def settled_bounds(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], deadline_ms: float
) -> LogBounds:
    """Return `log_bounds`; ask again until the deadline after an error that `may_pass`, a lost connection too."""
    bounds, pending = LogBounds({}, {}, 0.0), list(partitions)
    for _ in client.attempts(deadline_ms):
        learn_topics(client, {tp.topic for tp in pending}, half_deadline(client, deadline_ms))
        latest = log_bounds(client, pending, half_deadline(client, deadline_ms))
        ends = {**bounds.ends, **_better_of(bounds.ends, latest.ends)}
        bounds = LogBounds({**bounds.starts, **latest.starts}, ends, latest.ends_ms)
        pending = [tp for tp in pending if any(may_pass(of.get(tp)) for of in (latest.starts, latest.ends))]
        if not pending:
            break
    return bounds


def _better_of(
    earlier: Mapping[TopicPartition, int | KcliError], later: Mapping[TopicPartition, int | KcliError]
) -> dict[TopicPartition, int | KcliError]:
    """Return the later ends; of two errors of a partition the more telling one."""
    return {tp: more_telling(earlier.get(tp), end) if isinstance(end, KcliError) else end for tp, end in later.items()}


def may_pass(error: object) -> bool:
    """True for an error that more time may cure: retriable, unless a topic is missing or a partition has no leader.

    The short waits for a topic that was just created and for the election of a leader are over by then.
    """
    final = isinstance(error, BrokerError) and error.code in _FINAL
    return isinstance(error, KcliError) and error.retriable and not final


def learn_topics(client: ConsumerNetworkClient, topics: Iterable[str], deadline_ms: float) -> None:
    """Request metadata of those topics that are unknown or in error, in one request.

    Nothing is raised at the deadline, because a later request for a partition reports the error.
    """
    known = client.metadata.cluster.topics
    if missing := sorted(topic for topic in set(topics) if topic not in known or known[topic].error):
        with suppress(TimeoutExpired):
            client.topics_metadata(missing, deadline_ms)


def _topic_error(cluster: Cluster, tp: TopicPartition) -> KcliError | None:
    error = cluster.topic_error(tp.topic) if tp.topic in cluster.topics else None
    return error if error is not None and error.code != ErrorCode.LEADER_NOT_AVAILABLE else None


def _offsets(
    client: ConsumerNetworkClient,
    partitions: list[TopicPartition],
    timestamp: int,
    deadline_ms: float,
    isolation_level: int,
) -> dict[TopicPartition, int | KcliError]:
    try:
        results = list_offsets(client, dict.fromkeys(partitions, timestamp), deadline_ms, isolation_level)
    except TimeoutExpired as error:  # the leaders are unknown
        return dict.fromkeys(partitions, error)
    offsets: dict[TopicPartition, int | KcliError] = {tp: result.offset for tp, result in results.values.items()}
    return offsets | results.errors
