"""Stories of quotas: clients that produce and fetch too much, and throttled replicas (KIP-13, KIP-73, KIP-219)."""

from __future__ import annotations

import pytest

from kcli.broker.cluster.config_entries import broker_entries
from kcli.broker.cluster.dynamic_config import DynamicConfig
from kcli.broker.config import BrokerConfig
from kcli.broker.log.log_config import LogConfig
from kcli.protocol import metadata_records as records
from kcli.structs import TopicPartition
from tests.broker.replication.leader_rig import LeaderRig, fetched, produced

BIG = "x" * 5000


@pytest.fixture
def rig() -> LeaderRig:
    rig = LeaderRig()
    rig.new_topic(replicas=[1])
    return rig


def quota(key: str, value: float, user: str | None = "ANONYMOUS", *, remove: bool = False) -> records.ClientQuotaRecord:
    entity = records.EntityData(entity_type="user", entity_name=user)
    return records.ClientQuotaRecord(entity=[entity], key=key, value=value, remove=remove)


class TestClients:
    def test_a_producer_over_its_quota_is_answered_and_then_not_read(self, rig: LeaderRig) -> None:
        rig.publish(quota("producer_byte_rate", 100.0))
        answer = rig.produce(BIG)
        assert produced(answer).error_code == 0
        wait_ms = answer.value.throttle_time_ms
        assert wait_ms > 10_000
        assert rig.server.waits == [("c1", wait_ms)]

    def test_acks_zero_has_no_answer_but_is_throttled(self, rig: LeaderRig) -> None:
        rig.publish(quota("producer_byte_rate", 100.0))
        assert rig.produce(BIG, acks=0).value is None
        assert len(rig.server.waits) == 1

    def test_a_producer_within_its_quota_is_not(self, rig: LeaderRig) -> None:
        rig.publish(quota("producer_byte_rate", 1e6))
        assert rig.produce(BIG).value.throttle_time_ms == 0
        assert rig.server.waits == []

    def test_a_consumer_over_its_quota_gets_no_records_until_its_time(self, rig: LeaderRig) -> None:
        rig.produce(BIG)
        rig.publish(quota("consumer_byte_rate", 100.0))
        answer = rig.consume(0)
        wait_ms = answer.value.throttle_time_ms
        assert (answer.value.responses, wait_ms > 10_000) == ([], True)
        assert rig.server.waits == [("c1", wait_ms)]

    def test_a_consumer_gets_what_its_quota_allows_in_a_burst(self, rig: LeaderRig) -> None:
        for _ in range(3):
            rig.produce(BIG)
        rig.publish(quota("consumer_byte_rate", 600.0))
        row = fetched(rig.consume(0))
        assert 5000 < len(row.records or b"") <= 6000

    def test_replicas_are_not_clients(self) -> None:
        rig = LeaderRig()
        rig.new_topic()
        rig.produce(BIG, acks=1)
        rig.publish(quota("consumer_byte_rate", 100.0))
        assert fetched(rig.replicate(2, 0)).records

    def test_without_quotas_nothing_is_measured(self, rig: LeaderRig) -> None:
        rig.publish(quota("producer_byte_rate", 100.0))
        assert rig.replica_manager.client_quotas is not None
        rig.publish(quota("producer_byte_rate", 0.0, remove=True))
        assert rig.replica_manager.client_quotas is None
        assert rig.produce(BIG).value.throttle_time_ms == 0


class TestReplicas:
    @pytest.fixture
    def rig(self) -> LeaderRig:
        rig = LeaderRig()
        rig.new_topic(isr=[1, 2])
        for setting, kind, name, value in (
            ("leader.replication.throttled.rate", 4, "1", "100"),
            ("leader.replication.throttled.replicas", 2, "t", "0:1"),
        ):
            rig.publish(records.ConfigRecord(resource_type=kind, resource_name=name, name=setting, value=value))
        rig.produce(BIG, acks=1)
        return rig

    def test_a_throttled_follower_waits_and_goes_on_later(self, rig: LeaderRig) -> None:
        assert fetched(rig.replicate(3, 0)).records
        waiting = rig.replicate(3, 0)
        assert not waiting.is_there
        rig.produce("more", acks=1)
        assert not waiting.is_there, "records that it does not get would make it fetch without a pause"
        rig.wait(510)
        assert fetched(waiting).records == b""
        rig.wait(11_000)
        assert fetched(rig.replicate(3, 0)).records

    def test_a_throttled_follower_waits_in_an_older_segment_too(self, rig: LeaderRig) -> None:
        """As in Apache Kafka: an older segment does not grow, but a throttled replica gets nothing of it either."""
        rig.partition("t").log.config = LogConfig(segment_bytes=6000)
        for _ in range(3):
            rig.produce(BIG, acks=1)
        assert fetched(rig.replicate(3, 0)).records
        waiting = rig.replicate(3, 1)
        assert not waiting.is_there, "an empty answer would make it fetch again without a pause"
        rig.produce(BIG, acks=1)
        assert not waiting.is_there
        rig.wait(510)
        assert fetched(waiting).records == b""
        rig.wait(300_000)
        assert fetched(rig.replicate(3, 1)).records

    def test_an_in_sync_follower_is_not_throttled(self, rig: LeaderRig) -> None:
        for _ in range(2):
            assert fetched(rig.replicate(2, 0)).records

    def test_without_a_rate_nothing_is_throttled(self, rig: LeaderRig) -> None:
        rate = "leader.replication.throttled.rate"
        rig.publish(records.ConfigRecord(resource_type=4, resource_name="1", name=rate, value=None))
        for _ in range(2):
            assert fetched(rig.replicate(3, 0)).records


class TestThisReplica:
    @pytest.fixture
    def rig(self) -> LeaderRig:
        rig = LeaderRig()
        rig.new_topic(replicas=[2, 1], isr=[2])
        for setting, kind, name, value in (
            ("follower.replication.throttled.rate", 4, "", "100"),
            ("follower.replication.throttled.replicas", 2, "t", "*"),
        ):
            rig.publish(records.ConfigRecord(resource_type=kind, resource_name=name, name=setting, value=value))
        return rig

    def wait_ms(self, rig: LeaderRig, size: int) -> float:
        assert rig.fetchers.throttle is not None
        return rig.fetchers.throttle(TopicPartition("t", 0), size)

    def test_it_waits_after_too_many_bytes(self, rig: LeaderRig) -> None:
        assert self.wait_ms(rig, 1000) == 0
        assert self.wait_ms(rig, 1000) == 10_000

    def test_it_does_not_wait_while_it_is_in_sync(self, rig: LeaderRig) -> None:
        rig.change(isr=[2, 1])
        assert self.wait_ms(rig, 9999) == 0

    def test_it_does_not_wait_without_a_rate(self, rig: LeaderRig) -> None:
        rate = "follower.replication.throttled.rate"
        rig.publish(records.ConfigRecord(resource_type=4, resource_name="", name=rate, value=None))
        assert self.wait_ms(rig, 9999) == 0


def test_a_rate_is_described_while_it_is_set() -> None:
    """As by Apache Kafka: kafka-reassign-partitions sets and clears it, and it has no default to show."""
    rate = "leader.replication.throttled.rate"
    dynamic = DynamicConfig(BrokerConfig.from_properties({"node.id": "1"}), {})
    assert rate not in {one.name for one in broker_entries(dynamic)}
    dynamic.follow({"1": {rate: "100"}})
    assert {one.name: one.value for one in broker_entries(dynamic)}[rate] == "100"
