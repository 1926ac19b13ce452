"""The network client with an in-memory selector: connections, versions, responses, metadata, faulty brokers."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kcli.client.requests import ask_any, ask_node
from kcli.error_codes import ErrorCode
from kcli.errors import DisconnectedError, KcliError, ProtocolError, TimeoutExpired, UnsupportedVersion
from kcli.protocol.headers import encode_response
from kcli.protocol.messages.api_versions import ApiVersionsResponse
from kcli.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kcli.protocol.messages.produce import ProduceRequest
from kcli.protocol.registry import ApiKey
from kcli.structs import Node
from tests.client.fake_cluster import FakeCluster, failure_of
from tests.network.memory import MemoryPeer

A, B = Node(1, "a", 9092), Node(2, "b", 9092)


def cluster_with_groups(*addresses: str) -> FakeCluster:
    cluster = FakeCluster(*(addresses or ("a:9092",)))
    cluster.answers[ApiKey.LIST_GROUPS] = lambda peer, request, version: ListGroupsResponse()
    return cluster


def test_the_first_request_connects_and_negotiates_without_a_metadata_request() -> None:
    cluster = cluster_with_groups()
    client = cluster.connect("a:9092")
    ask_any(client, ListGroupsRequest(), 1_000)
    assert [asked.request.API_KEY for asked in cluster.asked] == [ApiKey.API_VERSIONS, ApiKey.LIST_GROUPS]
    assert cluster.clock.now_ms() == 0
    assert client.negotiated(-1) == cluster.versions
    assert client.negotiated(7) is None


def test_the_highest_common_version_is_used() -> None:
    cluster = cluster_with_groups()
    cluster.versions[ApiKey.LIST_GROUPS] = (0, 3)
    ask_any(cluster.connect("a:9092"), ListGroupsRequest(), 1_000)
    assert cluster.requests(ApiKey.LIST_GROUPS)[0].version == 3


def test_an_unsupported_api_is_an_error_at_once() -> None:
    cluster = cluster_with_groups()
    del cluster.versions[ApiKey.LIST_GROUPS]
    error = failure_of(lambda: ask_any(cluster.connect("a:9092"), ListGroupsRequest(), 9_000))
    assert isinstance(error, UnsupportedVersion)
    assert str(error) == "broker a:9092 (node -1) does not support ListGroups; kcli requires versions 0 to 5"
    assert cluster.clock.now_ms() == 0


def test_a_field_that_the_common_version_lacks_is_an_error_of_the_request_only() -> None:
    cluster = cluster_with_groups()
    cluster.versions[ApiKey.LIST_GROUPS] = (0, 3)
    client = cluster.connect("a:9092")
    error = failure_of(lambda: ask_any(client, ListGroupsRequest(states_filter=["Stable"]), 9_000))
    assert isinstance(error, ProtocolError)
    ask_any(client, ListGroupsRequest(), 9_000)
    assert len(cluster.selector.peers) == 1


def test_a_bootstrap_connection_is_adopted_by_the_broker_with_its_address() -> None:
    cluster = cluster_with_groups("a:9092", "b:9092")
    client = cluster.connect("b:9092")
    client.ensure_fresh_metadata(1_000)
    ask_node(client, B, ListGroupsRequest(), 1_000)
    assert [peer.address for peer in cluster.selector.peers] == ["b:9092"]
    ask_node(client, A, ListGroupsRequest(), 1_000)
    assert [peer.address for peer in cluster.selector.peers] == ["b:9092", "a:9092"]


# ApiVersions


def test_the_handshake_is_repeated_in_the_version_that_the_broker_names() -> None:
    cluster = cluster_with_groups()

    def old_broker(peer: MemoryPeer, request: object, version: int) -> ApiVersionsResponse | bytes:
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION if version > 2 else 0, api_keys=cluster.offered()
        )
        next(api for api in response.api_keys if api.api_key == ApiKey.API_VERSIONS).max_version = 2
        correlation_id = cluster.asked[-1].correlation_id
        return encode_response(response, 0, correlation_id) if version > 2 else response

    cluster.answers[ApiKey.API_VERSIONS] = old_broker
    ask_any(cluster.connect("a:9092"), ListGroupsRequest(), 1_000)
    assert [asked.version for asked in cluster.requests(ApiKey.API_VERSIONS)] == [4, 2]
    assert len(cluster.selector.peers) == 1


def test_the_handshake_is_repeated_in_v0_after_an_undecodable_response() -> None:
    """As librdkafka's mock broker responds: the array count is a plain byte, no tagged fields follow."""
    cluster = cluster_with_groups()

    def wrong(peer: MemoryPeer, request: object, version: int) -> ApiVersionsResponse | bytes:
        if version == 0:
            return ApiVersionsResponse(api_keys=cluster.offered())
        start = cluster.asked[-1].correlation_id.to_bytes(4, "big")
        return start + b"\0\0" + b"\x02" + bytes.fromhex("00030000000d") + bytes.fromhex("001200000002") + b"\0\0\0\0"

    cluster.answers[ApiKey.API_VERSIONS] = wrong
    client = cluster.connect("a:9092")
    ask_any(client, ListGroupsRequest(), 1_000)
    assert [asked.version for asked in cluster.requests(ApiKey.API_VERSIONS)] == [4, 0]
    assert [peer.closed for peer in cluster.selector.peers] == [True, False]
    assert cluster.clock.now_ms() == 0


