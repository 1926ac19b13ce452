"""The cluster for tests: leaders move when a node dies, is paused or isolated, and acknowledged records remain."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

import pytest

import kcli
from kcli.broker.testing.embedded_cluster import EmbeddedCluster
from kcli.errors import BrokerError, KcliError
from kcli.structs import TopicPartition
from tests.limits import Limit


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as running:
        yield running


@pytest.fixture
def topic(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic with one partition on all nodes, with acks=all only while two replicas are in sync."""
    cluster.start()
    name = cluster.create_topic(request.node.name.rstrip("]").replace("[", "-"), configs={"min_insync_replicas": 2})
    yield name
    cluster.heal()
    for node in cluster.nodes:
        cluster.resume(node)
    cluster.start()
    cluster.wait_until_in_sync()


def write(cluster: EmbeddedCluster, topic: str, *values: str, via: int | None = None) -> None:
    servers = cluster.bootstrap_servers if via is None else cluster.nodes[via].address
    with kcli.Producer(bootstrap_servers=servers) as producer:
        for value in values:
            producer.send(topic, value.encode())
        producer.flush()


def read(cluster: EmbeddedCluster, topic: str) -> list[str]:
    with kcli.Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        tp = kcli.TopicPartition(topic, 0)
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        values: list[str] = []
        limit = Limit(f"{end} records of {topic}")
        while consumer.position(tp) < end:
            limit.check()
            values += [(record.value or b"").decode() for records in consumer.poll(1000).values() for record in records]
        return values


def high_watermark(cluster: EmbeddedCluster, node: int, topic: str) -> int:
    tp = TopicPartition(topic, 0)
    return cluster.nodes[node].call(lambda broker: broker.replica_manager.partition_or_error(tp).log.high_watermark)


def test_every_node_has_every_replica(cluster: EmbeddedCluster, topic: str) -> None:
    state = cluster.partition(topic)
    assert state is not None
    assert sorted(state.replicas) == sorted(state.isr) == [1, 2, 3]
    assert cluster.leader_of(topic) == state.leader
    write(cluster, topic, "a", "b")
    assert read(cluster, topic) == ["a", "b"]
    assert len(cluster.bootstrap_servers.split(",")) == 3


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_acknowledged_records_survive_the_end_of_their_leader(cluster: EmbeddedCluster, topic: str, how: str) -> None:
    write(cluster, topic, "a", "b")
    leader = cluster.leader_of(topic)
    address = cluster.nodes[leader].address
    getattr(cluster, how)(leader)
    assert cluster.leader_of(topic, other_than=leader) != leader
    write(cluster, topic, "c")
    assert read(cluster, topic) == ["a", "b", "c"]
    cluster.start(leader)
    assert cluster.nodes[leader].address == address
    cluster.wait_until_in_sync()


def test_a_paused_leader_is_replaced_and_follows_when_it_goes_on(cluster: EmbeddedCluster, topic: str) -> None:
    write(cluster, topic, "a")
    leader = cluster.leader_of(topic)
    cluster.pause(leader)
    assert cluster.leader_of(topic, other_than=leader) != leader
    write(cluster, topic, "b")
    cluster.resume(leader)
    cluster.wait_until_in_sync()
    assert read(cluster, topic) == ["a", "b"]


def test_an_isolated_leader_is_replaced_and_its_unacknowledged_records_are_lost(
    cluster: EmbeddedCluster, topic: str
) -> None:
    write(cluster, topic, "a")
    leader = cluster.leader_of(topic)
    cluster.isolate(leader)
    with kcli.Producer(bootstrap_servers=cluster.nodes[leader].address, acks=1, retries=0) as producer:
        producer.send(topic, b"lost")  # the isolated node does not know yet that it leads no longer
        producer.flush()
    successor = cluster.leader_of(topic, other_than=leader)
    write(cluster, topic, "b", via=successor)  # the isolated node would accept it, and never acknowledge it
    cluster.heal()
    cluster.wait_until_in_sync()
    assert read(cluster, topic) == ["a", "b"]
    ends = {
        number: node.call(lambda broker: broker.log_manager.logs[kcli.TopicPartition(topic, 0)].log_end_offset)
        for number, node in cluster.nodes.items()
    }
    assert ends == {1: 2, 2: 2, 3: 2}


def test_a_cluster_without_its_controller_serves_records_but_elects_no_leader(
    cluster: EmbeddedCluster, topic: str
) -> None:
    with kcli.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send(topic, b"a")
        producer.flush()
        cluster.kill_controller()  # which gives new producers their ids, unless a node has some left
        producer.send(topic, b"b")
        producer.flush()
    assert read(cluster, topic) == ["a", "b"]
    cluster.start_controller()
    leader = cluster.leader_of(topic)
    cluster.kill(leader)
    assert cluster.leader_of(topic, other_than=leader) != leader
    assert read(cluster, topic) == ["a", "b"]


def test_a_node_with_a_new_disk_gets_its_replicas_again_and_may_lead(cluster: EmbeddedCluster, topic: str) -> None:
    write(cluster, topic, "a")
    cluster.kill(2)
    shutil.rmtree(cluster.data_dir / "node-2")
    cluster.start(2)
    cluster.wait_until_in_sync()
    # It learns the high watermark up to one fetch later, and alone it cannot move it: min.insync.replicas is 2.
    limit = Limit("the high watermark of node 2")
    while high_watermark(cluster, 2, topic) < 1:
        limit.check()
        time.sleep(0.01)
    cluster.stop(1)
    cluster.stop(3)
    assert cluster.leader_of(topic) == 2
    assert read(cluster, topic) == ["a"]


def test_errors_name_the_node_or_the_topic(cluster: EmbeddedCluster, topic: str) -> None:
    with pytest.raises(ValueError, match="there is no node 4; the nodes are 1, 2, 3"):
        cluster.kill(4)
    with pytest.raises(ValueError, match="already running"):
        cluster.start(1)
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
        cluster.create_topic(topic)
    with pytest.raises(ValueError, match="use at least 1"):
        EmbeddedCluster(0)


def test_a_cluster_is_ready_soon_and_continues_with_its_data(tmp_path: object) -> None:
    start = time.monotonic()
    with EmbeddedCluster(2, data_dir=str(tmp_path)) as cluster:
        assert time.monotonic() - start < 5  # 0.2 s on an idle machine
        write(cluster, cluster.create_topic("orders"), "a")
    with EmbeddedCluster(2, data_dir=str(tmp_path)) as cluster:
        cluster.wait_until_in_sync()
        assert read(cluster, "orders") == ["a"]


def test_a_node_that_does_not_pause_is_an_error(
    cluster: EmbeddedCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop of a node may have failed meanwhile; the wait for it had no limit."""
    monkeypatch.setattr("kcli.broker.testing.embedded_cluster._PAUSE_S", 0.05)
    cluster.nodes[2].call(lambda broker: setattr(broker, "post", lambda fn: None))
    with pytest.raises(KcliError, match="node 2 did not pause within"):
        cluster.pause(2)
    write(cluster, topic, "a")
    assert read(cluster, topic) == ["a"]
