"""ConsumerNetworkClient: unsent requests, timeouts, metadata, error messages, wake-up and several threads."""

import socket
import threading
from collections.abc import Callable
from functools import partial

import pytest

from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.client.request_future import RequestFuture
from kcli.clock import SystemClock
from kcli.consumer.group.heartbeat import HeartbeatThread, NextBeat
from kcli.error_codes import ErrorCode
from kcli.errors import DisconnectedError, Refused, TimeoutExpired, WakeupError
from kcli.network.selector import Selector
from kcli.protocol.headers import decode_request_header, encode_response
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kcli.protocol.messages.create_topics import CreateTopicsRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kcli.protocol.messages.metadata import MetadataResponse
from kcli.protocol.registry import ApiKey
from kcli.structs import Node
from tests.client.fake_cluster import FakeCluster, failure_of
from tests.limits import Limit

A, B = Node(1, "a", 9092), Node(2, "b", 9092)


def responsive_cluster(*addresses: str) -> FakeCluster:
    cluster = FakeCluster(*(addresses or ("a:9092",)))
    cluster.answers[ApiKey.LIST_GROUPS] = lambda peer, request, version: ListGroupsResponse()
    return cluster


def test_a_request_is_sent_by_the_next_poll() -> None:
    cluster = responsive_cluster()
    client = cluster.connect("a:9092")
    future = client.send(A, ListGroupsRequest())
    assert not future.done
    assert client.pending_count == 1
    assert client.poll(until=future, timeout_ms=1_000)
    assert future.value() == ListGroupsResponse()
    assert client.pending_count == 0
    assert cluster.clock.now_ms() == 0


def test_a_client_with_a_refusal_sends_requests_that_change_nothing() -> None:
    cluster = responsive_cluster()
    client = cluster.connect("a:9092")
    client.refusal = "profile a is read-only"
    client.send(A, ListGroupsRequest())
    client.send(A, CreateTopicsRequest(validate_only=True))
    with pytest.raises(Refused, match=r"^profile a is read-only: CreateTopics changes the cluster; it was not sent$"):
        client.send(A, CreateTopicsRequest())
    assert client.pending_count == 2


def test_poll_until_a_future_ends_at_the_timeout() -> None:
    client = responsive_cluster().connect("a:9092")
    never: RequestFuture[int] = RequestFuture()
    assert not client.poll(until=never, timeout_ms=250)
    assert client.clock.now_ms() == 250


def test_poll_without_a_future_returns_after_the_first_completed_request() -> None:
    cluster = FakeCluster("a:9092")
    client = cluster.connect("a:9092")
    future = client.send(A, ListGroupsRequest())
    assert not client.poll(timeout_ms=100)
    cluster.selector.at(400, lambda: cluster.selector.peers[0].hang_up())
    assert client.poll(timeout_ms=1_000)
    assert future.failed
    assert cluster.clock.now_ms() == 400


def test_poll_without_a_future_returns_after_a_metadata_response() -> None:
    cluster = FakeCluster("a:9092")
    client = cluster.connect("a:9092")
    client.metadata.add_topics(["orders"])
    assert client.poll(timeout_ms=1_000)
    assert client.metadata.update_version == 1
    assert cluster.clock.now_ms() == 0


def test_poll_with_a_timeout_of_zero_takes_the_events_that_are_ready() -> None:
    cluster = responsive_cluster()
    client = cluster.connect("a:9092")
    future = client.send(A, ListGroupsRequest())
    rounds = 0
    while not future.done:
        client.poll(timeout_ms=0)
        rounds += 1
        assert rounds < 10
    assert cluster.clock.now_ms() == 0


def test_a_request_without_connection_expires() -> None:
    cluster = responsive_cluster()
    cluster.selector.hold("a:9092")
    client = cluster.connect("a:9092")
    future = client.send(A, ListGroupsRequest(), timeout_ms=300)
    assert client.poll(until=future, timeout_ms=5_000)
    assert isinstance(future.error, TimeoutExpired)
    assert future.error.message == "ListGroups from a:9092 (node 1) could not be sent in time"
    assert cluster.clock.now_ms() == 300


