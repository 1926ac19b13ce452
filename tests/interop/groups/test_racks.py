"""`client.rack` on three nodes in three racks, of Apache Kafka and of ours: eleven partitions over three members.

Each partition has replicas in two of the racks. The range strategy of the members heeds the racks (KIP-881), and round
robin has nothing to choose: the referee is Kafka's own class, with the members as they have joined. The result of the
sticky ones depends on the order of joining, and the coordinator's assignors ignore racks since Kafka 4.0. In all cases
a member fetches from the replica in its rack (KIP-392).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kcli import Consumer, TopicPartition
from kcli.assignors.model import Member, Topic
from tests.interop.assignors.oracle import Oracle, assignment, question
from tests.interop.cluster.nodes import MixedCluster
from tests.limits import Limit
from tests.real_kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.slow, pytest.mark.real_kafka]

TOPIC = "eleven"
PLACEMENT = [[p % 3 + 1, (p + 1) % 3 + 1] for p in range(11)]
RACKS = (1, 2, 3)  # the numbers of the nodes
SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


@pytest.fixture(scope="module", params=["apache", "kcli"])
def cluster(
    request: pytest.FixtureRequest, kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaCluster | MixedCluster]:
    folder, made = tmp_path_factory.mktemp("racks"), None
    if request.param == "apache":
        made = KafkaCluster(folder / "cluster", kafka_jars, 3, SELECTOR)
    else:
        nodes = dict.fromkeys(RACKS, SELECTOR)
        made = MixedCluster(folder / "cluster", kafka_jars, "kcli", ["kcli"] * 3, of_node=nodes, coordinators=[[1]] * 4)
    try:
        made.start()
        made.create_placed_topic(TOPIC, PLACEMENT)
        producer = made.ordered_producer(TOPIC)
        for number in range(110):
            producer.produce(TOPIC, b"%d" % number, partition=number % 11)
        assert producer.flush(30) == 0
        yield made
    finally:
        made.kill()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky", "consumer"])
def test_eleven_partitions_over_three_members_are_read_from_the_replicas_in_their_racks(
    cluster: KafkaCluster | MixedCluster, kafka_jars: Path, strategy: str
) -> None:
    group = cluster.new_name("racks")
    settings: dict[str, Any] = {"group_id": group, "auto_offset_reset": "earliest"}
    settings |= (
        {"group_protocol": "consumer"} if strategy == "consumer" else {"partition_assignment_strategy": strategy}
    )
    with ExitStack() as stack:
        members = {}
        for rack in RACKS:
            consumer = Consumer(bootstrap_servers=cluster.bootstrap_servers, client_rack=f"rack-{rack}", **settings)
            members[rack] = stack.enter_context(consumer)
            consumer.subscribe([TOPIC])
        limit, read = Limit("each member reads its partitions from its rack"), set[bytes]()
        while True:
            limit.check()
            for member in members.values():
                for columns in member.poll(100).values():
                    read.update(value for value in columns.values() if value is not None)
            owned = {rack: set(member.assignment) for rack, member in members.items()}
            balanced = sorted(map(len, owned.values())) == [3, 4, 4]
            if (
                balanced
                and len(read) == 110
                and all(
                    _replica_read(members[rack], tp) == (rack if rack in PLACEMENT[tp.partition] else 0)
                    for rack, partitions in owned.items()
                    for tp in partitions
                    if PLACEMENT[tp.partition][0] != rack  # else the leader is in the rack
                )
            ):
                ids = {rack: member.group_metadata().member_id for rack, member in members.items()}
                break
    assert sorted(tp for partitions in owned.values() for tp in partitions) == [
        TopicPartition(TOPIC, p) for p in range(11)
    ]
    if strategy in ("range", "roundrobin"):
        assert owned == _assigned_by_kafka(kafka_jars, strategy, ids)


def _replica_read(consumer: Consumer, tp: TopicPartition) -> int:
    """Return the follower that the leader has named for this reader; 0 for the leader itself."""
    return max(0, consumer.subscription.state(tp).preferred_replica)


def _assigned_by_kafka(jars: Path, strategy: str, ids: dict[int, str]) -> dict[int, set[TopicPartition]]:
    """Return what Kafka's class assigns to new members with these ids, by rack."""
    racks = tuple(frozenset(f"rack-{node}" for node in nodes) for nodes in PLACEMENT)
    members = [Member(name, frozenset({TOPIC}), rack=f"rack-{rack}") for rack, name in ids.items()]
    with Oracle(jars) as oracle:
        (answer,) = oracle.ask([question({TOPIC: Topic(len(racks), racks)}, members, [strategy])])
    assigned = assignment(answer[strategy])
    assert assigned is not None
    return {rack: set(assigned[name]) for rack, name in ids.items()}
