"""Our assignors against Kafka's classes on five thousand groups, and subscriptions read by the other implementation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.assignors.lookup import STRATEGIES
from kcli.assignors.model import Member
from kcli.protocol.consumer_protocol import by_topic, decode_subscription
from kcli.structs import TopicPartition
from tests.assignors.cases import features, make_cases
from tests.interop.assignors.compare import compare
from tests.interop.assignors.oracle import Oracle, blob
from tests.needs import SUMMARY

pytestmark = pytest.mark.slow

CASES = 5_000


@pytest.fixture(scope="module")
def oracle(kafka_jars: Path) -> Iterator[Oracle]:
    with Oracle(kafka_jars) as running:
        yield running


def test_five_thousand_groups_are_assigned_as_kafka_does(
    oracle: Oracle, record_property: Callable[[str, object], None]
) -> None:
    """All four assignors; with racks, static members, stale generations, double claims, unequal subscriptions."""
    cases = list(make_cases(CASES, seed=20261121))
    standing = compare(oracle, cases)
    assert not standing.wrong, "\n".join(standing.wrong[:3])
    assert standing.same >= CASES * 0.9
    assert standing.same + standing.by_hash + standing.at_fault == CASES
    counts = Counter(feature for case in cases for feature in features(case))
    assert len(counts) == 5
    assert min(counts.values()) >= CASES * 0.05, counts
    kinds = ", ".join(f"{count} with {feature}" for feature, count in sorted(counts.items()))
    record_property(SUMMARY, f"{CASES} groups under {len(STRATEGIES)} assignors beside Kafka's classes: {kinds}")


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize(("owned", "generation"), [((0, 1, 2), 7), ((), 7), ((), -1)])
def test_a_java_member_and_ours_send_equal_subscriptions(
    oracle: Oracle, name: str, owned: tuple[int, ...], generation: int
) -> None:
    strategy = STRATEGIES[name]
    had = tuple(TopicPartition("orders", p) for p in owned)
    asked: dict[str, Any] = {"subscribe": ["orders"], "strategy": name, "owned": had, "generation": generation}
    (answer,) = oracle.ask([{**asked, "rack": "r1"}])
    java = bytes.fromhex(answer["blob"])
    assert java == blob(strategy, Member("m", frozenset({"orders"}), had, generation, "r1"))
    member = strategy.member("m-1", decode_subscription(java), "i-1")
    remembered = had if name in ("sticky", "cooperative-sticky") else ()
    assert member == Member("m-1", frozenset({"orders"}), remembered, generation, "r1", "i-1")
    assert decode_subscription(java).owned_partitions == (by_topic(had) if strategy.cooperative else [])
