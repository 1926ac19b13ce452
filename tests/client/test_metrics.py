"""Sensors over windows of time, and the metrics of requests and connections against fake brokers."""

from __future__ import annotations

import math

from kcli.client.metrics import ClientMetrics, Sensor, merged
from kcli.client.requests import ask_any, ask_node
from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kcli.protocol.registry import ApiKey
from tests.client.fake_cluster import FakeCluster
from tests.network.memory import MemoryPeer


def test_a_sensor_counts_for_ever_and_averages_over_two_windows_of_30_s() -> None:
    sensor = Sensor()
    for at_ms, value in ((0, 10), (1_000, 30), (40_000, 5)):
        sensor.record(value, at_ms)
    assert (sensor.count, sensor.total) == (3, 45)
    assert (sensor.average(40_000), sensor.maximum(40_000)) == (15, 30)
    assert (sensor.average(61_000), sensor.maximum(61_000)) == (5, 5)
    assert math.isnan(sensor.average(200_000))
    assert (sensor.count, sensor.seconds_ago(41_500)) == (3, 1.5)


def test_a_rate_refers_to_at_least_one_window_so_that_a_first_value_is_no_peak() -> None:
    sensor = Sensor()
    assert (sensor.rate(5), sensor.seconds_ago(5)) == (0, -1)
    for at_ms in range(0, 3_000, 1_000):
        sensor.record(100, at_ms)
    assert sensor.rate(3_000) == 3 / 33
    assert sensor.total_rate(45_000) == 300 / 45
    assert sensor.rate(100_000) == 0


def test_throttling_is_reported_once_when_it_exceeds_a_second_in_all() -> None:
    metrics, reported = ClientMetrics(), list[float]()
    metrics.on_throttled = reported.append
    for now_ms in range(5):
        metrics.throttled("Fetch", 400, now_ms)
        metrics.throttled("Metadata", 1, now_ms)
    assert reported == [1202]
    assert metrics.throttle_ms == 2005
    assert metrics.throttle("Fetch").maximum(5) == 400


def test_snapshots_of_the_same_group_are_joined() -> None:
    assert merged({"a": {"x": 1}}, {"a": {"y": 2}, "b": {}}) == {"a": {"x": 1, "y": 2}, "b": {}}


def test_requests_connections_latency_and_throttling_are_counted_by_node() -> None:
    cluster = FakeCluster("a:9092", "b:9092")
    throttled = [ListGroupsResponse(throttle_time_ms=700)]

    def list_groups(peer: MemoryPeer, _request: object, _version: int) -> ListGroupsResponse:
        cluster.clock.advance(20)
        return throttled.pop() if throttled else ListGroupsResponse()

    cluster.answers[ApiKey.LIST_GROUPS] = list_groups
    client = cluster.connect("a:9092")
    a, b = client.ensure_fresh_metadata(1_000).nodes.values()
    for node in (a, a, b):
        ask_node(client, node, ListGroupsRequest(), 60_000)
    now_ms = cluster.clock.now_ms()
    metrics = client.metrics.snapshot("admin-client", now_ms)
    total = metrics["admin-client-metrics"]
    assert total["connection-count"] == total["connection-creation-total"] == 2
    assert total["request-total"] == total["response-total"] == len(cluster.asked)
    assert total["throttle-time-total"] == 700
    assert total["request-latency-max"] == 20
    assert total["incoming-byte-total"] > 0
    on_b = metrics["admin-client-node-metrics,node-id=node-2"]
    assert (on_b["request-total"], on_b["request-latency-max"]) == (2, 20)  # ApiVersions too
    assert client.metrics.summary() == (
        f"{len(cluster.asked)} requests over 2 connections, latency {60 / len(cluster.asked):.1f} ms on average, "
        "throttled 0.7 s"
    )


def test_a_lost_connection_is_counted() -> None:
    cluster = FakeCluster("a:9092")
    cluster.answers[ApiKey.LIST_GROUPS] = lambda peer, request, version: ListGroupsResponse()
    client = cluster.connect("a:9092")
    ask_any(client, ListGroupsRequest(), 1_000)
    cluster.selector.peers[0].hang_up()
    client.poll(timeout_ms=10)
    metrics = client.metrics.snapshot("consumer", cluster.clock.now_ms())["consumer-metrics"]
    assert (metrics["connection-count"], metrics["connection-close-total"]) == (0, 1)
    ask_any(client, ListGroupsRequest(), cluster.clock.now_ms() + 1_000)
    client.close()
    metrics = client.metrics.snapshot("consumer", cluster.clock.now_ms())["consumer-metrics"]
    assert (metrics["connection-count"], metrics["connection-creation-total"]) == (0, 2)
