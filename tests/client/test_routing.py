"""Requests to the controller, to leaders and to coordinators; retries, and errors per key."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.client.requests import fan_out
from kcli.client.routing import GROUP, Coordinators, ask_coordinator, ask_leaders, find_coordinators, locate_controller
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired
from kcli.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kcli.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kcli.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from kcli.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kcli.protocol.registry import ApiKey
from kcli.structs import Node, TopicPartition
from tests.client.fake_cluster import FakeCluster, failure_of
from tests.network.memory import MemoryPeer

T0, T1, T2 = (TopicPartition("orders", n) for n in range(3))


# The controller


def created(code: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=code)])


def create(client: ConsumerNetworkClient, deadline_ms: float) -> int:
    """Return the error code of a creation that is sent to the controller."""

    def read(response: CreateTopicsResponse, _keys: object) -> Iterator[tuple[str, KcliError | None]]:
        for topic in response.topics:
            yield topic.name, BrokerError(topic.error_code) if topic.error_code else None

    locate = partial(locate_controller, client)
    results = fan_out(client, ["t"], locate, lambda _node, _keys: CreateTopicsRequest(), read, deadline_ms)
    return getattr(results.errors.get("t"), "code", 0)


def test_a_moved_controller_is_looked_up_again() -> None:
    cluster = FakeCluster("a:9092", "b:9092")

    def answer(peer: MemoryPeer, request: Any, version: int) -> CreateTopicsResponse:
        if peer.address == "a:9092":
            del cluster.nodes[1]  # the fake cluster's controller is the first node there is
            return created(ErrorCode.NOT_CONTROLLER)
        return created(0)

    cluster.answers[ApiKey.CREATE_TOPICS] = answer
    assert create(cluster.connect("b:9092"), 5_000) == 0
    assert [asked.address for asked in cluster.requests(ApiKey.CREATE_TOPICS)] == ["a:9092", "b:9092"]


def test_not_controller_is_returned_at_the_deadline() -> None:
    cluster = FakeCluster("a:9092")
    cluster.answers[ApiKey.CREATE_TOPICS] = lambda p, r, v: created(ErrorCode.NOT_CONTROLLER)
    assert create(cluster.connect("a:9092"), 2_000) == ErrorCode.NOT_CONTROLLER
    assert len(cluster.requests(ApiKey.CREATE_TOPICS)) > 2


# Leaders


def delete_request(node: Node, partitions: list[TopicPartition]) -> DeleteRecordsRequest:
    parts = [DeleteRecordsPartition(partition_index=tp.partition) for tp in partitions]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="orders", partitions=parts)])


def read_deleted(response: DeleteRecordsResponse) -> Iterator[tuple[TopicPartition, int | KcliError]]:
    for topic in response.topics:
        for p in topic.partitions:
            outcome = BrokerError(p.error_code) if p.error_code else p.low_watermark
            yield TopicPartition(topic.name, p.partition_index), outcome


class Leaders:
    """Brokers that delete records only as leaders: `leads` maps a partition to an address."""

    def __init__(self, **leads: str) -> None:
        self.cluster = FakeCluster("a:9092", "b:9092")
        self.leads = {int(name[1:]): f"{host}:9092" for name, host in leads.items()}
        self.set_metadata()
        self.cluster.answers[ApiKey.DELETE_RECORDS] = self.delete
        self.client = self.cluster.connect("a:9092")

    def set_metadata(self, epoch: int = 0) -> None:
        ids = {"a:9092": 1, "b:9092": 2, "none:9092": -1}
        self.cluster.topics["orders"] = {n: (ids[address], epoch) for n, address in self.leads.items()}

    def delete(self, peer: MemoryPeer, request: DeleteRecordsRequest, version: int) -> DeleteRecordsResponse:
        results = [
            DeleteRecordsPartitionResult(
                partition_index=p.partition_index,
                low_watermark=10 + p.partition_index,
                error_code=0 if self.leads[p.partition_index] == peer.address else ErrorCode.NOT_LEADER_OR_FOLLOWER,
            )
            for p in request.topics[0].partitions
        ]
        return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="orders", partitions=results)])

    def ask(self, *partitions: TopicPartition, deadline_ms: float = 10_000) -> Any:
        return ask_leaders(self.client, partitions, delete_request, read_deleted, deadline_ms)


def test_each_leader_gets_one_request_side_by_side() -> None:
    world = Leaders(p0="a", p1="b", p2="a")
    found = world.ask(T0, T1, T2)
    assert (found.values, found.errors) == ({T0: 10, T1: 11, T2: 12}, {})
    asked = world.cluster.requests(ApiKey.DELETE_RECORDS)
    assert sorted(each.address for each in asked) == ["a:9092", "b:9092"]
    assert world.cluster.clock.now_ms() == 0


def test_known_leaders_need_no_metadata_request() -> None:
    world = Leaders(p0="a")
    for _ in range(3):
        world.ask(T0)
    assert len(world.cluster.requests(ApiKey.METADATA)) == 1
    assert world.cluster.clock.now_ms() == 0


def test_a_moved_leader_is_found_with_fresh_metadata_and_gets_only_its_partitions() -> None:
    world = Leaders(p0="a", p1="a")
    world.ask(T0, T1)
    world.leads[1] = "b:9092"
    world.set_metadata(epoch=1)
    found = world.ask(T0, T1)
    assert found.values == {T0: 10, T1: 11}
    last = world.cluster.requests(ApiKey.DELETE_RECORDS)[-1]
    assert last.address == "b:9092"
    assert [p.partition_index for p in last.request.topics[0].partitions] == [1]
    assert world.cluster.clock.now_ms() == 100


def test_a_partition_without_leader_is_retried_until_it_has_one() -> None:
    world = Leaders(p0="none", p1="b")
    world.cluster.selector.at(1_000, lambda: (world.leads.update({0: "b:9092"}), world.set_metadata(1)))
    assert world.ask(T0, T1).values == {T0: 10, T1: 11}
    assert world.cluster.clock.now_ms() < 2_500


def test_a_partition_without_leader_is_an_error_at_the_deadline() -> None:
    world = Leaders(p0="none", p1="b")
    found = world.ask(T0, T1, deadline_ms=3_000)
    assert found.values == {T1: 11}
    assert found.errors[T0].code is ErrorCode.LEADER_NOT_AVAILABLE
    assert world.cluster.clock.now_ms() == 3_000


def test_an_unknown_topic_or_partition_is_an_error_before_the_deadline() -> None:
    world = Leaders(p0="a")
    typo = TopicPartition("typo", 0)
    found = world.ask(T0, T2, typo)
    assert found.values == {T0: 10}
    assert found.errors[typo].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert str(found.errors[T2]) == "UNKNOWN_TOPIC_OR_PARTITION: orders has 1 partitions, and no number 2"
    assert world.cluster.clock.now_ms() <= 1_000


def test_a_topic_without_authorization_is_an_error_at_once() -> None:
    world = Leaders(p0="a")
    world.cluster.topic_errors["orders"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    found = world.ask(T0)
    assert found.errors[T0].code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert world.cluster.clock.now_ms() == 0


def test_an_unreachable_leader_is_an_error_of_its_partitions_only() -> None:
    world = Leaders(p0="a", p1="b")
    world.cluster.selector.refuse("b:9092")
    found = world.ask(T0, T1, deadline_ms=2_000)
    assert found.values == {T0: 10}
    assert isinstance(found.errors[T1], TimeoutExpired)
    assert "node 2, which the cluster advertises as b:9092, cannot be reached: connection refused" in str(
        found.errors[T1]
    )


def test_a_partition_missing_in_the_response_is_an_error() -> None:
    world = Leaders(p0="a", p1="a")
    world.cluster.answers[ApiKey.DELETE_RECORDS] = lambda p, r, v: DeleteRecordsResponse()
    found = world.ask(T0, T1, deadline_ms=3_000)
    assert isinstance(found.errors[T0], TimeoutExpired)
    assert "the response of a:9092 (node 1) does not contain orders-1" in str(found.errors[T1])
    assert world.cluster.clock.now_ms() == 3_000


def test_a_partition_missing_in_one_response_is_asked_for_again() -> None:
    world = Leaders(p0="a", p1="a")
    good = world.cluster.answers[ApiKey.DELETE_RECORDS]
    incomplete = [DeleteRecordsResponse()]
    world.cluster.answers[ApiKey.DELETE_RECORDS] = lambda *asked: incomplete.pop() if incomplete else good(*asked)
    assert world.ask(T0, T1).values == {T0: 10, T1: 11}


def test_a_coordinator_missing_in_one_response_is_asked_for_again() -> None:
    world = Leaders(p0="a")
    answers = [
        FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1, host="a", port=9092)]),
        FindCoordinatorResponse(),
    ]
    world.cluster.answers[ApiKey.FIND_COORDINATOR] = lambda *asked: answers.pop()
    assert find_coordinators(world.client, ["g"], GROUP, 5_000).values == {"g": Node(1, "a", 9092)}


def test_an_unreachable_cluster_raises_an_exception() -> None:
    world = Leaders(p0="a")
    world.cluster.selector.refuse("a:9092")
    error = failure_of(lambda: world.ask(T0, deadline_ms=1_000))
    assert str(error) == "no broker answered at a:9092: connection refused by a:9092 (while it waited for metadata)"


def test_no_keys_need_no_request() -> None:
    world = Leaders(p0="a")
    assert world.ask().values == {}
    assert find_coordinators(world.client, [], GROUP, 1_000).values == {}
    assert world.cluster.asked == []


# Coordinators


class CoordinatorCluster:
    """A cluster in which `where` maps each group to its coordinator, or to an error code."""

    def __init__(self, **where: str | int) -> None:
        self.cluster = FakeCluster("a:9092", "b:9092")
        self.where = where
        self.cluster.answers[ApiKey.FIND_COORDINATOR] = self.find
        self.cluster.answers[ApiKey.HEARTBEAT] = self.heartbeat
        self.cluster.answers[ApiKey.DELETE_GROUPS] = self.delete
        self.client = self.cluster.connect("a:9092")

    def find(self, peer: MemoryPeer, request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
        if version >= 4:
            return FindCoordinatorResponse(coordinators=[self.coordinator(key) for key in request.coordinator_keys])
        c = self.coordinator(request.key)
        return FindCoordinatorResponse(node_id=c.node_id, host=c.host, port=c.port, error_code=c.error_code)

    def coordinator(self, key: str) -> Coordinator:
        where = self.where[key]
        if isinstance(where, int):
            return Coordinator(key=key, node_id=-1, port=-1, error_code=where)
        return Coordinator(key=key, node_id={"a": 1, "b": 2}[where], host=where, port=9092)

    def is_home(self, group: str, peer: MemoryPeer) -> bool:
        return f"{self.where[group]}:9092" == peer.address

    def heartbeat(self, peer: MemoryPeer, request: HeartbeatRequest, version: int) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=0 if self.is_home(request.group_id, peer) else ErrorCode.NOT_COORDINATOR)

    def delete(self, peer: MemoryPeer, request: DeleteGroupsRequest, version: int) -> DeleteGroupsResponse:
        results = [
            DeletableGroupResult(group_id=g, error_code=0 if self.is_home(g, peer) else ErrorCode.NOT_COORDINATOR)
            for g in request.groups_names
        ]
        return DeleteGroupsResponse(results=results)


def test_coordinators_of_many_groups_are_found_with_one_request() -> None:
    world = CoordinatorCluster(g1="a", g2="b")
    found = find_coordinators(world.client, ["g1", "g2", "g1"], GROUP, 1_000)
    assert found.values == {"g1": Node(1, "a", 9092), "g2": Node(2, "b", 9092)}
    assert len(world.cluster.requests(ApiKey.FIND_COORDINATOR)) == 1


def test_an_older_broker_gets_one_request_per_group() -> None:
    world = CoordinatorCluster(g1="a", g2="b")
    world.cluster.versions[ApiKey.FIND_COORDINATOR] = (0, 3)
    found = find_coordinators(world.client, ["g1", "g2"], GROUP, 1_000)
    assert found.values == {"g1": Node(1, "a", 9092), "g2": Node(2, "b", 9092)}
    assert [asked.request.key for asked in world.cluster.requests(ApiKey.FIND_COORDINATOR)] == ["g1", "g2"]


def test_a_missing_coordinator_is_retried_and_a_refusal_is_an_error_of_its_group() -> None:
    world = CoordinatorCluster(g1=ErrorCode.COORDINATOR_NOT_AVAILABLE, g2=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    world.cluster.selector.at(500, lambda: world.where.update(g1="b"))
    found = find_coordinators(world.client, ["g1", "g2"], GROUP, 10_000)
    assert found.values == {"g1": Node(2, "b", 9092)}
    assert found.errors["g2"].code is ErrorCode.GROUP_AUTHORIZATION_FAILED  # type: ignore[attr-defined]
    late = find_coordinators(CoordinatorCluster(g=ErrorCode.COORDINATOR_NOT_AVAILABLE).client, ["g"], GROUP, 1_000)
    assert late.errors["g"].code is ErrorCode.COORDINATOR_NOT_AVAILABLE  # type: ignore[attr-defined]


def test_a_moved_coordinator_is_looked_up_again() -> None:
    world = CoordinatorCluster(g="a")

    def move(peer: MemoryPeer, request: HeartbeatRequest, version: int) -> HeartbeatResponse:
        world.where["g"] = "b"
        return world.heartbeat(peer, request, version)

    world.cluster.answers[ApiKey.HEARTBEAT] = move
    assert ask_coordinator(world.client, "g", HeartbeatRequest(group_id="g"), 5_000) == HeartbeatResponse()
    assert [asked.address for asked in world.cluster.requests(ApiKey.HEARTBEAT)] == ["a:9092", "b:9092"]


def test_a_refused_coordinator_lookup_is_raised() -> None:
    world = CoordinatorCluster(g=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    error = failure_of(lambda: ask_coordinator(world.client, "g", HeartbeatRequest(group_id="g"), 5_000))
    assert isinstance(error, BrokerError)
    assert error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_coordinators_get_their_requests_side_by_side() -> None:
    world = CoordinatorCluster(g1="a", g2="b", g3="a", g4=ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def read(response: DeleteGroupsResponse) -> Iterator[tuple[str, bool | KcliError]]:
        for result in response.results:
            yield result.group_id, BrokerError(result.error_code) if result.error_code else True

    found = Coordinators(world.client).ask(
        ["g1", "g2", "g3", "g4"],
        lambda groups: DeleteGroupsRequest(groups_names=groups),
        read,
        5_000,
    )
    assert found.values == {"g1": True, "g2": True, "g3": True}
    assert list(found.errors) == ["g4"]
    assert len(world.cluster.requests(ApiKey.DELETE_GROUPS)) == 2
