"""Where the logs of partitions begin and end, asked of their leaders; a partition that cannot tell is an error."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.patience import half_of
from kcli.client.offset_lookup import EARLIEST, LATEST, list_offsets
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import Cluster

# A leader is elected in well under a second where one can be; where none can be, waiting does not help.
_LEADERLESS_MS = 1_000


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
    """Bounds of the logs, whose topics `learn_topics` has asked for; with `isolation_level` 1 the last stable offsets.

    Partitions without a leader are waited for a moment only, topics that are not there not at all, and who does not
    tell an end is not asked for its start.
    """
    ends: dict[TopicPartition, int | KcliError] = {}
    led, leaderless = [], []
    for tp in sorted(partitions):
        problem = _problem_of_topic(client.metadata.cluster, tp)
        if problem is not None:
            ends[tp] = problem
        elif client.metadata.leader(tp).node is not None:
            led.append(tp)
        else:
            leaderless.append(tp)
    ends |= _offsets(client, led, LATEST, half_of(client, deadline_ms), isolation_level)
    patience_ms = min(half_of(client, deadline_ms), client.clock.now_ms() + _LEADERLESS_MS)
    ends |= _offsets(client, leaderless, LATEST, patience_ms, isolation_level)
    ends_ms = client.clock.now_ms()
    starts = _offsets(client, [tp for tp, end in ends.items() if isinstance(end, int)], EARLIEST, deadline_ms, 0)
    return LogBounds(starts, ends, ends_ms)


def learn_topics(client: ConsumerNetworkClient, topics: Iterable[str], deadline_ms: float) -> None:
    """Ask for those of these topics of which nothing good is known yet, in one question.

    At the deadline nothing is raised: who then asks for a partition hears what is wrong.
    """
    known = client.metadata.cluster.topics
    if doubtful := sorted(topic for topic in set(topics) if topic not in known or known[topic].error):
        with suppress(TimeoutExpired):
            client.topics_metadata(doubtful, deadline_ms)


def _problem_of_topic(cluster: Cluster, tp: TopicPartition) -> KcliError | None:
    topic = cluster.topics.get(tp.topic)
    if topic is None or topic.error in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
        return None
    return BrokerError(topic.error, topic=tp.topic)


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
