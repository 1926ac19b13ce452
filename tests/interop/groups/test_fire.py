"""Rebalances under fire, some seconds of them; minutes are in tests/bench/rebalance_storm.py."""

from __future__ import annotations

import os

from tests.interop.groups.storm import Storm
from tests.real_kafka import Kafka

SECONDS = 12


def fight(kafka: Kafka, assignor: str) -> None:
    seed = int(os.environ.get("KCLI_STORM_SEED", "4"))
    blows: list[str] = []
    with Storm(kafka, assignor=assignor, seed=seed, session_ms=3_000, tell=blows.append) as storm:
        storm.run(SECONDS)
        account = storm.finish(strict=frozenset({"kcli"}))
    assert account.members >= 3, blows
    assert account.commits > 50, account
    assert len(storm.rests) >= 4, blows


def test_eager_members_under_fire(our_kafka: Kafka) -> None:
    fight(our_kafka, "range")


def test_cooperative_members_under_fire(real_kafka: Kafka) -> None:
    fight(real_kafka, "cooperative-sticky")