def test_a_refused_handshake_is_in_the_error_at_the_deadline() -> None:
    cluster = FakeCluster("a:9092")
    cluster.answers[ApiKey.API_VERSIONS] = lambda peer, request, version: ApiVersionsResponse(
        error_code=ErrorCode.INVALID_REQUEST
    )
    error = failure_of(lambda: ask_any(cluster.connect("a:9092"), ListGroupsRequest(), 2_000))
    assert isinstance(error, TimeoutExpired)
    assert "no broker answered at a:9092: INVALID_REQUEST" in str(error)


# Connections


def test_all_addresses_of_a_host_are_tried_without_backoff() -> None:
    cluster = cluster_with_groups()
    cluster.hosts["a"] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    cluster.selector.refuse("10.0.0.1:9092")
    cluster.selector.refuse("10.0.0.2:9092")
    ask_any(cluster.connect("a:9092"), ListGroupsRequest(), 1_000)
    assert [peer.address for peer in cluster.selector.peers] == ["10.0.0.3:9092"]
    assert cluster.clock.now_ms() == 0


def test_the_next_address_is_tried_after_one_that_closes_the_connection() -> None:
    cluster = cluster_with_groups()
    cluster.hosts["a"] = ["10.0.0.1", "10.0.0.2"]
    answer = cluster.answers[ApiKey.API_VERSIONS]

    def hang_up_first(peer: MemoryPeer, request: object, version: int) -> object:
        return peer.hang_up() if peer.address == "10.0.0.1:9092" else answer(peer, request, version)

    cluster.answers[ApiKey.API_VERSIONS] = hang_up_first  # type: ignore[assignment]
    ask_any(cluster.connect("a:9092"), ListGroupsRequest(), 1_000)
    assert cluster.asked[-1].address == "10.0.0.2:9092"
    assert cluster.clock.now_ms() == 0


def test_bootstrap_servers_are_tried_one_after_another() -> None:
    cluster = cluster_with_groups()
    cluster.selector.refuse("x:9092")
    cluster.hosts["y"] = []
    ask_any(cluster.connect("x:9092,y:9092,a:9092"), ListGroupsRequest(), 5_000)
    assert cluster.asked[-1].address == "a:9092"


def test_another_server_is_tried_after_a_second_without_connection() -> None:
    cluster = cluster_with_groups()
    cluster.selector.hold("x:9092")
    client = cluster.connect("a:9092,x:9092")  # the second is the first choice of `in_the_middle`
    client.ensure_fresh_metadata(5_000)
    assert [peer.address for peer in cluster.selector.peers] == ["x:9092", "a:9092"]
    assert cluster.clock.now_ms() == 1_000


