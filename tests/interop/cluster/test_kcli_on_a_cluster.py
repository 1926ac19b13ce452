"""kcli's commands on three nodes while the coordinator of a group and the leaders of a topic are killed."""

from __future__ import annotations

import json

import pytest

from kcli.broker.testing.embedded_cluster import EmbeddedCluster
from tests.cli.fake import run_kcli
from tests.interop.cluster.readers import group_of

GROUP = group_of(0, 3)
RECORDS = 90


@pytest.fixture
def filled(kafka_cluster: EmbeddedCluster) -> EmbeddedCluster:
    """A cluster with the topic `orders` of three partitions, and a group that has read all of it."""
    kafka_cluster.create_topic("orders", 3, 3)
    at = ("-b", kafka_cluster.bootstrap_servers)
    values = b"".join(b"%d\n" % number for number in range(RECORDS))
    assert run_kcli("produce", "orders", *at, stdin=values).status == 0
    done = run_kcli("consume", "topic", "orders", "--group", GROUP, "-o", "start", "-e", "-f", "%s\\n", *at)
    assert done.status == 0, done.err
    assert sorted(map(int, done.out.split())) == [*range(RECORDS)]
    return kafka_cluster


def committed(cluster: EmbeddedCluster) -> int:
    """Return the sum of the group's committed offsets, as kcli shows them."""
    shown = run_kcli("offsets", "show", GROUP, "--output", "json", "-b", cluster.bootstrap_servers)
    assert shown.status == 0, shown.err
    return sum(row["offset"] for row in json.loads(shown.out)["items"])


@pytest.mark.kafka_cluster(nodes=3, offsets_topic_num_partitions=3, min_insync_replicas=2)
def test_offsets_are_reset_while_the_coordinator_is_killed(filled: EmbeddedCluster) -> None:
    """Each command ends with status 0 and has done what it says, and an undo restores the offsets."""
    at = ("-b", filled.bootstrap_servers)
    before = committed(filled)
    for target, expected in (("--to-earliest", 0), ("--to-latest", RECORDS), ("--to-earliest", 0)):
        coordinator = filled.leader_of("__consumer_offsets", 0)
        filled.kill(coordinator)
        done = run_kcli("offsets", "reset", GROUP, "--topic", "orders", target, "--execute", *at)
        assert done.status == 0, done.err
        assert committed(filled) == expected
        assert filled.leader_of("__consumer_offsets", 0) != coordinator
        filled.start(coordinator)
        filled.wait_until_in_sync()
        assert committed(filled) == expected
    assert before == RECORDS


@pytest.mark.kafka_cluster(nodes=3, offsets_topic_num_partitions=3, min_insync_replicas=2)
def test_a_read_and_a_write_finish_while_a_leader_is_killed(filled: EmbeddedCluster) -> None:
    at = ("-b", filled.bootstrap_servers)
    leader = filled.leader_of("orders", 0)
    filled.kill(leader)
    written = run_kcli("produce", "orders", *at, stdin=b"".join(b"%d\n" % (RECORDS + n) for n in range(RECORDS)))
    assert written.status == 0, written.err
    done = run_kcli("consume", "topic", "orders", "-o", "start", "-e", "-f", "%s\\n", *at)
    assert done.status == 0, done.err
    assert sorted(map(int, done.out.split())) == [*range(2 * RECORDS)]
    filled.start(leader)
    filled.wait_until_in_sync()
    assert run_kcli("topic", "describe", "orders", "--unhealthy", *at).status == 0
