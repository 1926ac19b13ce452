"""Three real nodes that fail under kcli's clients: nothing is lost or doubled, and waiting members cost no CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.cluster_soak import PER_S, SETTINGS, Soak
from tests.real_kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.slow, pytest.mark.real_kafka]

COORDINATOR = 2
GROUPS = {"cooperative": ("-X", "partition.assignment.strategy=cooperative-sticky")}


@pytest.fixture
def soak(kafka_jars: Path, tmp_path: Path) -> Iterator[Soak]:
    """Three nodes; one of them coordinates all groups, and leads a third of the topic."""
    cluster = KafkaCluster(tmp_path / "cluster", kafka_jars, 3, SETTINGS, [[COORDINATOR, 3, 1]] * 4)
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