def test_a_host_name_is_resolved_again_when_all_addresses_failed() -> None:
    cluster = cluster_with_groups()
    cluster.hosts["a"] = ["10.0.0.1"]
    cluster.selector.refuse("10.0.0.1:9092")
    cluster.selector.at(300, lambda: cluster.hosts.update(a=["10.0.0.2"]))
    ask_any(cluster.connect("a:9092"), ListGroupsRequest(), 5_000)
    assert cluster.asked[-1].address == "10.0.0.2:9092"


def test_the_reconnection_backoff_grows() -> None:
    cluster, attempts = FakeCluster("a:9092"), list[float]()

    def no_address(host: str, port: int) -> list[tuple[int, object]]:
        attempts.append(cluster.clock.now_ms())
        raise OSError("no such host")

    cluster.resolve = no_address  # type: ignore[method-assign,assignment]
    client = cluster.connect("a:9092", retry_backoff_ms=1, retry_backoff_max_ms=1)
    failure_of(lambda: client.ensure_fresh_metadata(3_000))
    gaps = [later - earlier for earlier, later in itertools.pairwise(attempts)]
    assert gaps == [50, 100, 200, 400, 800, 1_000]


def test_a_connection_attempt_ends_at_the_setup_timeout() -> None:
    cluster = cluster_with_groups()
    cluster.selector.hold("a:9092")
    client = cluster.connect("a:9092", socket_connection_setup_timeout_ms=2_000)
    future = client.send(Node(-1, "a", 9092), ListGroupsRequest())
    with pytest.raises(DisconnectedError, match="no connection after 2000 ms"):
        client.wait(future, 10_000)
    assert cluster.clock.now_ms() == 2_000


def test_a_connection_closed_while_idle_is_reopened_by_the_next_request() -> None:
    cluster = cluster_with_groups()
    client = cluster.connect("a:9092")
    ask_any(client, ListGroupsRequest(), 1_000)
    cluster.selector.peers[0].hang_up()
    client.poll(timeout_ms=0)
    before_ms = cluster.clock.now_ms()
    ask_any(client, ListGroupsRequest(), 1_000)
    assert len(cluster.selector.peers) == 2
    assert cluster.clock.now_ms() == before_ms


def test_a_moved_node_is_connected_at_its_new_address() -> None:
    cluster = cluster_with_groups()
    client = cluster.connect("a:9092")
    ask_node(client, Node(1, "a", 9092), ListGroupsRequest(), 1_000)
    ask_node(client, Node(1, "c", 9093), ListGroupsRequest(), 1_000)
    assert [peer.address for peer in cluster.selector.peers] == ["a:9092", "c:9093"]
    assert cluster.selector.peers[0].closed


# Late, wrong and missing responses


def test_a_request_timeout_disconnects_the_node_and_fails_all_its_requests() -> None:
    cluster = FakeCluster("a:9092")
    client = cluster.connect("a:9092", request_timeout_ms=3_000)
    slow = client.send(A, ListGroupsRequest())
    later = client.send(A, DescribeClusterRequest(), timeout_ms=60_000)
    assert client.poll(until=later, timeout_ms=10_000)
    assert cluster.clock.now_ms() == 3_000
    for future in (slow, later):
        assert isinstance(future.error, DisconnectedError)
        assert future.error.message == "a:9092 (node 1) did not answer ListGroups in 3000 ms"
        assert future.retriable
    assert cluster.selector.peers[0].closed
    assert client.pending_count == 0


def test_a_request_can_have_its_own_timeout() -> None:
    cluster = FakeCluster("a:9092")
    client = cluster.connect("a:9092")
    future = client.send(A, ListGroupsRequest(), timeout_ms=250)
    client.poll(until=future, timeout_ms=10_000)
    assert cluster.clock.now_ms() == 250


