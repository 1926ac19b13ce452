"""`kcli cluster check`: pages, formats, exit statuses, and brokers that do not answer."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kcli.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from kcli.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kcli.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.cli.fake import Result, run_kcli
from tests.cli.loopback import LoopbackBroker, loopback_broker

_DISK = ("--ignore", "disk-nearly-full")  # the disk of the machine that runs the test is not a fault of the broker


def check(address: str, *argv: str, terminal: bool = False) -> Result:
    return run_kcli("cluster", "check", "-b", address, *argv, terminal=terminal)


def test_one_broker_is_healthy() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", partitions=2)
        page = check(broker.address, *_DISK)
        document = check(broker.address, *_DISK, "--output", "json", "--fail-on", "note")
        broker.create_topic("careless", configs={"unclean.leader.election.enable": "true"})
        found = check(broker.address, *_DISK, "--output", "csv", "--fail-on", "unclean-election")
    assert (page.status, page.text, page.err) == (0, "1 broker, 1 topic, 2 partitions\n  no findings\n", "")
    assert (document.status, document.document["items"]) == (0, [])
    assert found.status == 6
    header, row = found.text.splitlines()
    assert header == "severity,finding,subject,evidence,advice,error"
    assert row.startswith("warning,unclean-election,topic careless,")


def settings(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    values = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
    configs = [DescribeConfigsResourceResult(name=name, value=value, config_source=5) for name, value in values.items()]
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(resource_type=it.resource_type, resource_name=it.resource_name, configs=configs)
            for it in request.resources
        ]
    )


def degraded(broker: LoopbackBroker, other_port: int) -> MetadataResponse:
    """Return a topic that lost a replica, in a cluster whose second broker is listed at this port."""
    partitions = [
        MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1]),
        MetadataResponsePartition(
            partition_index=1,
            leader_id=-1,
            replica_nodes=[2, 1],
            isr_nodes=[2],
            error_code=ErrorCode.LEADER_NOT_AVAILABLE,
        ),
    ]
    brokers = [
        MetadataResponseBroker(node_id=number, host="127.0.0.1", port=port)
        for number, port in ((1, broker.port), (2, other_port))
    ]
    topics = [MetadataResponseTopic(name="orders", partitions=partitions)]
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=topics)


def answers() -> dict[type, Any]:
    sizes = DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/data")])
    return {
        DescribeConfigsRequest: settings,
        DescribeLogDirsRequest: lambda _request: sizes,
        ListOffsetsRequest: lambda _request: ListOffsetsResponse(topics=[]),
    }


def test_findings_are_paragraphs_and_a_threshold_is_stronger_than_a_missing_fact() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead_port = closed.getsockname()[1]
    scripted = answers()
    scripted[MetadataRequest] = lambda _request: degraded(broker, dead_port)
    with loopback_broker(scripted) as broker:
        result = check(broker.address, "--timeout", "2", "--ignore", "hanging-transaction,overdue-transaction")
        exceeded = check(
            *(broker.address, "--timeout", "2", "--ignore", "hanging-transaction,overdue-transaction"),
            *("--fail-on", "leaderless,under-min-isr"),
            terminal=True,
        )
    assert result.status == 5, "a broker does not answer"
    assert exceeded.status == 6
    lines = result.text.splitlines()
    assert lines[0] == "2 brokers, 1 topic, 2 partitions"
    assert [line for line in lines if line.startswith(("PROBLEM", "WARNING"))] == [
        "PROBLEM broker-unreachable: broker 2",
        "PROBLEM leaderless: orders-1",
        "PROBLEM under-min-isr: orders-0",
        "WARNING under-replicated: broker 2",
    ]
    at = lines.index("PROBLEM under-min-isr: orders-0")
    assert lines[at + 1 : at + 3] == [
        "  In sync: broker 1; min.insync.replicas is 2. The brokers refuse writes with acks=all (NOT_ENOUGH_REPLICAS).",
        "  -> Bring broker 2 back in sync.",
    ]
    assert "\x1b[1;31mPROBLEM\x1b[0m leaderless: orders-1" in exceeded.text


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--fail-on", "warnin"), "--fail-on: 'warnin' is not valid; did you mean warning?"),
        (("--ignore", "problem"), "--ignore: 'problem' is not valid; use broker-offline, "),
        (("--ignore", "offline,"), "--ignore: '' is not valid; use "),
        (("--disk-floor", "-1"), "--disk-floor"),
    ],
)
def test_usage(argv: tuple[str, str], message: str) -> None:
    result = check("127.0.0.1:1", *argv)
    assert (result.status, message in result.err) == (2, True), result.err


def test_a_cluster_that_cannot_be_reached_is_an_error() -> None:
    assert check("127.0.0.1:1", "--timeout", "0.2").status == 5
