"""Requests to one node and to many, without routing: retries, deadlines, errors per node."""

from typing import Any

import pytest

from kcli.client.requests import Results, ask_any, ask_node, ask_nodes, error_codes_in
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, DisconnectedError, TimeoutExpired, WakeupError
from kcli.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from kcli.protocol.messages.heartbeat import HeartbeatResponse
from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kcli.protocol.registry import ApiKey
from kcli.structs import Node, TopicPartition
from tests.client.fake_cluster import FakeCluster, failure_of
from tests.network.memory import MemoryPeer


def test_another_node_is_asked_after_a_disconnection() -> None:
    cluster = FakeCluster("a:9092", "b:9092")
    client = cluster.connect("a:9092")
    client.ensure_fresh_metadata(1_000)
    cluster.answers[ApiKey.LIST_GROUPS] = lambda p, r, v: ListGroupsResponse() if p.address == "b:9092" else p.hang_up()
    ask_any(client, ListGroupsRequest(), 5_000)
    assert [asked.address for asked in cluster.requests(ApiKey.LIST_GROUPS)] == ["a:9092", "b:9092"]


def test_a_lost_node_is_asked_again_until_it_responds() -> None:
    cluster = FakeCluster("a:9092")
    cluster.answers[ApiKey.LIST_GROUPS] = lambda p, r, v: ListGroupsResponse()
    cluster.selector.refuse("a:9092")
    cluster.selector.at(2_000, lambda: cluster.selector.listen("a:9092"))
    client = cluster.connect("a:9092")
    assert ask_node(client, Node(1, "a", 9092), ListGroupsRequest(), 60_000) == ListGroupsResponse()
    assert 2_000 <= cluster.clock.now_ms() <= 4_000


def test_the_error_of_a_node_without_response_names_the_awaited_response() -> None:
    cluster = FakeCluster("a:9092")
    client = cluster.connect("a:9092")
    node = client.ensure_fresh_metadata(1_000).nodes[1]
    error = failure_of(lambda: ask_node(client, node, ListGroupsRequest(), 4_000))
    assert isinstance(error, TimeoutExpired)
    assert error.evidence["awaited"] == "ListGroups from a:9092 (node 1)"
    assert cluster.clock.now_ms() == 4_000


def test_the_error_of_a_lost_node_is_the_last_error_at_the_deadline() -> None:
    cluster = FakeCluster("a:9092")
    client = cluster.connect("a:9092")
    node = client.ensure_fresh_metadata(1_000).nodes[1]
    cluster.answers[ApiKey.LIST_GROUPS] = lambda p, r, v: p.hang_up()
    error = failure_of(lambda: ask_node(client, node, ListGroupsRequest(), 4_000))
    assert str(error) == "closed by a:9092 (while it waited for ListGroups)"


def test_a_request_that_is_given_up_is_never_sent_later() -> None:
    cluster = FakeCluster("a:9092", "b:9092")
    cluster.answers[ApiKey.LIST_GROUPS] = lambda p, r, v: None
    client = cluster.connect("a:9092")
    a, b = client.ensure_fresh_metadata(1_000).nodes.values()
    cluster.selector.hold("b:9092")
    sent, unsent = (client.send(node, ListGroupsRequest()) for node in (a, b))
    client.sleep(100)
    assert (client.give_up(sent, a), client.give_up(unsent, b)) == (True, False)
    cluster.selector.peers[-1].accept()
    client.sleep(5_000)
    assert client.negotiated(b.id) is not None
    assert [asked.address for asked in cluster.requests(ApiKey.LIST_GROUPS)] == ["a:9092"]
    assert isinstance(sent.error, DisconnectedError)
    assert sent.error.was_sent


def test_a_passed_deadline_allows_one_attempt() -> None:
    cluster = FakeCluster("a:9092")
    client = cluster.connect("a:9092")
    cluster.clock.advance(10_000)
    error = failure_of(lambda: ask_any(client, ListGroupsRequest(), 5_000))
    assert isinstance(error, TimeoutExpired)
    assert cluster.clock.now_ms() == 10_000


