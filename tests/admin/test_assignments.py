"""Facts about a live group for the prediction of its assignment, in a cluster of three brokers with racks."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from kcli.admin.assignments import RATE_WINDOW_MS, LiveGroup, read_live_group
from kcli.assignors.model import Member, Topic
from kcli.errors import BrokerError, KcliError, Refused, TimeoutExpired
from kcli.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kcli.protocol.consumer_protocol import TopicPartitions as Blob
from kcli.protocol.messages import consumer_group_describe as consumer
from kcli.protocol.messages import describe_groups as classic
from kcli.protocol.messages.metadata import MetadataResponse
from kcli.protocol.registry import ApiKey
from kcli.protocol.wire import Message
from tests.admin.groups.group_cluster import CONSUMER, FakeGroup, GroupCluster, at, partitions
from tests.client.fake_cluster import failure_of
from tests.network.memory import MemoryPeer

T0, T1, T2 = partitions(0, 1, 2)
TOPIC_AUTHORIZATION_FAILED = 29


def classic_member(name: str, topics: list[str], owned: list[int], **how: Any) -> classic.DescribedGroupMember:
    subscription = Subscription(topics=topics, rack_id=how.pop("rack", None))
    assigned = [Blob(topic="t", partitions=owned)] if owned else []
    return classic.DescribedGroupMember(
        member_id=name,
        client_id=name[0],
        member_metadata=how.pop("metadata", encode_subscription(subscription)),
        member_assignment=encode_assignment(Assignment(assigned_partitions=assigned)),
        **how,
    )


class Cluster(GroupCluster):
    """A cluster with one group `g`. Partition N of t is on broker N+1, in rack r1, r2 or none."""

    def __init__(self, *states: str, kind: str = "classic", **group: Any) -> None:
        super().__init__({"g": FakeGroup(1, kind=kind, committed=at(40, (0, 1)))})
        self.states, self.kind = [*states] or ["Stable"], kind
        self.group = group
        self.answers[ApiKey.DESCRIBE_GROUPS] = self._as_classic
        self.answers[ApiKey.CONSUMER_GROUP_DESCRIBE] = self._as_consumer

    def _metadata(self, peer: MemoryPeer, request: Any, version: int) -> MetadataResponse:
        response = super()._metadata(peer, request, version)
        for broker in response.brokers:
            broker.rack = {1: "r1", 2: "r2"}.get(broker.node_id)
        return response

    def _state(self) -> str:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def _as_classic(self, _peer: MemoryPeer, _request: Any, _version: int) -> Message:
        fields = {"protocol_type": "consumer", "protocol_data": "sticky", "group_state": self._state(), **self.group}
        return classic.DescribeGroupsResponse(groups=[classic.DescribedGroup(group_id="g", **fields)])

    def _as_consumer(self, peer: MemoryPeer, request: Any, version: int) -> Message:
        if self.kind != CONSUMER:
            return self._describe_consumer(peer, request, version)
        fields = {"group_state": self._state(), "assignor_name": "range", **self.group}
        return consumer.ConsumerGroupDescribeResponse(groups=[consumer.DescribedGroup(group_id="g", **fields)])

    def read(self, timeout_ms: float = 10_000, **more: Any) -> LiveGroup:
        client = self.client()
        return read_live_group(client, "g", client.clock.now_ms() + timeout_ms, **more)


def test_members_own_their_assignment_in_the_same_generation() -> None:
    """Topics, rack and assignment come from DescribeGroups, the racks of replicas from Metadata."""
    a = classic_member("a-1", ["t", "ghost"], [0, 1], rack="r1")
    b = classic_member("b-1", ["t"], [2], group_instance_id="static")
    found = Cluster(members=[a, b]).read()
    assert (found.assignor, found.missing) == ("sticky", ["ghost"])
    assert found.members == [
        Member("a-1", frozenset({"t", "ghost"}), (T0, T1), 1, "r1"),
        Member("b-1", frozenset({"t"}), (T2,), 1, None, "static"),
    ]
    assert found.topics == {"t": Topic(3, (frozenset({"r1"}), frozenset({"r2"}), frozenset()))}


def test_lag_needs_a_committed_offset_and_the_rate_is_that_of_the_last_minute() -> None:
    """Each log is 10..100 and all of its records are from the last minute."""
    cluster = Cluster(members=[classic_member("a-1", ["t"], [0, 1, 2])])
    found = cluster.read()
    assert found.lags == {T0: 60, T1: 60}
    assert found.unknown_lags == {T2}
    assert found.rates == dict.fromkeys((T0, T1, T2), 90 / 60)
    asked = {
        p.timestamp for it in cluster.requests(ApiKey.LIST_OFFSETS) for t in it.request.topics for p in t.partitions
    }
    assert asked == {-1, -2, cluster.clock.wall_ms() - RATE_WINDOW_MS}


def test_members_of_a_kip848_group_own_their_target_assignment() -> None:
    """KIP-848: the broker starts the next assignment from the target. A regular expression selects topics."""

    def share(*numbers: int) -> consumer.Assignment:
        return consumer.Assignment(topic_partitions=[consumer.TopicPartitions(topic_name="t", partitions=[*numbers])])

    one = consumer.Member(
        member_id="m", assignment=share(0), target_assignment=share(0, 2), subscribed_topic_regex="t|x"
    )
    cluster = Cluster("Reconciling", kind=CONSUMER, members=[one])
    cluster.topics["tt"] = {0: (1, 5)}
    found = cluster.read()
    assert found.assignor == "server-range", "the broker's assignor range differs from that of clients"
    assert found.members == [Member("m", frozenset({"t"}), (T0, T2), 1)]


def test_a_rebalancing_group_is_read_again_until_it_is_stable() -> None:
    """DescribeGroups returns no subscriptions during a rebalance."""
    member = classic_member("a-1", ["t"], [0])
    cluster = Cluster("PreparingRebalance", "CompletingRebalance", "Stable", members=[member])
    assert cluster.read().group.state == "Stable"
    late = failure_of(lambda: Cluster("PreparingRebalance", members=[member]).read(timeout_ms=500))
    assert isinstance(late, TimeoutExpired)
    assert "group g was still rebalancing at the deadline (PreparingRebalance)" in str(late)


@pytest.mark.parametrize(
    ("group", "error_type", "message"),
    [
        ({"protocol_type": "connect"}, Refused, "g is a group of type connect, whose partitions are not assigned"),
        (
            {"members": [classic_member("a-1", [], [], metadata=b"\0")]},
            Refused,
            "the subscription of member a-1 cannot be decoded: 1 bytes are too short",
        ),
        ({"members": [classic_member("a-1", ["secret"], [])]}, BrokerError, "TOPIC_AUTHORIZATION_FAILED"),
        ({"group_state": "Dead"}, BrokerError, "GROUP_ID_NOT_FOUND"),
    ],
)
def test_a_group_without_a_readable_assignment_raises(
    group: dict[str, Any], error_type: type[KcliError], message: str
) -> None:
    cluster = Cluster(**group)
    cluster.topic_errors["secret"] = TOPIC_AUTHORIZATION_FAILED
    error = failure_of(cluster.read)
    assert isinstance(error, error_type)
    assert message in str(error)


def subscribed_to(pattern: str, *topics: str) -> Cluster:
    cluster = Cluster(kind=CONSUMER, members=[consumer.Member(member_id="m", subscribed_topic_regex=pattern)])
    for topic in topics:
        cluster.topics[topic] = {0: (1, 5)}
    return cluster


def test_a_pattern_that_is_not_one_of_re2_is_refused() -> None:
    for pattern in (r"a(?P<", r"(?=a)b", r"(a)\1"):
        assert "the subscribed pattern" in str(failure_of(subscribed_to(pattern).read))


def test_a_pattern_without_the_package_for_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    error = failure_of(subscribed_to("t.*").read)
    assert isinstance(error, Refused)
    assert "need the package google-re2: pip install 'kcli-kafka[regex]'" in str(error)


def test_the_pattern_of_a_member_is_matched_in_linear_time() -> None:
    name = "a" * 200
    found = subscribed_to(r"(a+)+b|t", name).read()
    assert found.members[0].topics == {"t"}


def test_a_group_without_members_has_only_the_requested_topics() -> None:
    found = Cluster("Empty").read(more_topics=["t", "ghost"])
    assert (found.members, found.missing, [*found.topics]) == ([], [], ["t"])
