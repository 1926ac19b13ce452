"""Facts of a cluster: each failed request is a failure of its fact, and the others are still requested."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.admin.health.inspection import inspect_cluster
from kcli.admin.health.inventory import BROKERS, DISKS, TOPIC_SETTINGS, TOPICS, VERSIONS, Inventory, LogDir
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from kcli.protocol.messages.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
from kcli.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kcli.protocol.registry import ApiKey
from kcli.protocol.wire import Message
from tests.client.fake_cluster import Answer, FakeCluster
from tests.network.memory import MemoryPeer

DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def always(response: Message) -> Answer:
    return lambda _peer, _request, _version: response


def cluster(**answers: Message) -> FakeCluster:
    """Two brokers; `answers` are responses by the name of the API."""
    fake = FakeCluster("a:9092", "b:9092")
    fake.answers[ApiKey.DESCRIBE_CLUSTER] = always(DescribeClusterResponse())
    fake.answers |= {ApiKey[name.upper()]: always(response) for name, response in answers.items()}
    return fake


def inspect(fake: FakeCluster, *facts: str) -> Inventory:
    with fake.connect("a:9092") as client:
        return inspect_cluster(client, client.clock.now_ms() + 30_000, facts=facts)


def test_fenced_brokers_are_known_and_not_live() -> None:
    brokers = [
        DescribeClusterBroker(broker_id=2, host="b", port=9092),
        DescribeClusterBroker(broker_id=7, host="c", port=9092, is_fenced=True),
    ]
    seen = inspect(cluster(describe_cluster=DescribeClusterResponse(cluster_id="c", brokers=brokers)), BROKERS)
    assert [(broker.id, broker.fenced) for broker in seen.brokers] == [(2, False), (7, True)]
    assert seen.live == {2}
    assert seen.failures == ()


def test_without_a_description_the_brokers_are_those_of_the_metadata() -> None:
    seen = inspect(cluster(describe_cluster=DescribeClusterResponse(error_code=DENIED)), BROKERS)
    assert [broker.id for broker in seen.brokers] == [1, 2]
    assert [failure.fact for failure in seen.failures] == [BROKERS]


def test_a_broker_that_does_not_answer_is_unreachable_and_asked_nothing_else() -> None:
    fake = cluster(describe_log_dirs=DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/data")]))
    fake.selector.refuse("b:9092")
    seen = inspect(fake, DISKS, VERSIONS)
    assert list(seen.unreachable) == [2]
    assert (list(seen.versions), list(seen.log_dirs)) == ([1], [1])
    assert seen.failures == ()
    assert seen.errors == [seen.unreachable[2]]


def test_directories_have_the_sum_of_their_logs() -> None:
    partitions = [DescribeLogDirsPartition(partition_index=n, partition_size=5) for n in (0, 1)]
    topics = [DescribeLogDirsTopic(name="t", partitions=partitions)]
    results = [
        DescribeLogDirsResult(log_dir="/a", topics=topics, total_bytes=100, usable_bytes=60),
        DescribeLogDirsResult(log_dir="/b", error_code=ErrorCode.KAFKA_STORAGE_ERROR),
    ]
    good, failed = inspect(cluster(describe_log_dirs=DescribeLogDirsResponse(results=results)), DISKS).log_dirs[1]
    assert good == LogDir("/a", 10, 100, 60)
    assert isinstance(failed.error, BrokerError)


@pytest.mark.parametrize("response", [DescribeLogDirsResponse(error_code=DENIED), DescribeLogDirsResponse()])
def test_refused_directories_are_a_failure_of_each_broker(response: Message) -> None:
    """Before Kafka 3.2, the response to a client without the right has no directory and no error."""
    seen = inspect(cluster(describe_log_dirs=response), DISKS)
    assert [(it.fact, it.where) for it in seen.failures] == [(DISKS, "broker 1"), (DISKS, "broker 2")]
    assert {str(it.error) for it in seen.failures} == {
        "CLUSTER_AUTHORIZATION_FAILED: DESCRIBE on the cluster is denied"
    }
    assert seen.log_dirs == {}


def test_an_error_of_a_topic_is_a_failure_and_the_other_topics_are_known() -> None:
    def settings(_peer: MemoryPeer, request: Any, _version: int) -> Message:
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    resource_type=2, resource_name=it.resource_name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
                for it in request.resources
            ]
        )

    fake = cluster()
    fake.answers[ApiKey.DESCRIBE_CONFIGS] = settings
    fake.topics["good"] = {0: (1, 0)}
    fake.topic_errors["bad"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    seen = inspect(fake, TOPICS, TOPIC_SETTINGS)
    assert list(seen.topics) == ["good"]
    assert (TOPIC_SETTINGS, "good") in [(failure.fact, failure.where) for failure in seen.failures]