def test_a_wrong_correlation_id_closes_the_connection() -> None:
    cluster = FakeCluster("a:9092")
    cluster.answers[ApiKey.DESCRIBE_CLUSTER] = lambda p, r, v: encode_response(ListGroupsResponse(), 5, 77)
    client = cluster.connect("a:9092")
    wrong, following = client.send(A, ListGroupsRequest()), client.send(A, DescribeClusterRequest())
    client.poll(until=following, timeout_ms=1_000)
    assert isinstance(wrong.error, DisconnectedError)
    assert str(wrong.error) == (
        "a:9092 (node 1) sent a response that is not valid: it answers request 77, not 2 (ListGroups) "
        "(node 1, request ListGroups)"
    )
    assert isinstance(following.error, DisconnectedError)
    assert cluster.selector.peers[0].closed


@pytest.mark.parametrize("body", ["", "00", "0000007f", "000000007fffffff"])
def test_an_undecodable_response_fails_its_request_and_closes_the_connection(body: str) -> None:
    cluster = FakeCluster("a:9092")
    cluster.versions[ApiKey.LIST_GROUPS] = (0, 0)

    def garbage(peer: MemoryPeer, request: object, version: int) -> bytes:
        return cluster.asked[-1].correlation_id.to_bytes(4, "big") + bytes.fromhex(body)

    cluster.answers[ApiKey.LIST_GROUPS] = garbage
    client = cluster.connect("a:9092")
    future = client.send(A, ListGroupsRequest())
    assert client.poll(until=future, timeout_ms=1_000)
    assert isinstance(future.error, DisconnectedError)
    assert "a:9092 (node 1) sent a response that is not valid: " in str(future.error)
    assert cluster.selector.peers[0].closed


def cut_short(correlation_id: int) -> bytes:
    return correlation_id.to_bytes(4, "big") + b"\0\0"


def of_another_request(correlation_id: int) -> bytes:
    return (correlation_id + 5).to_bytes(4, "big") + b"\0" * 40


def noise(correlation_id: int) -> bytes:
    return correlation_id.to_bytes(4, "big") + bytes(range(7, 250))


MALFORMED = [cut_short, of_another_request, noise]


@pytest.mark.parametrize("malformed", MALFORMED)
@pytest.mark.parametrize("api", [ApiKey.LIST_GROUPS, ApiKey.METADATA, ApiKey.API_VERSIONS], ids=lambda key: key.name)
def test_one_malformed_response_is_survived_as_a_broken_connection_is(
    api: ApiKey, malformed: Callable[[int], bytes]
) -> None:
    cluster = cluster_with_groups()
    good, spoiled = cluster.answers[api], []

    def answer(peer: MemoryPeer, request: Any, version: int) -> Any:
        if not spoiled:
            spoiled.append(peer)
            return malformed(cluster.asked[-1].correlation_id)
        return good(peer, request, version)

    cluster.answers[api] = answer
    client = cluster.connect("a:9092")
    cluster.topics = {"t": {0: (1, 0)}}
    assert client.topics_metadata(["t"], 30_000).topics["t"].partitions
    assert ask_any(client, ListGroupsRequest(), 30_000) == ListGroupsResponse()
    assert spoiled[0].closed
    assert cluster.clock.now_ms() < 1_000


@pytest.mark.parametrize("malformed", MALFORMED)
def test_malformed_responses_until_the_deadline_are_a_time_out(malformed: Callable[[int], bytes]) -> None:
    cluster = cluster_with_groups()
    cluster.answers[ApiKey.LIST_GROUPS] = lambda p, r, v: malformed(cluster.asked[-1].correlation_id)
    client = cluster.connect("a:9092")
    error = failure_of(lambda: ask_any(client, ListGroupsRequest(), 5_000))
    assert isinstance(error, TimeoutExpired | DisconnectedError)
    assert "sent a response that is not valid" in str(error)
    assert cluster.clock.now_ms() == 5_000


def test_a_response_without_request_closes_the_connection() -> None:
    cluster = cluster_with_groups()
    client = cluster.connect("a:9092")
    ask_node(client, A, ListGroupsRequest(), 1_000)
    cluster.selector.peers[0].deliver(b"\0\0\0\x09")
    client.poll(timeout_ms=0)
    assert cluster.selector.peers[0].closed


