"""Apache's administration tools against three nodes of ours and our controller.

`KCLI_TEST_CLUSTERS=control` runs them against Apache Kafka, which must give the same answers.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.cluster.nodes import CONTROLLER_ID, REASSIGN, MixedCluster
from tests.limits import killed_after
from tests.real_kafka import die_with_parent

pytestmark = [pytest.mark.slow, pytest.mark.real_kafka]

KIND = "apache" if os.environ.get("KCLI_TEST_CLUSTERS") == "control" else "kcli"
PARTITION = re.compile(r"Partition: (\d+)\tLeader: (-?\d+)\tReplicas: ([\d,]+)\tIsr: ([\d,]+)")


@pytest.fixture(scope="module")
def cluster(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    cluster = MixedCluster(tmp_path_factory.mktemp("tools"), kafka_jars, KIND, [KIND] * 3)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


@pytest.fixture
def topic(cluster: MixedCluster) -> str:
    """A topic of two partitions with 50 records in each."""
    name = cluster.create_placed_topic(cluster.new_name(), [[1, 2, 3], [2, 3, 1]])
    producer = cluster.ordered_producer(name)
    for number in range(100):
        producer.produce(name, b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0
    return name


def run(cluster: MixedCluster, tool: str, *words: str) -> str:
    """Run a tool to its successful end with the address of the brokers, and return what it printed."""
    at = ("--bootstrap-server", cluster.bootstrap_servers)
    given = (*words, *at) if tool == "ClusterTool" else (*at, *words)
    return cluster.tool(tool, *given).stdout


def described(cluster: MixedCluster, topic: str, *words: str) -> dict[int, tuple[int, list[int], set[int]]]:
    """Return leader, replicas and ISR by partition, as kafka-topics.sh prints them."""
    text = run(cluster, "TopicCommand", "--describe", "--topic", topic, *words)
    return {
        int(number): (int(leader), [*map(int, replicas.split(","))], {*map(int, isr.split(","))})
        for number, leader, replicas, isr in PARTITION.findall(text)
    }


def test_kafka_topics(cluster: MixedCluster) -> None:
    name = cluster.new_name()
    shape = ("--partitions", "2", "--replication-factor", "3", "--config", "retention.ms=7000000")
    assert f"Created topic {name}." in run(cluster, "TopicCommand", "--create", "--topic", name, *shape)
    cluster.until(lambda: cluster.is_in_sync(name), f"{name} is in sync")
    run(cluster, "TopicCommand", "--alter", "--topic", name, "--partitions", "3")
    cluster.until(lambda: len(described(cluster, name)) == 3, "there are three partitions")
    found = described(cluster, name)
    assert all(leader == replicas[0] and set(replicas) == isr == {1, 2, 3} for leader, replicas, isr in found.values())
    assert described(cluster, name, "--under-replicated-partitions") == {}
    assert "retention.ms=7000000" in run(cluster, "TopicCommand", "--describe", "--topic", name)
    run(cluster, "TopicCommand", "--delete", "--topic", name)
    cluster.until(lambda: name not in run(cluster, "TopicCommand", "--list").split(), f"{name} is deleted")


def test_kafka_topics_finds_what_a_dead_broker_leaves(cluster: MixedCluster, topic: str) -> None:
    with cluster.without([2]):
        cluster.until(lambda: described(cluster, topic)[1][0] == 3, "broker 3 leads partition 1")
        assert {*described(cluster, topic, "--under-replicated-partitions")} == {0, 1}
        assert described(cluster, topic, "--at-min-isr-partitions").keys() == {0, 1}
        assert described(cluster, topic, "--unavailable-partitions") == {}
    cluster.until_in_sync(topic)
    run(cluster, "LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", "1")
    assert {number: leader for number, (leader, _, _) in described(cluster, topic).items()} == {0: 1, 1: 2}


def test_kafka_reassign_partitions(cluster: MixedCluster, topic: str) -> None:
    moves, plan = cluster.folder / "topics.json", cluster.folder / "plan.json"
    moves.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    words = ("--topics-to-move-json-file", str(moves), "--broker-list", "1,2,3", "--generate")
    current, proposed = re.findall(r"^\{.*\}$", run(cluster, REASSIGN, *words), re.MULTILINE)
    assert [row["replicas"] for row in json.loads(current)["partitions"]] == [[1, 2, 3], [2, 3, 1]]
    assert all({*row["replicas"]} == {1, 2, 3} for row in json.loads(proposed)["partitions"])
    rows = [{"topic": topic, "partition": number, "replicas": [3, 1]} for number in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    words = ("--reassignment-json-file", str(plan))
    assert "Successfully started" in run(cluster, REASSIGN, *words, "--execute", "--throttle", "50000000")
    cluster.until(lambda: run(cluster, REASSIGN, *words, "--verify").count("is completed") == 2, "all is reassigned")
    assert [(replicas, isr) for _, replicas, isr in described(cluster, topic).values()] == [([3, 1], {1, 3})] * 2
    assert "No partition reassignments found" in run(cluster, REASSIGN, "--list")
    assert "throttled" not in run(cluster, "ConfigCommand", "--describe", "--entity-type", "brokers")


def test_kafka_metadata_quorum_and_features(cluster: MixedCluster) -> None:
    controller = ("--bootstrap-controller", f"127.0.0.1:{cluster.controller.port}")
    status = run(cluster, "MetadataQuorumCommand", "describe", "--status")
    assert re.search(rf"LeaderId: +{CONTROLLER_ID}\n", status)
    assert f"CONTROLLER://127.0.0.1:{cluster.controller.port}" in status
    asked = cluster.tool("MetadataQuorumCommand", *controller, "describe", "--replication").stdout
    states = {int(row.split()[0]): row.split()[-1] for row in asked.splitlines()[1:] if row}
    assert states == {CONTROLLER_ID: "Leader", 1: "Observer", 2: "Observer", 3: "Observer"}
    for features in (
        run(cluster, "FeatureCommand", "describe"),
        cluster.tool("FeatureCommand", *controller, "describe").stdout,
    ):
        assert re.search(r"metadata.version .*FinalizedVersionLevel: 4.3-IV0", features)


def test_kafka_cluster_and_log_dirs(cluster: MixedCluster, topic: str) -> None:
    assert cluster.cluster_id in run(cluster, "ClusterTool", "cluster-id")
    rows = [row.split() for row in run(cluster, "ClusterTool", "list-endpoints").splitlines()[1:] if row]
    assert {row[0]: (row[2], row[3]) for row in rows} == {
        str(number): (str(node.port), f"rack-{number}") for number, node in cluster.nodes.items()
    }
    printed = run(cluster, "LogDirsCommand", "--describe", "--topic-list", topic)
    directories = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))["brokers"]
    sizes = {
        broker["broker"]: {one["partition"]: one["size"] for one in broker["logDirs"][0]["partitions"]}
        for broker in directories
    }
    written = {
        f"{topic}-{number}": sum(
            file.stat().st_size for file in (cluster.nodes[1].data / f"{topic}-{number}").glob("*.log")
        )
        for number in (0, 1)
    }
    assert sizes == dict.fromkeys((1, 2, 3), written)


def test_kafka_get_offsets_and_delete_records(cluster: MixedCluster, topic: str) -> None:
    assert run(cluster, "GetOffsetShell", "--topic", topic).split() == [f"{topic}:0:50", f"{topic}:1:50"]
    asked = cluster.folder / "delete.json"
    rows = [{"topic": topic, "partition": 0, "offset": 20}]
    asked.write_text(json.dumps({"version": 1, "partitions": rows}))
    assert "low_watermark: 20" in run(cluster, "DeleteRecordsCommand", "--offset-json-file", str(asked))
    earliest = run(cluster, "GetOffsetShell", "--topic", topic, "--time", "earliest")
    assert earliest.split() == [f"{topic}:0:20", f"{topic}:1:0"]


def test_kafka_replica_verification_sees_no_lag(cluster: MixedCluster, topic: str) -> None:
    """The tool reads all replicas as a consumer and compares checksums, without end."""
    words = ["--broker-list", cluster.bootstrap_servers, "--topics-include", topic, "--report-interval-ms", "500"]
    with subprocess.Popen(
        [*cluster.java("ReplicaVerificationTool"), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=die_with_parent,
    ) as process:
        assert process.stdout is not None
        lines = []
        with killed_after(process, "the first report of the tool"):
            for line in process.stdout:
                lines.append(line)
                if "max lag is" in line:
                    break
        process.kill()
    assert "max lag is 0 " in lines[-1], "".join(lines)
    assert "among 2 partitions" in lines[-1]
    assert not [line for line in lines if "checksum" in line.lower()]


def test_kafka_dump_log_reads_the_metadata_log(cluster: MixedCluster, topic: str) -> None:
    folder = cluster.controller.data / "__cluster_metadata-0"
    files = [str(file) for file in sorted(folder.iterdir()) if file.suffix in (".log", ".checkpoint")]
    words = ("--cluster-metadata-decoder", "--files", ",".join(files))
    text = cluster.tool("DumpLogSegments", *words).stdout
    assert "isvalid: false" not in text
    payloads = [json.loads(found) for found in re.findall(r"payload: (\{.*\})$", text, re.MULTILINE)]
    topics = [one["data"]["name"] for one in payloads if one["type"] == "TOPIC_RECORD"]
    assert topic in topics
    assert {one["data"]["brokerId"] for one in payloads if one["type"] == "REGISTER_BROKER_RECORD"} == {1, 2, 3}
    assert "LeaderChange" in text
    assert "SnapshotHeader" in text
