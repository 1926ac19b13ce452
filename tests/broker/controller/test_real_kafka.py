"""Apache Kafka's brokers, tools and controller on the metadata log of ours."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcli.broker.config import BrokerConfig
from kcli.broker.controller.controller_server import ControllerServer
from kcli.broker.serving.loop_thread import LoopThread
from tests.real_kafka import KafkaNode, free_ports
from tests.real_kafka_cluster import BrokerOnly

pytestmark = pytest.mark.real_kafka


class Turns:
    """One directory of a controller, at one address, used by kcli and by Apache Kafka in turn; and brokers."""

    def __init__(self, folder: Path, jars: Path) -> None:
        (self.port,) = free_ports(1)
        self.folder, self.jars = folder, jars
        self.address = f"127.0.0.1:{self.port}"
        self.loop: LoopThread[ControllerServer] = LoopThread("kcli-controller")
        self.cluster_id = ""
        self.nodes: list[KafkaNode] = []
        own = {
            "process.roles": "controller",
            "node.id": "3000",
            "listeners": f"CONTROLLER://{self.address}",
            "advertised.listeners": f"CONTROLLER://{self.address}",
            "controller.quorum.bootstrap.servers": self.address,
        }
        self.apache = KafkaNode(folder / "controller", jars, settings=own)
        lines = self.apache.config_file.read_text().splitlines()
        kept = [line for line in lines if not line.startswith("inter.broker")]
        self.apache.config_file.write_text("".join(f"{line}\n" for line in kept))

    @property
    def log(self) -> Path:
        return self.apache.data / "__cluster_metadata-0"

    def start_ours(self) -> None:
        properties = {
            "process.roles": "controller",
            "node.id": "3000",
            "listeners": f"CONTROLLER://{self.address}",
            "log.dirs": str(self.apache.data),
            "metadata.log.max.record.bytes.between.snapshots": "1500",
        }
        server = ControllerServer(BrokerConfig.from_properties(properties))
        server.start()
        self.cluster_id = server.cluster_id
        self.loop.start(server)

    def stop_ours(self) -> None:
        self.loop.end(lambda server: server.shutdown())

    def add_broker(self) -> KafkaNode:
        number = len(self.nodes) + 1
        node = BrokerOnly(self.folder / f"node-{number}", self.jars, number, self.address, {})
        node.tool("StorageTool", "format", "-t", self.cluster_id, "-c", str(node.config_file))
        self.nodes.append(node)
        node.launch()
        node.wait_until_ready()
        return node

    def create(self, *names: str) -> None:
        at = ("--bootstrap-server", self.nodes[0].bootstrap_servers)
        for name in names:
            self.nodes[0].tool("TopicCommand", *at, "--create", "--topic", name, "--partitions", "2")

    def close(self) -> None:
        for node in (*self.nodes, self.apache):
            node.kill()
        self.stop_ours()


@pytest.fixture
def turns(tmp_path: Path, kafka_jars: Path) -> Iterator[Turns]:
    turns = Turns(tmp_path, kafka_jars)
    yield turns
    turns.close()


def topics(node: KafkaNode) -> set[str]:
    """Return the topics that a broker knows."""
    return set(node.tool("TopicCommand", "--bootstrap-server", node.bootstrap_servers, "--list").stdout.split())


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met within 30 s"
        time.sleep(0.2)


def dump(node: KafkaNode, *files: Path) -> str:
    """Return what Kafka's tool prints of files of a metadata log; every batch is valid."""
    names = ",".join(map(str, files))
    text = node.tool("DumpLogSegments", "--cluster-metadata-decoder", "--files", names).stdout
    assert text.count("baseOffset: ") == text.count("isvalid: true") > 0
    return text


def test_apache_kafka_joins_reads_and_continues_the_cluster_of_our_controller(turns: Turns) -> None:
    turns.start_ours()
    first = turns.add_broker()
    turns.create("a", "b", "c", "d")
    snapshots = sorted(turns.log.glob("*[1-9]*-*.checkpoint"))
    assert snapshots

    # A second broker begins with the snapshot.
    second = turns.add_broker()
    assert topics(second) == {"a", "b", "c", "d"}
    taken = list((second.data / "__cluster_metadata-0").glob("*.checkpoint"))
    assert taken
    for copy in taken:
        original = turns.log / copy.name
        assert not original.exists() or original.read_bytes() == copy.read_bytes()

    # Kafka's tools read what we wrote.
    at = ("--bootstrap-server", first.bootstrap_servers)
    status = first.tool("MetadataQuorumCommand", *at, "describe", "--status").stdout
    assert re.search(r"LeaderId: +3000\n", status)
    assert f"CONTROLLER://{turns.address}" in status
    replicas = first.tool("MetadataQuorumCommand", *at, "describe", "--replication").stdout
    assert re.findall(r"^(\d+) .*(Leader|Observer)", replicas, re.MULTILINE) == [
        ("3000", "Leader"),
        ("1", "Observer"),
        ("2", "Observer"),
    ]
    features = first.tool("FeatureCommand", *at, "describe").stdout
    assert re.search(r"metadata.version .*FinalizedVersionLevel: 4.3-IV0", features)
    turns.stop_ours()
    text = dump(first, turns.apache.data / "bootstrap.checkpoint", *sorted(turns.log.glob("*.checkpoint")))
    assert all(part in text for part in ("KRaftVoters", "SnapshotFooter", "REGISTER_BROKER_RECORD", '"name":"a"'))
    assert "LeaderChange" not in text
    dump(first, *sorted(turns.log.glob("*.log")))

    # Apache Kafka's controller continues with the directory, and ours after it.
    turns.apache.launch()
    turns.create("by-apache")
    turns.apache.stop()
    turns.start_ours()
    turns.create("by-kcli")
    until(lambda: {"by-apache", "by-kcli", "a"} <= topics(second))
    image = turns.loop.call(lambda server: server.controller.image)
    assert set(image.topics) == {"a", "b", "c", "d", "by-apache", "by-kcli"}
    assert turns.loop.call(lambda server: server.quorum.epoch) == 3