def test_requests_to_a_lost_node_fail_with_the_reason() -> None:
    cluster = FakeCluster("a:9092")
    cluster.answers[ApiKey.LIST_GROUPS] = lambda peer, request, version: peer.hang_up()
    client = cluster.connect("a:9092")
    future = client.send(A, ListGroupsRequest())
    client.poll(until=future, timeout_ms=1_000)
    assert str(future.error) == "closed by a:9092 (node 1, request ListGroups)"


def test_requests_are_pipelined() -> None:
    cluster = FakeCluster("a:9092")
    client = cluster.connect("a:9092")
    for _ in range(3):
        client.send(A, ListGroupsRequest())
    client.poll(timeout_ms=10)
    assert len(cluster.requests(ApiKey.LIST_GROUPS)) == 3


def test_the_producer_configuration_limits_the_requests_in_flight() -> None:
    from kcli.client.config import ProducerConfig
    from kcli.client.connect import connect

    cluster = FakeCluster("a:9092")
    config = ProducerConfig.from_properties({"bootstrap.servers": "a:9092", "max.in.flight.requests.per.connection": 2})
    client = connect(config, cluster.clock, selector=cluster.selector, resolve=cluster.resolve)
    for _ in range(4):
        client.send(A, ListGroupsRequest())
    client.poll(timeout_ms=10)
    assert len(cluster.requests(ApiKey.LIST_GROUPS)) == 2
    assert client.pending_count == 4


def test_a_request_without_response_is_done_when_it_is_written() -> None:
    cluster = cluster_with_groups()
    client = cluster.connect("a:9092")
    silent = client.send(A, ProduceRequest(acks=0, timeout_ms=1_000))
    assert client.poll(until=silent, timeout_ms=1_000)
    assert silent.value() is None
    ask_node(client, A, ListGroupsRequest(), 1_000)
    assert cluster.clock.now_ms() == 0


def test_no_request_is_sent_while_the_broker_throttles() -> None:
    cluster = FakeCluster("a:9092")
    throttle = iter([700, 0])
    cluster.answers[ApiKey.LIST_GROUPS] = lambda p, r, v: ListGroupsResponse(throttle_time_ms=next(throttle))
    client = cluster.connect("a:9092")
    ask_any(client, ListGroupsRequest(), 5_000)
    assert cluster.clock.now_ms() == 0
    ask_any(client, ListGroupsRequest(), 5_000)
    assert cluster.clock.now_ms() == 700


def test_correlation_ids_wrap_before_they_become_negative() -> None:
    cluster = cluster_with_groups()
    client = cluster.connect("a:9092")
    ask_any(client, ListGroupsRequest(), 1_000)
    client._network._last_correlation_id = 2**31 - 2
    for _ in range(3):
        ask_any(client, ListGroupsRequest(), 1_000)
    assert [asked.correlation_id for asked in cluster.requests(ApiKey.LIST_GROUPS)][1:] == [2**31 - 1, 0, 1]


# Metadata and rebootstrap


def test_metadata_is_refreshed_by_age_during_any_wait() -> None:
    cluster = FakeCluster("a:9092")
    client = cluster.connect("a:9092", metadata_max_age_ms=10_000)
    client.ensure_fresh_metadata(1_000)
    client.sleep(35_000)
    assert len(cluster.requests(ApiKey.METADATA)) == 4


def test_a_lost_node_causes_a_metadata_request() -> None:
    cluster = FakeCluster("a:9092", "b:9092")
    client = cluster.connect("a:9092")
    client.ensure_fresh_metadata(1_000)
    cluster.answers[ApiKey.LIST_GROUPS] = lambda peer, request, version: peer.hang_up()
    client.poll(until=client.send(B, ListGroupsRequest()), timeout_ms=1_000)
    client.sleep(500)
    assert len(cluster.requests(ApiKey.METADATA)) == 2