def test_only_requests_to_the_lost_node_fail() -> None:
    cluster = responsive_cluster("a:9092", "b:9092")
    cluster.selector.refuse("a:9092")
    client = cluster.connect("b:9092")
    lost = [client.send(A, ListGroupsRequest()) for _ in range(3)]
    fine = client.send(B, ListGroupsRequest())
    assert client.poll(until=fine, timeout_ms=1_000)
    assert fine.succeeded
    assert [type(future.error) for future in lost] == [DisconnectedError] * 3
    assert client.is_unavailable(A)
    assert not client.is_unavailable(B)
    again = client.send(A, ListGroupsRequest())
    client.poll(timeout_ms=0)
    assert again.failed
    cluster.selector.listen("a:9092")
    client.sleep(60)
    assert not client.is_unavailable(A)
    assert client.wait(client.send(A, ListGroupsRequest()), 1_000) == ListGroupsResponse()


def test_a_listener_can_send_another_request() -> None:
    cluster = responsive_cluster()
    client = cluster.connect("a:9092")
    twice = client.send(A, ListGroupsRequest()).then(lambda _: client.send(A, ListGroupsRequest()))
    assert client.poll(until=twice, timeout_ms=1_000)
    assert len(cluster.requests(ApiKey.LIST_GROUPS)) == 2


def test_disconnect_fails_the_requests_to_the_node() -> None:
    cluster = FakeCluster("a:9092")
    client = cluster.connect("a:9092")
    future = client.send(A, ListGroupsRequest())
    client.poll(timeout_ms=10)
    client.disconnect(A)
    client.poll(until=future, timeout_ms=10)
    assert str(future.error) == "disconnected from a:9092 (node 1) by request (node 1, request ListGroups)"
    assert cluster.selector.peers[0].closed


def test_wait_returns_the_value_or_raises_an_error_with_the_awaited_response() -> None:
    client = responsive_cluster().connect("a:9092")
    assert client.wait(client.send(A, ListGroupsRequest()), 1_000) == ListGroupsResponse()
    never: RequestFuture[int] = RequestFuture("Heartbeat")
    error = failure_of(lambda: client.wait(never, 1_000))
    assert isinstance(error, TimeoutExpired)
    assert str(error) == "no response to Heartbeat in time (while it waited for Heartbeat)"


# Metadata


def test_ensure_fresh_metadata_sends_a_request_each_time() -> None:
    cluster = FakeCluster("a:9092", "b:9092")
    client = cluster.connect("a:9092")
    for _ in range(3):
        assert list(client.ensure_fresh_metadata(1_000).nodes) == [1, 2]
    assert len(cluster.requests(ApiKey.METADATA)) == 3
    assert cluster.clock.now_ms() == 0


def test_topics_metadata_requests_the_named_topics_or_all() -> None:
    cluster = FakeCluster("a:9092")
    cluster.topics = {"orders": {0: (1, 0)}, "payments": {0: (1, 0)}}
    client = cluster.connect("a:9092")
    assert list(client.topics_metadata(["orders"], 1_000).topics) == ["orders"]
    assert sorted(client.topics_metadata(None, 1_000).topics) == ["orders", "payments"]
    assert cluster.requests(ApiKey.METADATA)[-1].request.topics is None


