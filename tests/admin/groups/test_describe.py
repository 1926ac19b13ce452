"""Groups from the responses of coordinators: classic, consumer and streams groups; deletion and removal."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.admin.groups.describe import classic_group, consumer_group, streams_group
from kcli.admin.groups.group import GroupMember
from kcli.admin.groups.removal import delete_groups, remove_members
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, OutcomeUnknown, ProtocolError
from kcli.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kcli.protocol.consumer_protocol import TopicPartitions as Blob
from kcli.protocol.messages import consumer_group_describe as consumer
from kcli.protocol.messages import delete_groups as deletion
from kcli.protocol.messages import describe_groups as classic
from kcli.protocol.messages import leave_group
from kcli.protocol.messages import streams_group_describe as streams
from kcli.protocol.registry import ApiKey
from kcli.structs import Node, TopicPartition
from tests.admin.groups.group_cluster import FakeGroup, GroupCluster
from tests.network.memory import MemoryPeer

NODE = Node(2, "b", 9092)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def classic_with(*members: classic.DescribedGroupMember, protocol_type: str = "consumer") -> classic.DescribedGroup:
    return classic.DescribedGroup(
        group_id="g", group_state="Stable", protocol_type=protocol_type, protocol_data="range", members=list(members)
    )


def assigned(*numbers: int) -> bytes:
    return encode_assignment(Assignment(assigned_partitions=[Blob(topic="t", partitions=list(numbers))]))


def test_a_subscription_has_rack_owned_partitions_and_generation() -> None:
    subscription = Subscription(
        topics=["u", "t"],
        owned_partitions=[Blob(topic="t", partitions=[1])],
        generation_id=7,
        rack_id="rack-1",
    )
    described = classic.DescribedGroupMember(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/10.0.0.7",
        member_metadata=encode_subscription(subscription),
        member_assignment=assigned(1, 0),
    )
    group = classic_group(classic_with(described), NODE)
    assert group.coordinator == NODE
    assert (group.type, group.assignor, group.epoch) == ("classic", "range", None)
    assert group.topics == ("t", "u")
    (member,) = group.members
    assert member == GroupMember(
        id="m",
        client_id="c",
        host="10.0.0.7",
        instance_id="i",
        rack="rack-1",
        topics=("t", "u"),
        owned=(T0, T1),
        claimed=(T1,),
        claimed_generation=7,
        member_type="classic",
    )


def test_during_a_rebalance_a_member_has_its_last_assignment() -> None:
    """Kafka 4.3.1 returns no member metadata during a rebalance, but the last assignment."""
    old = classic.DescribedGroupMember(member_id="a", member_assignment=assigned(0))
    new = classic.DescribedGroupMember(member_id="b")
    members = classic_group(classic_with(old, new), NODE).members
    assert [(it.id, it.owned, it.topics, it.error) for it in members] == [("a", (T0,), (), None), ("b", (), (), None)]


def test_a_damaged_subscription_is_the_error_of_its_member_only() -> None:
    broken = classic.DescribedGroupMember(member_id="m", member_metadata=b"\x00", member_assignment=assigned(1))
    (member,) = classic_group(classic_with(broken), NODE).members
    assert isinstance(member.error, ProtocolError)
    assert member.owned == (T1,)


def test_metadata_of_connect_workers_are_not_decoded_as_subscriptions() -> None:
    worker = classic.DescribedGroupMember(member_id="w", member_metadata=b"\x00\x01cfg", member_assignment=b"\xff\xff")
    (member,) = classic_group(classic_with(worker, protocol_type="connect"), NODE).members
    assert (member.topics, member.owned, member.error) == ((), (), None)


def test_a_consumer_group_may_have_members_of_the_classic_protocol() -> None:
    described = consumer.DescribedGroup(
        group_id="g",
        group_state="Reconciling",
        group_epoch=5,
        assignment_epoch=4,
        assignor_name="uniform",
        members=[
            consumer.Member(member_id="new", member_epoch=5, subscribed_topic_regex="t.*", member_type=1),
            consumer.Member(member_id="old", member_epoch=4, subscribed_topic_regex="", rack_id="", member_type=0),
            consumer.Member(member_id="unknown"),
        ],
    )
    group = consumer_group(described, NODE)
    assert (group.epoch, group.target_epoch, group.assignor) == (5, 4, "uniform")
    assert [(it.id, it.member_type, it.pattern, it.rack, it.target) for it in group.members] == [
        ("new", "consumer", "t.*", None, ()),
        ("old", "classic", None, None, ()),
        ("unknown", None, None, None, ()),
    ]


def test_tasks_are_partitions_of_source_and_repartition_topics() -> None:
    parts = [
        streams.Subtopology(subtopology_id="0", source_topics=["t"]),
        streams.Subtopology(subtopology_id="1", repartition_source_topics=[streams.TopicInfo(name="r", partitions=2)]),
    ]
    tasks = streams.Assignment(
        active_tasks=[
            streams.TaskIds(subtopology_id="0", partitions=[1]),
            streams.TaskIds(subtopology_id="1", partitions=[0]),
        ],
        standby_tasks=[streams.TaskIds(subtopology_id="0", partitions=[0])],
    )
    described = streams.DescribedGroup(
        group_id="g",
        topology=streams.Topology(subtopologies=parts),
        members=[streams.Member(member_id="m", assignment=tasks, is_classic=True)],
    )
    (member,) = streams_group(described, NODE).members
    assert (member.owned, member.target) == ((TopicPartition("r", 0), T1), ())
    assert (member.topics, member.member_type) == (("r", "t"), "classic")


def test_a_streams_group_without_a_topology_owns_no_partition() -> None:
    described = streams.DescribedGroup(group_id="g", group_state="NotReady", members=[streams.Member(member_id="m")])
    assert streams_group(described, NODE).members[0].owned == ()


# Deletion and removal


@pytest.mark.parametrize("answered_late", [False, True])
def test_a_group_that_is_gone_after_a_lost_response_is_deleted(*, answered_late: bool) -> None:
    """`answered_late`: the first request is carried out after the look, so that the second one finds no group."""
    cluster = GroupCluster({"g": FakeGroup(1)})
    requests: list[Any] = []

    def respond(peer: MemoryPeer, request: Any, _version: int) -> Any:
        requests.append(request)
        if not answered_late or len(requests) > 1:
            cluster.groups.pop("g", None)
        if len(requests) == 1:
            return peer.hang_up()
        results = [deletion.DeletableGroupResult(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND)]
        return deletion.DeleteGroupsResponse(results=results)

    cluster.answers[ApiKey.DELETE_GROUPS] = respond
    assert list(delete_groups(cluster.client(), ["g"], 10_000).values) == ["g"]
    assert len(requests) == 1 + answered_late


def test_a_group_that_still_exists_after_lost_responses_has_an_unknown_outcome() -> None:
    cluster = GroupCluster({"g": FakeGroup(1)})
    cluster.answers[ApiKey.DELETE_GROUPS] = lambda peer, *_: peer.hang_up()
    assert isinstance(delete_groups(cluster.client(), ["g"], 10_000).errors["g"], OutcomeUnknown)


def test_a_member_that_is_gone_after_a_lost_response_is_removed() -> None:
    cluster = GroupCluster({"g": FakeGroup(1, owned=(T0,))})

    def respond(peer: MemoryPeer, _request: Any, _version: int) -> Any:
        cluster.groups["g"] = FakeGroup(1, state="Empty")
        peer.reset()

    cluster.answers[ApiKey.LEAVE_GROUP] = respond
    leaver = GroupMember("member-of-g", "app", "/10.0.0.7")
    with cluster.client() as client:
        assert remove_members(client, "g", [leaver], "test", 10_000).values == {"member-of-g": None}
    assert cluster.count(ApiKey.LEAVE_GROUP) == 1


def leaving(cluster: GroupCluster, codes: dict[str, int]) -> None:
    def respond(_peer: MemoryPeer, request: Any, version: int) -> Any:
        if version < 3:
            return leave_group.LeaveGroupResponse(error_code=codes[request.member_id])
        members = [
            leave_group.MemberResponse(member_id=it.member_id, error_code=codes[it.member_id]) for it in request.members
        ]
        return leave_group.LeaveGroupResponse(members=members)

    cluster.answers[ApiKey.LEAVE_GROUP] = respond


def test_members_are_removed_in_one_request_with_a_truncated_reason() -> None:
    cluster = GroupCluster({"g": FakeGroup(1)})
    leaving(cluster, {"a": 0, "b": ErrorCode.FENCED_INSTANCE_ID})
    members = [GroupMember("a"), GroupMember("b", instance_id="i")]
    found = remove_members(cluster.client(), "g", members, "x" * 300, 10_000)
    assert list(found.values) == ["a"]
    error = found.errors["b"]
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.FENCED_INSTANCE_ID
    (asked,) = cluster.requests(ApiKey.LEAVE_GROUP)
    assert [(it.member_id, it.group_instance_id, it.reason) for it in asked.request.members] == [
        ("a", None, "x" * 255),
        ("b", "i", "x" * 255),
    ]


def test_a_broker_before_2_4_removes_members_one_by_one() -> None:
    cluster = GroupCluster({"g": FakeGroup(1)})
    cluster.versions[ApiKey.LEAVE_GROUP] = (0, 2)
    leaving(cluster, {"a": 0, "b": ErrorCode.UNKNOWN_MEMBER_ID})
    found = remove_members(cluster.client(), "g", [GroupMember("a"), GroupMember("b")], "why", 10_000)
    assert (list(found.values), list(found.errors)) == (["a"], ["b"])
    assert [asked.request.member_id for asked in cluster.requests(ApiKey.LEAVE_GROUP)] == ["a", "b"]


def test_removing_no_members_sends_no_request() -> None:
    cluster = GroupCluster({"g": FakeGroup(1)})
    assert not remove_members(cluster.client(), "g", [], "why", 10_000).values
    assert not cluster.asked
