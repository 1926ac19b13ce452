"""`kcli cluster ...` against a broker that answers from a script."""

from __future__ import annotations

from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kcli.protocol.messages.metadata import MetadataRequest
from tests.cli.fake import Result, run_kcli
from tests.cli.loopback import LoopbackBroker, loopback_broker


def _describe(request: DescribeClusterRequest) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        cluster_id="loopback",
        controller_id=2,
        brokers=[
            DescribeClusterBroker(broker_id=2, host="b", port=2, rack="r2"),
            DescribeClusterBroker(broker_id=1, host="a", port=1, is_fenced=request.include_fenced_brokers),
        ],
    )


def cluster(broker: LoopbackBroker, *argv: str) -> Result:
    return run_kcli("cluster", *argv, "-b", broker.address, "--timeout", "10")


def test_describe_shows_brokers_with_controller_racks_and_fencing() -> None:
    with loopback_broker({DescribeClusterRequest: _describe}) as broker:
        result = cluster(broker, "describe")
        [item] = cluster(broker, "describe", "--output", "json").document["items"]
    header, first, second = result.text.splitlines()
    assert header.split() == ["CLUSTER-ID", "NODE", "HOST", "PORT", "RACK", "CONTROLLER", "FENCED"]
    assert first.split() == ["loopback", "1", "a", "1", "-", "no", "yes"]
    assert second.split() == ["loopback", "2", "b", "2", "r2", "yes", "no"]
    assert (item["cluster_id"], item["controller"]) == ("loopback", 2)


def test_describe_of_an_older_cluster_shows_unknown_fencing() -> None:
    older = {DescribeClusterRequest: (0, 0)}
    with loopback_broker({DescribeClusterRequest: _describe}, versions=older) as broker:
        lines = cluster(broker, "describe").text.splitlines()
    assert [line.split()[-1] for line in lines] == ["FENCED", "-", "-"]


def test_describe_without_describe_cluster_uses_metadata() -> None:
    with loopback_broker() as broker:
        _, row = cluster(broker, "describe").text.splitlines()
    assert row.split() == ["loopback", "1", "127.0.0.1", str(broker.port), "-", "yes", "-"]


def test_api_versions_compares_both_sides() -> None:
    versions = {MetadataRequest: (0, 9), ApiVersionsRequest: (0, 99)}
    with loopback_broker(versions=versions) as broker:
        result = cluster(broker, "api-versions")
    rows = {row.split()[1]: row.split() for row in result.text.splitlines()}
    ours = f"0-{ApiVersionsRequest.VERSIONS[1]}"
    assert rows["API"] == ["NODES", "API", "KEY", "BROKER", "KCLI", "USED"]
    assert rows["Metadata"] == ["1", "Metadata", "3", "0-9", "0-13", "9"]
    assert rows["ApiVersions"] == ["1", "ApiVersions", "18", "0-99", ours, ours[2:]]
    assert rows["Fetch"][3] == "-"
    assert rows["Fetch"][5] == "-"


def test_api_versions_of_one_node() -> None:
    with loopback_broker() as broker:
        [item] = cluster(broker, "api-versions", "--node", "1", "--output", "json").document["items"]
        absent = cluster(broker, "api-versions", "--node", "9")
    assert item["node"] == 1
    both = {"min": 0, "max": 13}
    assert {"api": "Metadata", "key": 3, "broker": both, "kcli": both, "used": 13} in item["apis"]
    assert absent.status == 2
    assert "--node: there is no broker 9; the brokers are 1" in absent.err
