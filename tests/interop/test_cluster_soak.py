"""Three nodes, of Apache Kafka and of ours, that fail under kcli's clients: nothing is lost or doubled.

Members that wait cost no CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.cluster.nodes import MixedCluster
from tests.interop.cluster_soak import PER_S, SETTINGS, Soak
from tests.real_kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.slow, pytest.mark.real_kafka]

COORDINATOR = 2
COORDINATORS = [[COORDINATOR, 3, 1]] * 4
GROUPS = {"cooperative": ("-X", "partition.assignment.strategy=cooperative-sticky")}


def apaches(folder: Path, jars: Path) -> KafkaCluster:
    return KafkaCluster(folder, jars, 3, SETTINGS, COORDINATORS)


def ours(folder: Path, jars: Path) -> MixedCluster:
    return MixedCluster(folder, jars, "kcli", ["kcli"] * 3, coordinators=COORDINATORS)


@pytest.fixture(params=[apaches, ours])
def soak(request: pytest.FixtureRequest, kafka_jars: Path, tmp_path: Path) -> Iterator[Soak]:
    """Three nodes; one of them coordinates all groups, and leads a third of the topic."""
    cluster = request.param(tmp_path / "cluster", kafka_jars)
    soak = None
    try:
        cluster.start()
        soak = Soak(cluster, tmp_path, GROUPS)
        yield soak
    finally:
        if soak is not None:
            soak.close()
        cluster.kill()


def test_a_killed_and_a_silent_coordinator_lose_and_double_nothing(soak: Soak) -> None:
    """`python -m tests.bench.cluster_soak` also has other groups, a roll, a reassignment and crashes of members."""
    soak.start()
    soak.until_all_print()
    soak.kill(COORDINATOR, lambda: soak.until_printed(PER_S))
    soak.freeze(COORDINATOR, soak.until_idle)
    soak.until_printed(PER_S)
    soak.finish()
