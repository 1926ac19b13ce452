"""The pure functions of a leader: members, topics, snapshots, assignments; and the partitions revoked around a
rebalance.
"""

from __future__ import annotations

import pytest

from kcli.assignors.lookup import STRATEGIES
from kcli.assignors.model import Topic
from kcli.client.metadata import Cluster, PartitionInfo, TopicInfo
from kcli.consumer.group.consumer_coordinator import assignment_change, revoked_before_join
from kcli.consumer.group.leadership import (
    assign_partitions,
    assignor_topics,
    read_members,
    topic_snapshot,
    topics_of,
)
from kcli.error_codes import ErrorCode
from kcli.errors import ProtocolError
from kcli.protocol.consumer_protocol import Subscription, by_topic, decode_assignment, encode_subscription, flat
from kcli.protocol.messages.join_group import JoinGroupResponseMember
from kcli.structs import Node, TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def topic(name: str, partitions: int, *replicas: int) -> TopicInfo:
    found = {n: PartitionInfo(name, n, leader=1, replicas=replicas) for n in range(partitions)}
    return TopicInfo(name, partitions=found)


def cluster(*topics: TopicInfo, racks: tuple[str | None, ...] = (None, None)) -> Cluster:
    nodes = {number: Node(number, "h", 9092, rack) for number, rack in enumerate(racks, 1)}
    return Cluster(nodes=nodes, topics={it.name: it for it in topics})


def wants(member_id: str, *topics: str) -> JoinGroupResponseMember:
    return JoinGroupResponseMember(member_id=member_id, metadata=encode_subscription(Subscription(topics=list(topics))))


def test_a_malformed_subscription_names_its_member() -> None:
    members = read_members([wants("a", "t"), wants("b", "t", "u")])
    assert topics_of(members) == {"t", "u"}
    with pytest.raises(ProtocolError, match="member broken"):
        read_members([wants("a", "t"), JoinGroupResponseMember(member_id="broken", metadata=b"\x00")])


def test_topics_that_do_not_exist_are_left_out() -> None:
    gone = TopicInfo("gone", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert assignor_topics(cluster(topic("t", 3), gone), ["t", "gone", "never seen"]) == {"t": Topic(3)}


def test_racks_of_replicas_are_included_where_known() -> None:
    found = assignor_topics(cluster(topic("t", 1, 1, 2, 9), racks=("east", None)), ["t"])
    assert found == {"t": Topic(1, (frozenset({"east"}),))}


def test_each_member_gets_an_encoded_assignment() -> None:
    members = read_members([wants("a", "t"), wants("b", "t")])
    shares = assign_partitions(STRATEGIES["range"], members, {"t": Topic(3)})
    read = {member: flat(decode_assignment(share).assigned_partitions) for member, share in shares.items()}
    assert read == {"a": (T0, T1), "b": (TopicPartition("t", 2),)}


def test_a_topic_without_leaders_does_not_change_the_snapshot() -> None:
    before = topic_snapshot(cluster(topic("t", 2), topic("u", 1)), ["t", "u"], {}, with_racks=False)
    busy = cluster(TopicInfo("t", error=ErrorCode.LEADER_NOT_AVAILABLE), topic("u", 1))
    assert topic_snapshot(busy, ["t", "u"], before, with_racks=False) == before


def test_the_snapshot_changes_with_deleted_topics_new_partitions_and_with_racks_moved_replicas() -> None:
    before = topic_snapshot(cluster(topic("t", 2)), ["t"], {}, with_racks=False)
    gone = cluster(TopicInfo("t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert topic_snapshot(gone, ["t"], before, with_racks=False) == {}
    assert topic_snapshot(cluster(topic("t", 3)), ["t"], before, with_racks=False) != before
    east, west = (cluster(topic("t", 2, node), racks=("east", "west")) for node in (1, 2))
    for with_racks in (False, True):
        one, other = (topic_snapshot(it, ["t"], {}, with_racks=with_racks) for it in (east, west))
        assert (one != other) is with_racks


def test_grouping_by_topic_is_reversible() -> None:
    assert flat(by_topic([T1, U0, T0])) == (T1, T0, U0)


def test_partitions_revoked_before_a_join() -> None:
    owned = [U0, T1, T0]
    assert revoked_before_join(owned, {"t", "u"}, cooperative=False) == [T0, T1, U0]
    assert revoked_before_join(owned, {"t", "u"}, cooperative=True) == []
    assert revoked_before_join(owned, {"t"}, cooperative=True) == [U0]


def test_revoked_and_added_partitions_of_an_assignment() -> None:
    assert assignment_change([T0, U0], [T1, T0]) == ([U0], [T1])
    assert assignment_change([], []) == ([], [])
