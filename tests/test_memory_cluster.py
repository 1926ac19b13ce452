"""The cluster in memory that stories of replication use."""

from __future__ import annotations

from tests.broker.cluster.memory_cluster import MemoryCluster


def test_dead_node_is_fenced_and_returns_with_its_files() -> None:
    cluster = MemoryCluster(3)
    cluster.create("orders", [1, 2, 3])
    cluster.write()
    cluster.run(10)
    cluster.member(1).kill()
    cluster.expire()
    assert cluster.state().leader == 2
    cluster.member(1).start()
    cluster.run(2000)
    assert set(cluster.state().isr) == {1, 2, 3}
    assert cluster.member(1).contents() == cluster.member(2).contents()