def test_an_unknown_topic_is_an_error_before_the_deadline() -> None:
    cluster = FakeCluster("a:9092")
    found = cluster.connect("a:9092").topics_metadata(["typo"], 60_000)
    assert found.topics["typo"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(cluster.requests(ApiKey.METADATA)) == 4
    assert cluster.clock.now_ms() == 100 + 200 + 400
    assert not any(asked.request.allow_auto_topic_creation for asked in cluster.requests(ApiKey.METADATA))


def test_a_topic_created_a_moment_ago_is_found_by_a_retry() -> None:
    cluster = FakeCluster("a:9092")
    cluster.selector.at(50, lambda: cluster.topics.update(fresh={0: (1, 0)}))
    found = cluster.connect("a:9092").topics_metadata(["fresh"], 60_000)
    assert found.topics["fresh"].error is ErrorCode.NONE


def test_topics_metadata_waits_for_the_leaders_of_a_topic() -> None:
    cluster = FakeCluster("a:9092")
    cluster.topics = {"slow": {0: (1, 0)}}
    cluster.topic_errors = {"slow": ErrorCode.LEADER_NOT_AVAILABLE}
    cluster.selector.at(900, cluster.topic_errors.clear)
    client = cluster.connect("a:9092")
    assert client.topics_metadata(["slow"], 60_000).topics["slow"].error is ErrorCode.NONE
    assert 900 <= cluster.clock.now_ms() <= 1_600


def test_a_topic_without_leaders_is_returned_with_an_error_at_the_deadline() -> None:
    cluster = FakeCluster("a:9092")
    cluster.topic_errors = {"slow": ErrorCode.LEADER_NOT_AVAILABLE}
    found = cluster.connect("a:9092").topics_metadata(["slow"], 3_000)
    assert found.topics["slow"].error is ErrorCode.LEADER_NOT_AVAILABLE
    assert cluster.clock.now_ms() == 3_000


def test_an_error_of_the_metadata_response_is_raised_at_once() -> None:
    cluster = FakeCluster("a:9092")
    cluster.answers[ApiKey.METADATA] = lambda p, r, v: MetadataResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    client = cluster.connect("a:9092")
    error = failure_of(lambda: client.ensure_fresh_metadata(9_000))
    assert "CLUSTER_AUTHORIZATION_FAILED" in str(error)
    assert cluster.clock.now_ms() == 0


# Error messages


def test_the_error_names_the_unreachable_bootstrap_server_and_the_reason() -> None:
    cluster = FakeCluster("a:9092")
    cluster.selector.refuse("a:9092")
    client = cluster.connect("a:9092")
    error = failure_of(lambda: client.topics_metadata(None, 5_000))
    assert isinstance(error, TimeoutExpired)
    assert str(error) == "no broker answered at a:9092: connection refused by a:9092 (while it waited for metadata)"
    assert cluster.clock.now_ms() == 5_000


def test_the_error_names_all_unreachable_bootstrap_servers() -> None:
    cluster = FakeCluster("a:9092")
    cluster.selector.refuse("a:9092")
    cluster.hosts["b"] = []
    error = failure_of(lambda: cluster.connect("a:9092,b:9093").ensure_fresh_metadata(5_000))
    assert "a:9092 (connection refused by a:9092), b:9093 (the host name b cannot be resolved: " in str(error)


def test_the_error_distinguishes_a_server_without_response_from_an_unreachable_one() -> None:
    for silent, sentence in ((False, "no connection after 2000 ms"), (True, "connected, but no response for 2000 ms")):
        cluster = FakeCluster("a:9092")
        if silent:
            del cluster.answers[ApiKey.API_VERSIONS]
        else:
            cluster.selector.hold("a:9092")
        error = failure_of(partial(cluster.connect("a:9092").ensure_fresh_metadata, 2_000))
        assert f"no broker answered at a:9092: {sentence}" in str(error)


def test_a_broker_that_has_answered_before_is_not_suspected_of_another_listener() -> None:
    hint = "is it a Kafka broker's plaintext listener?"
    cluster = FakeCluster("a:9092")
    del cluster.answers[ApiKey.API_VERSIONS]
    assert hint in str(failure_of(partial(cluster.connect("a:9092").ensure_fresh_metadata, 2_000)))
    cluster = FakeCluster("a:9092")
    client = cluster.connect("a:9092")
    node = client.ensure_fresh_metadata(1_000).nodes[1]
    del cluster.answers[ApiKey.API_VERSIONS]
    client.disconnect(node)
    client.poll(until=client.send(node, ListGroupsRequest()), timeout_ms=1_000)
    message = str(client.timed_out("ListGroups", node))
    assert "connected, but no response for " in message
    assert hint not in message


def test_the_error_names_an_unreachable_advertised_address() -> None:
    cluster = FakeCluster("kafka-1:9092")
    cluster.hosts = {"localhost": ["127.0.0.1"], "kafka-1": []}
    client = cluster.connect("localhost:9092")
    node = client.ensure_fresh_metadata(1_000).nodes[1]
    error = client.timed_out("ListOffsets", node)
    assert str(error) == "no response to ListOffsets in time (while it waited for ListOffsets)"
    client.poll(until=client.send(node, ListGroupsRequest()), timeout_ms=1_000)
    message = str(client.timed_out("ListOffsets", node))
    assert message.startswith("node 1, which the cluster advertises as kafka-1:9092, cannot be reached: ")
    assert "the host name kafka-1 cannot be resolved" in message


# Wake-up and threads


def test_wakeup_interrupts_exactly_one_poll() -> None:
    client = responsive_cluster().connect("a:9092")
    client.wakeup()
    with pytest.raises(WakeupError):
        client.poll(timeout_ms=1_000)
    assert not client.poll(timeout_ms=10)


def test_wakeup_does_not_hide_a_completed_future() -> None:
    client = responsive_cluster().connect("a:9092")
    client.wakeup()
    assert client.poll(until=RequestFuture.success(1), timeout_ms=1_000)
    with pytest.raises(WakeupError):
        client.poll(timeout_ms=0)


def test_another_thread_can_interrupt_a_waiting_poll() -> None:
    with connect(ClientConfig.from_properties({}), SystemClock()) as client:
        threading.Timer(0.05, client.wakeup).start()
        with pytest.raises(WakeupError):
            client.sleep(30_000)


def test_a_thread_gets_the_lock_while_another_one_waits_in_a_poll() -> None:
    with connect(ClientConfig.from_properties({}), SystemClock()) as client:
        sleeper = threading.Thread(target=lambda: client.poll(until=done, timeout_ms=30_000))
        done: RequestFuture[int] = RequestFuture()
        sleeper.start()
        for _ in range(100):
            assert client.least_loaded_node() == Node(-1, "localhost", 9092)
        assert sleeper.is_alive()
        done.complete(1)
        client.sleep(0)
        sleeper.join(10)
        assert not sleeper.is_alive()


def test_a_future_completed_by_serve_ends_the_next_poll() -> None:
    cluster = responsive_cluster()
    client = cluster.connect("a:9092")
    awaited, other = client.send(A, ListGroupsRequest()), client.send(A, ListGroupsRequest())
    while not awaited.done:
        client.serve(awaited, 100)
    assert not other.done, "it is for the thread that polls to settle"
    assert client.poll(timeout_ms=1_000)
    assert other.done
    assert client.clock.now_ms() == 0, "it did not sleep over what it could not know"
    assert not client.poll(timeout_ms=10)


def test_serve_does_not_end_a_poll_for_another_future() -> None:
    cluster = responsive_cluster()
    client = cluster.connect("a:9092")
    awaited = client.send(A, ListGroupsRequest())
    while not awaited.done:
        client.serve(awaited, 100)
    client.sleep(250)
    assert client.clock.now_ms() == 250
    assert client.poll(timeout_ms=1_000)
    assert client.clock.now_ms() == 250


def test_two_threads_poll_and_each_gets_its_response() -> None:
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer = server.accept()[0]
        with server, peer, peer.makefile("rb") as stream:
            while length := stream.read(4):
                header, _ = decode_request_header(stream.read(int.from_bytes(length, "big")))
                versions = [ApiVersion(api_key=16, min_version=0, max_version=5)]
                answer = ApiVersionsResponse(api_keys=versions) if header.api_key == 18 else ListGroupsResponse()
                frame = encode_response(answer, header.api_version, header.correlation_id)
                peer.sendall(len(frame).to_bytes(4, "big") + frame)

    threading.Thread(target=serve, daemon=True).start()
    port = server.getsockname()[1]
    node, clock = Node(1, "127.0.0.1", port), SystemClock()
    counts = {"one": 0, "two": 0}
    with connect(ClientConfig.from_properties({"bootstrap.servers": f"127.0.0.1:{port}"}), clock) as client:

        def ask(name: str) -> None:
            for _ in range(200):
                client.wait(client.send(node, ListGroupsRequest()), clock.now_ms() + 20_000)
                counts[name] += 1

        threads = [threading.Thread(target=ask, args=(name,)) for name in counts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert counts == {"one": 200, "two": 200}


class CountingSelector(Selector):
    """Counts its polls."""

    polls = 0

    def poll(self, timeout_ms: float) -> None:
        self.polls += 1
        super().poll(timeout_ms)


def poll_in_a_thread(client: ConsumerNetworkClient) -> Callable[[], None]:
    """Wait in another thread for a future; return a function that ends the wait."""
    awaited: RequestFuture[None] = RequestFuture()
    thread = threading.Thread(target=lambda: client.poll(until=awaited, timeout_ms=30_000))
    thread.start()

    def end() -> None:
        awaited.complete(None)
        client.least_loaded_node()  # interrupts the network wait
        thread.join(10)
        assert not thread.is_alive()

    return end


def await_heartbeat_in_a_thread(client: ConsumerNetworkClient) -> Callable[[], None]:
    """Await a response in a heartbeat thread; return a function that stops the thread."""
    awaited: RequestFuture[None] = RequestFuture()
    thread = HeartbeatThread(client, lambda now_ms: NextBeat(float("inf"), awaited), "g")
    thread.start()
    return thread.stop


@pytest.mark.parametrize("wait_in_a_thread", [poll_in_a_thread, await_heartbeat_in_a_thread])
def test_two_threads_that_wait_for_a_silent_broker_do_not_wake_each_other(
    wait_in_a_thread: Callable[[ConsumerNetworkClient], Callable[[], None]],
) -> None:
    """Found with a stopped coordinator: the threads took the network from each other 9,500 times a second."""
    clock = SystemClock()
    selector = CountingSelector(clock)
    with connect(ClientConfig.from_properties({}), clock, selector=selector) as client:
        end = wait_in_a_thread(client)
        began_ms, before = clock.now_ms(), selector.polls
        for _ in range(5):
            client.poll(timeout_ms=100)
        seconds, polls = (clock.now_ms() - began_ms) / 1000, selector.polls - before
        end()
    assert polls <= 10 + 40 * seconds


def test_a_poll_takes_the_network_from_a_heartbeat_thread_at_once() -> None:
    cluster = responsive_cluster()
    client = cluster.connect("a:9092")
    is_serving, may_end = threading.Event(), threading.Event()
    awaited = client.send(A, ListGroupsRequest())
    awaited.add_done_callback(lambda _: (is_serving.set(), may_end.wait(10)))

    def serve() -> None:
        while not awaited.done:
            client.serve(awaited, 100)

    thread = threading.Thread(target=serve)
    thread.start()
    assert is_serving.wait(10)
    threading.Timer(0.02, may_end.set).start()
    future = client.send(A, ListGroupsRequest())
    client.poll(timeout_ms=0)
    assert may_end.is_set(), "the poll waits for the end of the other thread's pass"
    assert client.poll(until=future, timeout_ms=1_000)
    thread.join(10)


def test_a_heartbeat_thread_does_not_take_the_network_from_a_poll() -> None:
    cluster = responsive_cluster()
    client = cluster.connect("a:9092")
    served: list[bool] = []
    awaited: RequestFuture[None] = RequestFuture()

    def serve(_: object) -> None:
        thread = threading.Thread(target=lambda: served.append(client.serve(awaited, 100)))
        thread.start()
        thread.join(10)

    future = client.send(A, ListGroupsRequest())
    future.add_done_callback(serve)  # while the poll runs
    client.poll(until=future, timeout_ms=1_000)
    assert served == [False]
    assert client.serve(awaited, 100)


def test_a_thread_that_waits_for_metadata_is_woken_by_the_response_that_another_thread_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It looked at its response once a second only."""
    monkeypatch.setattr("kcli.client.poll_permit._PERMIT_WAIT_S", 60.0)
    client = responsive_cluster().connect("a:9092")
    client.ensure_fresh_metadata(1_000)
    waiting = threading.Thread(target=lambda: client.ensure_fresh_metadata(60_000), daemon=True)
    waits_for_permit = threading.Event()

    def take_the_response(_: object) -> None:
        waiting.start()
        limit = Limit("the other thread wants the permit")
        while not client._permit.is_wanted:
            limit.check()
            waits_for_permit.wait(0.001)
        client.poll(timeout_ms=0)
        waiting.join(10)

    future = client.send(A, ListGroupsRequest())
    future.add_done_callback(take_the_response)  # while the poll has the permit
    client.poll(until=future, timeout_ms=1_000)
    assert not waiting.is_alive()


def test_a_metadata_response_that_another_thread_takes_before_the_wait_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = responsive_cluster()
    client = cluster.connect("a:9092")
    client.ensure_fresh_metadata(1_000)
    is_answered = client.metadata.is_answered

    def answered_a_moment_later(ticket: int) -> bool:
        answered = is_answered(ticket)
        if not answered:
            client.poll(timeout_ms=0)
        return answered

    monkeypatch.setattr(client.metadata, "is_answered", answered_a_moment_later)
    client.ensure_fresh_metadata(cluster.clock.now_ms() + 60_000)
    assert cluster.clock.now_ms() < 60_000