def test_each_node_gets_the_request_and_its_error_code_is_its_error() -> None:
    cluster = FakeCluster("a:9092", "b:9092", "c:9092")
    loading = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

    def list_groups(peer: MemoryPeer, _request: object, _version: int) -> ListGroupsResponse:
        if peer.address == "b:9092" and loading:
            return ListGroupsResponse(error_code=loading.pop())
        return ListGroupsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED if peer.address == "c:9092" else 0)

    cluster.answers[ApiKey.LIST_GROUPS] = list_groups
    client = cluster.connect("a:9092")
    a, b, c = client.ensure_fresh_metadata(1_000).nodes.values()
    results = ask_nodes(client, [a, b, c], ListGroupsRequest(), 5_000)
    assert set(results.values) == {a, b}
    error = results.errors[c]
    assert isinstance(error, BrokerError)
    assert (error.code, error.evidence) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, {"node": 3})
    assert len(cluster.requests(ApiKey.LIST_GROUPS)) == 4


def test_an_unreachable_node_is_a_timeout_of_that_node_at_the_deadline() -> None:
    cluster = FakeCluster("a:9092", "b:9092")
    cluster.answers[ApiKey.LIST_GROUPS] = lambda peer, request, version: ListGroupsResponse()
    cluster.selector.refuse("b:9092")
    client = cluster.connect("a:9092")
    a, b = client.ensure_fresh_metadata(1_000).nodes.values()
    results = ask_nodes(client, [a, b], ListGroupsRequest(), 2_000)
    assert set(results.values) == {a}
    assert isinstance(results.errors[b], TimeoutExpired)
    assert "node 2, which the cluster advertises as b:9092, cannot be reached" in str(results.errors[b])
    assert cluster.clock.now_ms() == 2_000


def test_the_error_code_of_an_attempt_is_reported_before_the_time_out_of_the_next() -> None:
    cluster = FakeCluster("a:9092")
    loading = [ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
    cluster.answers[ApiKey.LIST_GROUPS] = lambda peer, request, version: loading.pop() if loading else None
    client = cluster.connect("a:9092")
    (a,) = client.ensure_fresh_metadata(1_000).nodes.values()
    error = ask_nodes(client, [a], ListGroupsRequest(), 5_000).errors[a]
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert cluster.clock.now_ms() == 5_000


def test_a_wakeup_interrupts_a_fan_out_and_is_the_error_of_no_node() -> None:
    cluster = FakeCluster("a:9092", "b:9092")
    client = cluster.connect("a:9092")
    a, b = client.ensure_fresh_metadata(1_000).nodes.values()
    cluster.answers[ApiKey.LIST_GROUPS] = lambda peer, request, version: client.wakeup()
    error = failure_of(lambda: ask_nodes(client, [a, b], ListGroupsRequest(), 5_000))
    assert isinstance(error, WakeupError)
    assert cluster.clock.now_ms() < 1_000


def test_results_keep_values_and_errors_apart() -> None:
    results: Results[str, int] = Results({"a": 1})
    results.put("b", 2)
    results.put("c", DisconnectedError("closed"))
    assert (results.values, list(results.errors)) == ({"a": 1, "b": 2}, ["c"])


def test_results_are_read_by_their_keys() -> None:
    closed = DisconnectedError("closed")
    results = Results({"orders": None, "payments": 2}, {"returns": closed})
    assert (results["payments"], results["orders"]) == (2, None)
    with pytest.raises(DisconnectedError) as caught:
        results["returns"]
    assert caught.value is closed
    assert ("orders" in results, "returns" in results, "stock" in results) == (True, True, False)
    assert (list(results), len(results)) == (["orders", "payments", "returns"], 3)
    assert not Results()


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("ordres", "'ordres' was not requested (did you mean orders?)"),
        ("x", "'x' was not requested"),
        (
            TopicPartition("orders", 0),
            "TopicPartition(topic='orders', partition=0) was not requested (did you mean orders?)",
        ),
    ],
)
def test_a_result_that_was_not_requested_is_a_key_error(key: Any, text: str) -> None:
    results: Results[Any, int] = Results({"orders": 1}, {"returns": DisconnectedError("closed")})
    with pytest.raises(KeyError) as caught:
        results[key]
    assert caught.value.args == (text,)


def test_error_codes_are_those_of_a_response_and_of_the_elements_of_its_lists() -> None:
    assert list(
        error_codes_in(
            CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=ErrorCode.REQUEST_TIMED_OUT)])
        )
    ) == [0, 7]
    assert list(error_codes_in(HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR))) == [16]
