"""Byte rates over windows, quotas of clients by their entities, and quotas of replication (KIP-13, KIP-73)."""

from __future__ import annotations

import pytest

from kcli.broker.quotas import (
    FETCH_RATE,
    NO_LIMIT,
    PRODUCE_RATE,
    ClientQuotas,
    Entity,
    Rate,
    ReplicationQuota,
    Windows,
)

WINDOWS = Windows()
ALICE = "User:alice"


class TestRate:
    def test_it_is_measured_over_ten_seconds_at_least(self) -> None:
        rate = Rate(WINDOWS)
        rate.record(10_000, 0)
        assert rate.per_second(0) == 1000
        assert rate.per_second(9_999) == pytest.approx(1000, rel=0.1)

    def test_windows_are_forgotten(self) -> None:
        rate = Rate(WINDOWS)
        rate.record(10_000, 0)
        assert rate.per_second(11_000) == 0

    def test_the_wait_brings_it_back_to_the_limit(self) -> None:
        """Kafka's formula: 20,000 bytes of 1000/s in 10 s are an excess of 10 s."""
        rate = Rate(WINDOWS)
        rate.record(20_000, 0)
        assert rate.wait_ms(1000, 0) == 10_000
        assert rate.wait_ms(2000, 0) == 0

    def test_a_limit_of_nothing_waits_for_all_windows(self) -> None:
        rate = Rate(WINDOWS)
        rate.record(1, 0)
        assert rate.wait_ms(0, 0) == 10_000

    def test_one_window_is_enough(self) -> None:
        rate = Rate(Windows(1, 1000))
        rate.record(500, 0)
        assert rate.per_second(0) == 500


LIMITS: dict[Entity, dict[str, float]] = {
    (("client-id", "app"), ("user", "alice")): {PRODUCE_RATE: 1},
    (("client-id", None), ("user", "alice")): {PRODUCE_RATE: 2},
    (("user", "alice"),): {PRODUCE_RATE: 3, FETCH_RATE: 30},
    (("client-id", "app"), ("user", None)): {PRODUCE_RATE: 4},
    (("client-id", None), ("user", None)): {PRODUCE_RATE: 5},
    (("user", None),): {PRODUCE_RATE: 6},
    (("client-id", "app"),): {PRODUCE_RATE: 7},
    (("client-id", None),): {PRODUCE_RATE: 8},
}


class TestClientQuotas:
    def test_the_most_specific_entity_counts(self) -> None:
        """The order of KIP-55: user before client id, names before defaults."""
        limits = dict(LIMITS)
        found = []
        while limits:
            found.append(ClientQuotas(WINDOWS, limits).limit(PRODUCE_RATE, ALICE, "app"))
            del limits[next(iter(limits))]
        assert found == [1, 2, 3, 4, 5, 6, 7, 8]

    def test_an_entity_without_this_quota_does_not_count(self) -> None:
        quotas = ClientQuotas(WINDOWS, LIMITS)
        assert quotas.limit(FETCH_RATE, ALICE, "app") == 30
        assert quotas.limit(FETCH_RATE, "User:bob", "app") == NO_LIMIT

    def test_clients_share_the_rate_of_their_user(self) -> None:
        quotas = ClientQuotas(WINDOWS, {(("user", "alice"),): {PRODUCE_RATE: 100.0}})
        assert quotas.throttle_ms(PRODUCE_RATE, ALICE, "a", 1000, 0) == 0
        assert quotas.throttle_ms(PRODUCE_RATE, ALICE, "b", 1000, 0) == 10_000
        assert quotas.throttle_ms(PRODUCE_RATE, "User:bob", "b", 9999, 0) == 0

    def test_each_user_has_its_own_rate_under_the_default(self) -> None:
        quotas = ClientQuotas(WINDOWS, {(("user", None),): {PRODUCE_RATE: 100.0}})
        assert quotas.throttle_ms(PRODUCE_RATE, ALICE, "a", 1000, 0) == 0
        assert quotas.throttle_ms(PRODUCE_RATE, "User:bob", "a", 1000, 0) == 0

    def test_bytes_that_were_not_sent_are_taken_back(self) -> None:
        quotas = ClientQuotas(WINDOWS, {(("user", None),): {FETCH_RATE: 100.0}})
        assert quotas.throttle_ms(FETCH_RATE, ALICE, None, 2000, 0) == 10_000
        quotas.take_back(FETCH_RATE, ALICE, None, 2000, 0)
        assert quotas.throttle_ms(FETCH_RATE, ALICE, None, 1000, 0) == 0

    def test_a_changed_quota_counts_at_once(self) -> None:
        limits: dict[Entity, dict[str, float]] = {(("user", None),): {FETCH_RATE: 100.0}}
        quotas = ClientQuotas(WINDOWS, limits)
        assert quotas.burst_bytes(ALICE, None) == 1000
        limits[(("user", None),)] = {FETCH_RATE: 200.0}
        quotas.changed()
        assert quotas.burst_bytes(ALICE, None) == 2000


class TestReplicationQuota:
    @pytest.mark.parametrize(
        ("value", "covered"),
        [(None, []), ("", []), ("*", [0, 1, 2]), ("0:1,1:2, 2:1", [0, 2]), ("1:2", [])],
    )
    def test_replicas_of_this_node_are_covered(self, value: str | None, covered: list[int]) -> None:
        quota = ReplicationQuota(WINDOWS, 1)
        quota.set_topic("t", value)
        assert [number for number in range(3) if quota.covers("t", number)] == covered

    def test_it_is_exceeded_above_the_rate_only(self) -> None:
        quota = ReplicationQuota(WINDOWS, 1)
        quota.record(10_001, 0)
        assert not quota.is_exceeded(0)
        quota.limit = 1000
        assert quota.is_exceeded(0)
        assert not quota.is_exceeded(11_000)
