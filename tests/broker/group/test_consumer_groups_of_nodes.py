"""Consumer groups (KIP-848) whose coordinator moves between the nodes of a cluster in memory.

Error codes are those of Apache Kafka 4.3.1: 15 after the timeout, 16 where the group is not coordinated.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest
from kcli.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.group.coordinating_cluster import CoordinatingCluster, Coordinator

OK, TIMED_OUT, NOT_COORDINATOR, UNKNOWN_MEMBER = 0, 15, 16, 25


@pytest.fixture
def cluster() -> CoordinatingCluster:
    cluster = CoordinatingCluster()
    level = FeatureUpdateKey(feature="group.version", max_version_level=1)
    cluster.quorum.send(UpdateFeaturesRequest(feature_updates=[level]))
    cluster.run(600)
    return cluster


def request(member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id="readers", member_id=member_id, member_epoch=epoch, **fields)


def joining(member_id: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    first = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], "subscribed_topic_names": ["orders"]}
    return request(member_id, 0, **{**first, **fields})


def described(node: Coordinator) -> Any:
    (group,) = node.ask(ConsumerGroupDescribeRequest(group_ids=["readers"])).groups
    return group


def test_a_member_goes_on_in_its_epoch_at_the_next_coordinator(cluster: CoordinatingCluster) -> None:
    joined = cluster.node(1).ask(joining("a"))
    assert (joined.error_code, joined.member_epoch) == (OK, 2)
    before = described(cluster.node(1))
    cluster.member(1).kill()
    cluster.expire()

    node = cluster.coordinator()
    assert node.id != 1
    answer = node.ask(request("a", 2))
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (OK, 2, None)
    assert described(node) == before
    assert node.ask(request("a", -1)).error_code == OK


def test_a_revocation_that_began_at_one_coordinator_ends_at_the_next(cluster: CoordinatingCluster) -> None:
    cluster.create("clicks", [1, 2, 3], [1, 2, 3])
    cluster.run(600)
    node = cluster.node(1)
    node.ask(joining("a", subscribed_topic_names=["clicks"]))
    cluster.run(1100)
    assert node.ask(joining("b", subscribed_topic_names=["clicks"])).member_epoch == 3
    shrunk = node.ask(request("a", 2)).assignment.topic_partitions[0]
    cluster.member(1).kill()
    cluster.expire()

    node = cluster.coordinator()
    assert node.ask(request("b", 3)).assignment is None
    kept = [TopicPartitions(topic_id=shrunk.topic_id, partitions=shrunk.partitions)]
    assert node.ask(request("a", 2, topic_partitions=kept)).member_epoch == 3
    assert len(node.ask(request("b", 3)).assignment.topic_partitions[0].partitions) == 1


def test_a_silent_member_is_removed_by_the_next_coordinator(cluster: CoordinatingCluster) -> None:
    cluster.node(1).ask(joining("a"))
    cluster.member(1).kill()
    cluster.expire()
    node = cluster.coordinator()

    cluster.run(30_000, step_ms=100)
    assert described(node).group_state == "Stable"
    cluster.run(15_000, step_ms=100)
    assert described(node).group_state == "Empty"
    assert node.ask(request("a", 2)).error_code == UNKNOWN_MEMBER


def test_the_former_coordinator_has_neither_the_group_nor_its_timers(cluster: CoordinatingCluster) -> None:
    cluster.node(1).ask(joining("a"))
    cluster.member(1).kill()
    cluster.expire()
    cluster.member(1).start()
    cluster.run(5000)
    former = cluster.coordinator()
    former.ask(request("a", 2))
    cluster.quorum.send(ElectLeadersRequest(election_type=0, topic_partitions=None))
    cluster.run(1000)

    assert cluster.coordinator() is cluster.node(1)
    assert cluster.node(1).ask(request("a", 2)).error_code == OK
    assert former.ask(request("a", 2)).error_code == NOT_COORDINATOR
    assert "0 groups, <Deadlines 0 set>" in repr(former.group_parts().groups)


def test_an_answer_waits_until_the_records_are_replicated(cluster: CoordinatingCluster) -> None:
    for other in (2, 3):
        cluster.network.cut(1, other)
    answer = cluster.node(1).send(joining("a"))
    cluster.run(4900)
    assert not answer.is_there
    cluster.run(200)
    assert answer.value.error_code == TIMED_OUT

    cluster.network.heal()
    cluster.run(1500)
    again = cluster.node(1).ask(joining("a"))
    assert (again.error_code, again.member_epoch) == (OK, 2)