def replaced_cluster(strategy: str) -> FakeCluster:
    """Brokers 1 and 2 are replaced by broker 3 at the same bootstrap name, while the client is idle."""
    cluster = cluster_with_groups("a:9092", "b:9092")
    cluster.hosts["boot"] = ["a"]
    client = cluster.connect("boot:9092", metadata_recovery_strategy=strategy)
    client.ensure_fresh_metadata(1_000)
    for peer in cluster.selector.peers:
        peer.reset()
    for address in ("a:9092", "b:9092"):
        cluster.selector.refuse(address)
    cluster.hosts["boot"] = ["c"]
    cluster.nodes = {3: Node(3, "c", 9092)}
    cluster.client = client  # type: ignore[attr-defined]
    return cluster


def test_the_client_rebootstraps_when_all_known_nodes_are_lost() -> None:
    cluster = replaced_cluster("rebootstrap")
    client = cluster.client  # type: ignore[attr-defined]
    assert list(client.ensure_fresh_metadata(10_000).nodes) == [3]
    ask_any(client, ListGroupsRequest(), 10_000)
    assert cluster.asked[-1].address == "c:9092"


def test_the_client_does_not_rebootstrap_with_recovery_strategy_none() -> None:
    cluster = replaced_cluster("none")
    error = failure_of(lambda: cluster.client.ensure_fresh_metadata(10_000))  # type: ignore[attr-defined]
    assert isinstance(error, TimeoutExpired)
    assert "node 1, which the cluster advertises as a:9092, cannot be reached: connection refused" in str(error)
    assert "node 2" in str(error)


def test_the_client_rebootstraps_after_five_minutes_without_metadata() -> None:
    """KIP-1102: the known node accepts connections, but does not respond to Metadata."""
    cluster = FakeCluster("a:9092")
    cluster.hosts["boot"] = ["a"]
    client = cluster.connect("boot:9092", request_timeout_ms=20_000, metadata_recovery_rebootstrap_trigger_ms=60_000)
    client.ensure_fresh_metadata(1_000)
    answer = cluster.answers[ApiKey.METADATA]
    cluster.answers[ApiKey.METADATA] = lambda p, r, v: answer(p, r, v) if p.address == "c:9092" else None
    cluster.hosts["boot"] = ["c"]
    client.ensure_fresh_metadata(200_000)
    assert 60_000 < cluster.clock.now_ms() < 90_000


def test_a_broker_that_would_create_missing_topics_gets_no_metadata_request() -> None:
    cluster = FakeCluster("a:9092")
    cluster.versions[ApiKey.METADATA] = (0, 3)
    client = cluster.connect("a:9092")
    error = failure_of(lambda: client.topics_metadata(["typo"], 5_000))
    assert isinstance(error, UnsupportedVersion)
    assert "Metadata versions 0 to 3, but kcli requires versions 4 to 13" in str(error)
    assert cluster.requests(ApiKey.METADATA) == []
    client.close()
    cluster = FakeCluster("a:9092")
    cluster.versions[ApiKey.METADATA] = (0, 3)
    found = cluster.connect("a:9092", allow_auto_create_topics="true").topics_metadata(["new"], 5_000)
    assert list(found.nodes) == [1]


def test_the_least_loaded_node_is_chosen() -> None:
    cluster = FakeCluster("a:9092", "b:9092")
    client = cluster.connect("a:9092")
    client.ensure_fresh_metadata(1_000)
    cluster.answers[ApiKey.DESCRIBE_CLUSTER] = lambda p, r, v: DescribeClusterResponse()
    ask_node(client, B, DescribeClusterRequest(), 1_000)
    client.send(B, ListGroupsRequest())
    client.poll(timeout_ms=1)
    assert client.least_loaded_node() == A
    client.send(A, ListGroupsRequest())
    client.send(A, ListGroupsRequest())
    client.poll(timeout_ms=1)
    assert client.least_loaded_node() == B


def test_all_errors_of_a_lost_node_are_retriable() -> None:
    cluster = FakeCluster("a:9092")
    cluster.selector.refuse("a:9092")
    client = cluster.connect("a:9092")
    future = client.send(A, ListGroupsRequest())
    client.poll(until=future, timeout_ms=1_000)
    error = future.error
    assert isinstance(error, KcliError)
    assert error.retriable
    assert str(error) == "connection refused by a:9092 (node 1, request ListGroups)"
