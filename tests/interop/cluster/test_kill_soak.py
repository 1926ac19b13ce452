"""Three nodes of ours under load: a fault of each kind loses and doubles nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.cluster.kill_soak import KillSoak

pytestmark = [pytest.mark.slow, pytest.mark.real_kafka]


@pytest.fixture
def soak(tmp_path: Path, kafka_jars: Path) -> Iterator[KillSoak]:
    soak = KillSoak(tmp_path / "cluster", kafka_jars, per_s=60)
    try:
        yield soak
    finally:
        soak.close()


def test_a_fault_of_each_kind_loses_and_doubles_nothing(soak: KillSoak) -> None:
    """`python -m tests.bench.cluster_kills` has a hundred rounds."""
    soak.start()
    for number, fault in enumerate(soak.faults):
        soak.round(fault, number % 3 + 1)
    soak.finish()
