"""A node at the controller of Apache Kafka: it joins, is seen by clients, forwards, leaves and comes back."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.cluster.features import SUPPORTED_FEATURES
from kcli.broker.node.lifecycle import State
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.error_codes import ErrorCode
from kcli.errors import KcliError
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionRequest, TopicRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.wire import Wire
from tests.real_kafka import CLUSTER_ID, KafkaNode


@pytest.fixture(scope="module")
def controller(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    """A real broker and controller in one process, node 1, which writes snapshots often."""
    settings = {"metadata.log.max.record.bytes.between.snapshots": "4000"}
    node = KafkaNode(tmp_path_factory.mktemp("real"), kafka_jars, settings=settings)
    node.start()
    yield node
    node.kill()


@pytest.fixture(scope="module")
def node(controller: KafkaNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Node 2, of kcli; tests that stop a node have another one."""
    with own_node(controller, tmp_path_factory.mktemp("node-2"), 2) as broker:
        yield broker


def own_node(controller: KafkaNode, folder: Path, node_id: int) -> EmbeddedBroker:
    return EmbeddedBroker(
        folder,
        process_roles="broker",
        node_id=node_id,
        controller_quorum_bootstrap_servers=f"127.0.0.1:{controller.ports['CONTROLLER']}",
        broker_heartbeat_interval_ms=500,
        broker_session_timeout_ms=3000,
    )


def ask(address: str, request: Any, version: int) -> Any:
    with Wire(address) as wire:
        return wire.ask(request, version)


def until(condition: Callable[[], Any], timeout_s: float = 20) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.02)
    return value


def brokers_at(address: str) -> dict[int, int]:
    """Return the ports of the brokers in the metadata of one of them."""
    return {one.node_id: one.port for one in ask(address, MetadataRequest(topics=[]), 12).brokers}


def leader_of(address: str, topic: str) -> tuple[int, list[int]] | None:
    """Return leader and in-sync replicas of partition 0; None while the broker does not know the topic."""
    answer = ask(address, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    for partition in answer.topics[0].partitions:
        return partition.leader_id, sorted(partition.isr_nodes)
    return None


def create(address: str, name: str, replicas: list[int]) -> None:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=[assignment])
    [row] = ask(address, CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics
    assert row.error_code == 0, row


def test_a_node_joins_and_both_brokers_show_both(controller: KafkaNode, node: EmbeddedBroker) -> None:
    expected = {1: controller.port, 2: int(node.address.partition(":")[2])}
    assert brokers_at(node.address) == expected
    assert until(lambda: brokers_at(controller.bootstrap_servers) == expected)
    assert node.call(lambda broker: broker.cluster.cluster_id) == CLUSTER_ID
    versions = ask(node.address, ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    assert {one.name for one in versions.finalized_features} == set(SUPPORTED_FEATURES)
    assert {one.name for one in versions.supported_features} == set(SUPPORTED_FEATURES)


def test_requests_of_administrators_are_forwarded(controller: KafkaNode, node: EmbeddedBroker) -> None:
    create(node.address, "forwarded", [2, 1])
    assert until(lambda: leader_of(node.address, "forwarded") == (2, [1, 2]))
    quorum = TopicRequest(topic_name="__cluster_metadata", partitions=[PartitionRequest()])
    [topic] = ask(node.address, DescribeQuorumRequest(topics=[quorum]), 2).topics
    assert topic.partitions[0].leader_id == 1
    assert 2 in [one.replica_id for one in topic.partitions[0].observers]


def test_producer_ids_are_those_of_the_controller(controller: KafkaNode, node: EmbeddedBroker) -> None:
    def new_id(address: str) -> int:
        request = InitProducerIdRequest(transactional_id=None, producer_id=-1, producer_epoch=-1)
        answer = until(lambda: _without_load(ask(address, request, 4)))
        assert answer.error_code == 0
        return int(answer.producer_id)

    ours, theirs = [new_id(node.address) for _ in range(2)], new_id(controller.bootstrap_servers)
    assert ours[1] == ours[0] + 1
    assert ours[0] // 1000 != theirs // 1000  # blocks of their own


def _without_load(answer: Any) -> Any:
    return None if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else answer


def test_a_controlled_shutdown_moves_the_leaderships_and_the_node_comes_back(
    controller: KafkaNode, tmp_path: Path
) -> None:
    with own_node(controller, tmp_path, 3) as node:
        create(node.address, "moved", [3, 1])
        assert until(lambda: leader_of(node.address, "moved") == (3, [1, 3]))
        epoch = node.call(lambda broker: broker.node.epoch)
        node.stop()
        assert leader_of(controller.bootstrap_servers, "moved") == (1, [1])
        assert f'"brokerEpoch":{epoch}' in (tmp_path / ".kafka_cleanshutdown").read_text()

        node.start()
        assert node.call(lambda broker: broker.node.epoch) > epoch
        assert until(lambda: leader_of(node.address, "moved") == (1, [1, 3]))


def test_after_a_crash_the_node_waits_for_the_end_of_its_old_session(controller: KafkaNode, tmp_path: Path) -> None:
    """Trap: the metadata still says that the node leads; it must not act upon that."""
    with own_node(controller, tmp_path, 4) as node:
        create(node.address, "crashed", [4])
        assert until(lambda: leader_of(node.address, "crashed") == (4, [4]))
        node.kill()
        node.start()
        assert node.call(lambda broker: broker.node.lifecycle.state) is State.RUNNING
        assert until(lambda: leader_of(node.address, "crashed") == (4, [4]))


def test_a_node_with_a_new_disk_leads_its_partitions_again(controller: KafkaNode, tmp_path: Path) -> None:
    with own_node(controller, tmp_path, 7) as node:
        create(node.address, "replaced", [7])
        assert until(lambda: leader_of(node.address, "replaced") == (7, [7]))
        node.kill()
        shutil.rmtree(tmp_path)
        node.start()
        assert until(lambda: leader_of(node.address, "replaced") == (7, [7]))


def test_a_node_that_joins_late_reads_a_snapshot(controller: KafkaNode, node: EmbeddedBroker, tmp_path: Path) -> None:
    create(node.address, "before-the-snapshot", [1])
    folder = controller.data / "__cluster_metadata-0"

    def snapshots() -> list[int]:
        return [int(path.name[:20]) for path in folder.glob("*-*.checkpoint")]

    offset = node.call(lambda broker: broker.node.image.offset)
    for number in range(1000):
        if max(snapshots(), default=0) > offset:
            break
        create(node.address, f"filling-{number}", [1])
    with own_node(controller, tmp_path, 6) as late:
        assert leader_of(late.address, "before-the-snapshot") == (1, [1])
        assert late.call(lambda broker: broker.node.observer.snapshots) == 1


def test_a_directory_of_another_cluster_is_refused(controller: KafkaNode, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=5\ncluster.id=AAAAAAAAAAAAAAAAAAAAAg\n")
    with pytest.raises(KcliError, match="INCONSISTENT_CLUSTER_ID"), own_node(controller, tmp_path, 5):
        pass


def test_a_restarted_controller_needs_no_new_registration(controller: KafkaNode, node: EmbeddedBroker) -> None:
    epoch = node.call(lambda broker: broker.node.epoch)
    controller.kill()
    assert 1 in brokers_at(node.address)
    controller.start()
    create(node.address, "later", [2])
    assert until(lambda: leader_of(node.address, "later") == (2, [2]))
    assert node.call(lambda broker: broker.node.epoch) == epoch
