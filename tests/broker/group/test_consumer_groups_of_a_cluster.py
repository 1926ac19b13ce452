"""Consumer groups (KIP-848) on nodes of a cluster: settings come from the controller, and coordinators move."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from kcli.broker.testing.embedded_cluster import EmbeddedCluster
from kcli.client.config import ConsumerConfig
from kcli.consumer.consumer import Consumer
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from kcli.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.wire import Wire

pytestmark = pytest.mark.slow

GROUP, GROUP_CONFIG = "readers", 32
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "4",
}
PATIENCE_S = 60


def member(cluster: EmbeddedCluster) -> Consumer:
    properties = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP, "group.protocol": "consumer"}
    consumer = Consumer.from_config(ConsumerConfig.from_properties(properties))
    consumer.subscribe(pattern="ord.*")
    return consumer


def poll_until(members: list[Consumer], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, members
        for one in members:
            one.poll(50)


def shares(members: list[Consumer]) -> list[int]:
    return sorted(len(one.subscription.partitions()) for one in members)


def coordinator(cluster: EmbeddedCluster) -> Coordinator:
    node = next(node for node in cluster.nodes.values() if node.is_running)
    with Wire(node.bootstrap_servers) as wire:
        return wire.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), 4).coordinators[0]


def described(node: Coordinator) -> DescribedGroup:
    with Wire(f"{node.host}:{node.port}") as wire:
        return wire.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1).groups[0]


def test_a_group_survives_the_death_of_its_coordinator() -> None:
    with EmbeddedCluster(3, **{name.replace(".", "_"): value for name, value in SETTINGS.items()}) as cluster:
        setting = AlterableConfig(name="consumer.heartbeat.interval.ms", config_operation=0, value="200")
        resource = AlterConfigsResource(resource_type=GROUP_CONFIG, resource_name=GROUP, configs=[setting])
        with Wire(cluster.nodes[1].bootstrap_servers) as wire:
            topic = CreatableTopic(name="orders", num_partitions=4, replication_factor=3)
            assert wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0].error_code == 0
            assert wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code == 0
        members = [member(cluster), member(cluster)]
        poll_until(members, lambda: shares(members) == [2, 2])
        before = coordinator(cluster)
        epoch = described(before).group_epoch

        cluster.kill(before.node_id)
        members.append(member(cluster))
        poll_until(members, lambda: shares(members) == [1, 1, 2])

        after = coordinator(cluster)
        assert after.node_id != before.node_id
        group = described(after)
        assert (group.error_code, len(group.members), group.group_epoch) == (0, 3, epoch + 1)
        assert {one.subscribed_topic_regex for one in group.members} == {"ord.*"}
        for one in members:
            one.close()
