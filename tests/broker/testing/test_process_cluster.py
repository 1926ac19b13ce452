"""The cluster of processes for tests: nodes and controller that are killed, stopped and paused by signals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kcli
from kcli.broker.testing.process_cluster import ProcessCluster
from kcli.errors import KcliError

pytestmark = pytest.mark.slow


def write(cluster: ProcessCluster, value: str, via: int | None = None) -> None:
    servers = cluster.bootstrap_servers if via is None else cluster.nodes[via].address
    with kcli.Producer(bootstrap_servers=servers) as producer:
        producer.send("orders", value.encode())
        producer.flush()


def test_leaders_move_when_their_process_is_killed_or_paused(tmp_path: Path) -> None:
    with ProcessCluster(data_dir=tmp_path / "cluster") as cluster:
        cluster.create_topic("orders", configs={"min.insync.replicas": 2})
        first = cluster.leader_of("orders")
        pids = [node.pid for node in cluster.nodes.values()]
        write(cluster, "a")
        cluster.kill(first)
        second = cluster.leader_of("orders", other_than=first)
        write(cluster, "b")
        cluster.start(first)
        cluster.wait_until_in_sync()

        cluster.pause(second)
        third = cluster.leader_of("orders", other_than=second)
        write(cluster, "c", via=third)  # a request to the paused node would wait for half a minute
        cluster.resume(second)
        cluster.kill_controller()
        cluster.start_controller()
        cluster.wait_until_in_sync()
        assert len({first, second}) == len({second, third}) == 2
        with kcli.Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
            assert consumer.end_offsets([kcli.TopicPartition("orders", 0)])[kcli.TopicPartition("orders", 0)] == 3
        with pytest.raises(KcliError, match="is running already"):
            cluster.start()
        with pytest.raises(ValueError, match="node 1 is already running"):
            cluster.start(1)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
