"""The client with real brokers: Apache Kafka, kcli's own, and librdkafka's mock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.client.offset_lookup import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    EpochEnd,
    epochs_request,
    list_offsets,
    read_epochs,
)
from kcli.client.requests import ask_any
from kcli.client.routing import GROUP, ask_coordinator, ask_leaders, find_coordinators
from kcli.error_codes import ErrorCode
from kcli.errors import UnsupportedVersion
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.registry import ApiKey
from kcli.structs import TopicPartition
from tests.real_kafka import Kafka


def client_of(bootstrap: str) -> ConsumerNetworkClient:
    return connect(ClientConfig.from_properties({"bootstrap.servers": bootstrap}))


@pytest.fixture
def client(any_kafka: Kafka) -> Iterator[ConsumerNetworkClient]:
    with client_of(any_kafka.bootstrap_servers) as client:
        yield client


@pytest.fixture
def mock_broker() -> Iterator[str]:
    """Bootstrap servers of librdkafka's mock cluster of three brokers, which lives as long as its producer."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    producer = confluent_kafka.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 3})
    brokers = producer.list_topics(timeout=20).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    del producer


def soon(client: ConsumerNetworkClient, seconds: float = 30) -> float:
    return client.clock.now_ms() + 1_000 * seconds


def test_a_real_broker_needs_one_connection(client: ConsumerNetworkClient, any_kafka: Kafka) -> None:
    cluster = client.ensure_fresh_metadata(soon(client))
    (node,) = cluster.nodes.values()
    assert f"{node.host}:{node.port}" == any_kafka.bootstrap_servers
    assert cluster.controller == node
    versions = client.negotiated(node.id)
    assert versions is not None
    assert versions[ApiKey.METADATA][1] >= 12


def test_topics_by_name_and_id(client: ConsumerNetworkClient, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic(partitions=3)
    found = client.topics_metadata([name, "no-such-topic"], soon(client)).topics
    assert sorted(found[name].partitions) == [0, 1, 2]
    assert found["no-such-topic"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.metadata.topic_id(name) is not None
    assert "no-such-topic" not in client.topics_metadata(None, soon(client)).topics


def test_metadata_of_a_topic_created_a_moment_ago(client: ConsumerNetworkClient, any_kafka: Kafka) -> None:
    name = any_kafka.new_name()
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1)], timeout_ms=30_000
    )
    (result,) = ask_any(client, request, soon(client)).topics
    assert result.error_code == 0
    assert client.topics_metadata([name], soon(client)).topics[name].error is ErrorCode.NONE


def test_offsets_by_time_and_ends_of_epochs(client: ConsumerNetworkClient, any_kafka: Kafka) -> None:
    name = any_kafka.new_topic(partitions=2)
    producer = any_kafka.ordered_producer()
    for number in range(10):
        producer.produce(name, b"v", partition=0, timestamp=1_600_000_000_000 + 1_000 * number)
    producer.flush(30)
    full, empty, missing = (TopicPartition(name, n) for n in (0, 1, 7))

    def offsets(timestamp: int) -> dict[TopicPartition, tuple[int, int]]:
        found = list_offsets(client, dict.fromkeys((full, empty, missing), timestamp), soon(client))
        assert list(found.errors) == [missing]
        return {tp: (value.offset, value.timestamp_ms) for tp, value in found.values.items()}

    assert offsets(EARLIEST) == {full: (0, -1), empty: (0, -1)}
    assert offsets(LATEST) == {full: (10, -1), empty: (0, -1)}
    assert offsets(MAX_TIMESTAMP) == {full: (9, 1_600_000_009_000), empty: (-1, -1)}
    assert offsets(1_600_000_003_500) == {full: (4, 1_600_000_004_000), empty: (-1, -1)}
    epochs = {full: 0, empty: 0}
    ends = ask_leaders(
        client, epochs, lambda _node, tps: epochs_request(client.metadata, epochs), read_epochs, soon(client)
    )
    assert ends.values == {full: EpochEnd(0, 10), empty: EpochEnd(0, 0)}


def test_coordinator_lookup_and_a_request_to_the_coordinator(client: ConsumerNetworkClient, any_kafka: Kafka) -> None:
    groups = [any_kafka.new_name("g") for _ in range(3)]
    found = find_coordinators(client, groups, GROUP, soon(client))
    assert sorted(found.values) == sorted(groups)
    answer = ask_coordinator(client, groups[0], DeleteGroupsRequest(groups_names=groups[:1]), soon(client))
    assert [ErrorCode.of(r.error_code) for r in answer.results] == [ErrorCode.GROUP_ID_NOT_FOUND]


def test_a_mock_broker_with_an_undecodable_apiversions_response_is_used(mock_broker: str) -> None:
    with client_of(mock_broker) as client:
        cluster = client.topics_metadata([], soon(client))
        assert len(cluster.nodes) == 3
        with pytest.raises(UnsupportedVersion, match="does not support ListGroups"):
            ask_any(client, ListGroupsRequest(), soon(client))
