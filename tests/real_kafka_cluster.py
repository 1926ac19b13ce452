"""A cluster of real Kafka nodes: the first is controller and broker, the others are brokers only."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.real_kafka import CLUSTER_ID, Kafka, KafkaNode


class BrokerOnly(KafkaNode):
    """A broker without the controller role. The first node's controller places its replicas."""

    def __init__(self, folder: Path, jars: Path, number: int, controller: str, settings: dict[str, str]) -> None:
        super().__init__(folder, jars, settings=settings)
        own = {
            "process.roles": "broker",
            "node.id": str(number),
            "broker.rack": f"rack-{number}",
            "controller.quorum.bootstrap.servers": controller,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
        }
        given = [line for line in self._config.read_text().splitlines() if line.partition("=")[0] not in own]
        given += [f"{key}={value}" for key, value in own.items()]
        self._config.write_text("".join(f"{line}\n" for line in given))

    def format(self) -> None:
        self.tool("StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._config))


class KafkaCluster(Kafka):
    """A cluster; `nodes` by number. Node 1 is also the controller."""

    def __init__(
        self,
        folder: Path,
        jars: Path,
        count: int = 2,
        settings: dict[str, str] | None = None,
        coordinators: list[list[int]] | None = None,
    ) -> None:
        """`settings` apply to every node.

        `coordinators` are the replicas of each partition of __consumer_offsets; by default node 1 coordinates all
        groups.
        """
        folder.mkdir(parents=True, exist_ok=True)
        first = KafkaNode(folder / "node-1", jars, settings={"broker.rack": "rack-1", **(settings or {})})
        super().__init__(first.bootstrap_servers, jars, first.version)
        controller = f"127.0.0.1:{first.ports['CONTROLLER']}"
        self.folder = folder
        self.coordinators = coordinators or [[1]] * 4
        self.nodes: dict[int, KafkaNode] = {1: first}
        self.nodes.update(
            {n: BrokerOnly(folder / f"node-{n}", jars, n, controller, settings or {}) for n in range(2, count + 1)}
        )

    def start(self) -> None:
        """Start all nodes concurrently, and wait until each one answers."""
        with ThreadPoolExecutor(len(self.nodes)) as side_by_side:
            list(side_by_side.map(lambda node: node.format(), self.nodes.values()))
        for node in self.nodes.values():  # not in threads: a broker dies with the thread that started it
            node.launch()
        for node in self.nodes.values():
            node.wait_until_ready()
        self.create_placed_topic("__consumer_offsets", self.coordinators, cleanup_policy="compact")

    def create_placed_topic(self, name: str, placement: list[list[int]], **configs: str) -> str:
        """Create a topic whose partitions have their replicas on these nodes, and wait until its leaders serve it."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(name, len(placement), replica_assignment=placement, config=settings)
        admin.create_topics([topic])[name].result(30)
        self.wait_for_topic(name, len(placement))
        return name

    def kill(self) -> None:
        """Kill all nodes with SIGKILL, and remove their data."""
        for node in self.nodes.values():
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
