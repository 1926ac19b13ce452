"""A short rebalance storm with one event of each kind; tests/bench/rebalance_storm.py runs ten minutes of random
events.
"""

from __future__ import annotations

import os

import pytest

from tests.interop.groups.storm import Storm
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow


def fight(kafka: Kafka, assignor: str) -> None:
    seed = int(os.environ.get("KCLI_STORM_SEED", "4"))
    result: list[str] = []
    with Storm(kafka, assignor=assignor, seed=seed, session_ms=3_000, tell=result.append) as storm:
        storm.begin()
        storm.strike("stop", "join")  # beyond the session: the group rests without it
        storm.strike("resume", "nap")
        storm.strike("kill", "join")
        storm.strike("leave")
        account = storm.finish(strict=frozenset({"kcli"}))
    assert account.members == 5, result
    assert account.records > 12_000, account
    assert account.commits > 50, account


def test_eager_members_lose_no_record_in_a_storm(our_kafka: Kafka) -> None:
    fight(our_kafka, "range")


def test_cooperative_members_lose_no_record_in_a_storm(real_kafka: Kafka) -> None:
    fight(real_kafka, "cooperative-sticky")
