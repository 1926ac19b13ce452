"""Rules about replicas and leaders: offline, leaderless, under-replicated partitions, and preferred leaders. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import (
    PROBLEM,
    WARNING,
    Finding,
    format_topic_partitions,
    join_names,
    name_brokers,
    one_of_brokers,
    quantity,
)
from kcli.admin.health.partition_faults import (
    LEADERLESS,
    OFFLINE,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    faults_of,
    live_replicas,
    parse_min_isr,
)
from kcli.text import format_count

if TYPE_CHECKING:
    from kcli.admin.health.inventory import Inventory
    from kcli.client.metadata import PartitionInfo


def partitions_without_leader(facts: Inventory) -> Iterator[Finding]:
    """Partitions that cannot be read or written: offline without any live replica, else leaderless."""
    without = [info for info in facts.partitions if info.leader < 0]
    for topic, of_topic in groupby(without, attrgetter("topic")):
        partitions = list(of_topic)
        dead = [info for info in partitions if OFFLINE in faults_of(info, facts.live)]
        alive = [info for info in partitions if LEADERLESS in faults_of(info, facts.live)]
        if dead:
            replicas = _union(info.replicas for info in dead)
            yield Finding(
                "offline",
                PROBLEM,
                format_topic_partitions(topic, [info.partition for info in dead]),
                f"No leader, and no live replica. Replicas: {name_brokers(replicas)}.",
                f"Start {one_of_brokers(_union(info.isr for info in dead) or replicas)}. Until then the records cannot "
                "be read or written.",
            )
        if alive:
            in_sync = _union(info.isr for info in alive)
            live = _union(live_replicas(info, facts.live) for info in alive)
            down = _union(set(info.replicas) - set(live_replicas(info, facts.live)) for info in alive)
            yield Finding(
                "leaderless",
                PROBLEM,
                format_topic_partitions(topic, [info.partition for info in alive]),
                f"No leader, although {name_brokers(live)} with a replica {'is' if len(live) == 1 else 'are'} live: no "
                f"live replica is in sync. In sync: {name_brokers(in_sync)}; down: {name_brokers(down)}.",
                f"Start {one_of_brokers(in_sync or down or live)}. An unclean leader election would make another "
                "replica the leader and lose records.",
            )


def under_replicated(facts: Inventory) -> Iterator[Finding]:
    """Partitions with a leader whose in-sync replicas are not all of the replicas, by the replicas that are missing."""
    lagging: dict[tuple[int, ...], list[PartitionInfo]] = {}
    for info in facts.partitions:
        if UNDER_REPLICATED in faults_of(info, facts.live):
            missing = tuple(sorted(set(info.replicas) - set(info.isr)))
            lagging.setdefault(missing, []).append(info)
    for missing, partitions in sorted(lagging.items()):
        down = [node for node in missing if node not in facts.live]
        live = [node for node in missing if node in facts.live]
        causes = [f"{name_brokers(down)} {'is' if len(down) == 1 else 'are'} down"] if down else []
        causes += (
            [f"{name_brokers(live)} {'is' if len(live) == 1 else 'are'} live but behind the leader"] if live else []
        )
        advice = f"Start {name_brokers(down)}. " if down else ""
        if live:
            advice += (
                f"Check disk, network and log of {name_brokers(live)}, and whether a reassignment or a replication "
                "throttle is active."
            )
        yield Finding(
            "under-replicated",
            WARNING,
            name_brokers(list(missing)),
            f"Not in sync in {_count(partitions)}: {name_partitions(partitions)}; {' and '.join(causes)}.",
            advice.strip(),
        )


def under_min_isr(facts: Inventory) -> Iterator[Finding]:
    """Partitions with a leader and fewer in-sync replicas than min.insync.replicas."""
    for topic, of_topic in groupby(facts.partitions, attrgetter("topic")):
        setting = parse_min_isr(facts.topic_settings.get(topic, {}))
        under = [info for info in of_topic if UNDER_MIN_ISR in faults_of(info, facts.live, setting)]
        if not under:
            continue
        missing = _union(set(info.replicas) - set(info.isr) for info in under)
        in_sync = _union(info.isr for info in under)
        yield Finding(
            "under-min-isr",
            PROBLEM,
            format_topic_partitions(topic, [info.partition for info in under]),
            f"In sync: {name_brokers(in_sync)}; min.insync.replicas is {setting}. The brokers refuse writes with "
            "acks=all (NOT_ENOUGH_REPLICAS).",
            f"Bring {name_brokers(missing)} back in sync.",
        )


def leaders_not_preferred(facts: Inventory) -> Iterator[Finding]:
    """Partitions whose preferred leader, the first replica, is in sync but does not lead, by preferred leader."""
    elsewhere: dict[int, list[PartitionInfo]] = {}
    for info in facts.partitions:
        preferred = info.replicas[0] if info.replicas else -1
        if info.leader >= 0 and info.leader != preferred and preferred in info.isr and preferred in facts.live:
            elsewhere.setdefault(preferred, []).append(info)
    for preferred, partitions in sorted(elsewhere.items()):
        leaders = _union([info.leader] for info in partitions)
        yield Finding(
            "not-preferred-leader",
            WARNING,
            f"broker {preferred}",
            f"It is the preferred leader of {_count(partitions)} that {name_brokers(leaders)} "
            f"{'leads' if len(leaders) == 1 else 'lead'}: {name_partitions(partitions)}.",
            "Elect the preferred leaders: kafka-leader-election.sh --election-type preferred "
            "--all-topic-partitions. With auto.leader.rebalance.enable=true the controller does so by itself, each "
            "leader.imbalance.check.interval.seconds.",
        )


def name_partitions(partitions: Iterable[PartitionInfo]) -> str:
    """Return partitions by topic: `bills-0, orders partitions 0-3 and 5 more`."""
    by_topic = groupby(partitions, attrgetter("topic"))
    return join_names(format_topic_partitions(topic, [info.partition for info in some]) for topic, some in by_topic)


def _count(partitions: list[PartitionInfo]) -> str:
    topics = format_count(len({info.topic for info in partitions}), "topic")
    return f"{quantity(len(partitions), 'partition')} of {topics}"


def _union(sets: Iterable[Iterable[int]]) -> list[int]:
    return sorted({node for nodes in sets for node in nodes})
