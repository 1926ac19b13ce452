"""Faults of partitions: offline, leaderless, under-min-isr and under-replicated. The definitions of all commands.

| fault | meaning |
|---|---|
| offline | no leader, and no live replica |
| leaderless | no leader, although a replica is live: it is not in sync |
| under-min-isr | fewer replicas in sync than min.insync.replicas: writes with acks=all are refused |
| under-replicated | a replica is not in sync |

A partition without a leader has that fault only. As in the brokers, min.insync.replicas is limited by the number of
replicas.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.health.inventory import MIN_ISR

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import PartitionInfo, TopicInfo
    from kcli.errors import KcliError

OFFLINE, LEADERLESS, UNDER_MIN_ISR, UNDER_REPLICATED = "offline", "leaderless", "under-min-isr", "under-replicated"
#: All faults, the most severe first.
FAULTS = (OFFLINE, LEADERLESS, UNDER_MIN_ISR, UNDER_REPLICATED)
_TOPICS_PER_REQUEST = 1_000


def faults_of(info: PartitionInfo, live: Collection[int], min_isr: int | None = None) -> tuple[str, ...]:
    """Return the faults of a partition, the most severe first. Pure.

    `live` are the brokers that serve clients; `min_isr` None: min.insync.replicas is not known.
    """
    if info.leader < 0:
        return (LEADERLESS,) if live_replicas(info, live) else (OFFLINE,)
    found = []
    if min_isr is not None and len(info.isr) < min(min_isr, len(info.replicas)):
        found.append(UNDER_MIN_ISR)
    if set(info.replicas) - set(info.isr):
        found.append(UNDER_REPLICATED)
    return tuple(found)


def live_replicas(info: PartitionInfo, live: Collection[int]) -> list[int]:
    """Return the replicas on live brokers whose disk is not offline."""
    return [node for node in info.replicas if node in live and node not in info.offline]


class PartitionFaults(NamedTuple):
    """The faults of each faulty partition, by topic and number; healthy partitions are absent.

    `errors` are those of the topics for which min.insync.replicas could not be requested.
    """

    by_topic: dict[str, dict[int, tuple[str, ...]]]
    errors: dict[str, KcliError]

    def of(self, topic: str, partition: int) -> tuple[str, ...]:
        """Return the faults of a partition; () if it is healthy."""
        return self.by_topic.get(topic, {}).get(partition, ())


def find_partition_faults(
    client: ConsumerNetworkClient, topics: Iterable[TopicInfo], deadline_ms: float
) -> PartitionFaults:
    """Return the faults of these topics, whose metadata was just requested with `client`.

    min.insync.replicas is requested only for topics with a leader that misses a replica: the others cannot be below it.
    """
    topics = list(topics)
    live = {node for node in client.metadata.cluster.nodes if node >= 0}
    short = [topic.name for topic in topics if any(UNDER_REPLICATED in faults_of(info, live) for info in _all(topic))]
    min_isr, errors = _min_isr(client, short, deadline_ms)
    by_topic = {}
    for topic in topics:
        found = {info.partition: faults_of(info, live, min_isr.get(topic.name)) for info in _all(topic)}
        if faulty := {number: faults for number, faults in found.items() if faults}:
            by_topic[topic.name] = faulty
    return PartitionFaults(by_topic, errors)


def _all(topic: TopicInfo) -> Iterator[PartitionInfo]:
    return iter(topic.partitions.values())


def _min_isr(
    client: ConsumerNetworkClient, topics: list[str], deadline_ms: float
) -> tuple[dict[str, int], dict[str, KcliError]]:
    from kcli.admin.configs import TOPIC, describe_configs
    from kcli.errors import KcliError, WakeupError

    values: dict[str, int] = {}
    errors: dict[str, KcliError] = {}
    for start in range(0, len(topics), _TOPICS_PER_REQUEST):
        some = topics[start : start + _TOPICS_PER_REQUEST]
        try:
            found = describe_configs(client, TOPIC, some, deadline_ms, keys=(MIN_ISR,))
        except WakeupError:
            raise
        except KcliError as error:
            errors.update(dict.fromkeys(some, error))
            continue
        errors.update(found.errors)
        for name, settings in found.values.items():
            value = parse_min_isr({setting.name: setting.value or "" for setting in settings})
            if value is not None:
                values[name] = value
    return values, errors


def parse_min_isr(settings: Mapping[str, str]) -> int | None:
    """Return min.insync.replicas of a topic's settings; None if it is missing."""
    text = settings.get(MIN_ISR, "")
    return int(text) if text.isdecimal() else None
