"""Produce and Fetch to a broker that does not lead the partition: the answer has the leader and its address (KIP-951).

Apache Kafka 4.3.1 does so from Produce v10 (error 6) and Fetch v16 (errors 6 and 74) on.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcli.broker.cluster.view import ClusterView
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.node.images import broker_record, image_of, partition_record, topic_records
from tests.broker.rig import Rig, batch

NOT_LEADER = 6


@pytest.fixture
def rig() -> Rig:
    """Broker 1, which leads neither t-0 (broker 2 does, in epoch 7) nor t-1 (broker 3, which is fenced)."""
    rig = Rig()
    id = rig.topic("t", 2)
    for number in (0, 1):
        rig.partition("t", number).is_leader = False
    records = [
        *topic_records("t", id),
        partition_record(id, 0, [2, 1], leader_epoch=7),
        partition_record(id, 1, [3, 1], leader_epoch=8),
        broker_record(1),
        broker_record(2, rack="b"),
        broker_record(3, fenced=True),
    ]
    rig.cluster = ClusterView(image_of(*records), rig.config, "c1", rig.clock, lambda request, done: None)
    return rig


def leaders(rows: list[Any]) -> list[tuple[int, int, int]]:
    return [(row.error_code, row.current_leader.leader_id, row.current_leader.leader_epoch) for row in rows]


def addresses(response: Any) -> list[tuple[int, str, int, str | None]]:
    return [(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]


def produced(rig: Rig, version: int) -> Any:
    data = [PartitionProduceData(index=number, records=batch("a")) for number in (0, 1)]
    return rig.ask(
        ProduceRequest(acks=1, timeout_ms=100, topic_data=[TopicProduceData(name="t", partition_data=data)]), version
    )


def fetched(rig: Rig, version: int) -> Any:
    id = rig.partition("t").topic_id
    partitions = [FetchPartition(partition=number, partition_max_bytes=1000) for number in (0, 1)]
    request = FetchRequest(
        max_wait_ms=0, max_bytes=1000, topics=[FetchTopic(topic="t", topic_id=id, partitions=partitions)]
    )
    return rig.ask(request, version)


def test_produce_has_the_leaders_and_the_addresses_of_live_ones_from_v10(rig: Rig) -> None:
    response = produced(rig, 10)
    assert leaders(response.responses[0].partition_responses) == [(NOT_LEADER, 2, 7), (NOT_LEADER, 3, 8)]
    assert addresses(response) == [(2, "127.0.0.1", 9092, "b")]
    before = produced(rig, 9)
    assert leaders(before.responses[0].partition_responses) == [(NOT_LEADER, -1, -1)] * 2
    assert before.node_endpoints == []


def test_fetch_has_the_leaders_and_the_addresses_of_live_ones_from_v16(rig: Rig) -> None:
    response = fetched(rig, 16)
    assert leaders(response.responses[0].partitions) == [(NOT_LEADER, 2, 7), (NOT_LEADER, 3, 8)]
    assert addresses(response) == [(2, "127.0.0.1", 9092, "b")]
    before = fetched(rig, 15)
    assert leaders(before.responses[0].partitions) == [(NOT_LEADER, -1, -1)] * 2
    assert before.node_endpoints == []


def test_a_partition_that_the_cluster_has_no_longer_has_no_leader(rig: Rig) -> None:
    rig.cluster = ClusterView(image_of(broker_record(2)), rig.config, "c1", rig.clock, lambda request, done: None)
    response = fetched(rig, 16)
    assert leaders(response.responses[0].partitions) == [(NOT_LEADER, -1, -1)] * 2
    assert response.node_endpoints == []
