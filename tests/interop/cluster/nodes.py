"""A cluster whose brokers are Apache Kafka's and ours, with a controller of either kind."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from tests.broker_process import BrokerProcess
from tests.real_kafka import CLUSTER_ID, Kafka, KafkaNode, OwnBroker, free_ports
from tests.real_kafka_cluster import BrokerOnly

CONTROLLER_ID = 100
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
# Of the controller and all brokers. The session is short, so that a killed node is fenced soon.
SETTINGS = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    # Apache's coordinators take the number from the settings if the topic is created after their start.
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
}
KINDS = ("apache", "kcli")


class ApacheController(KafkaNode):
    """Apache Kafka with the controller role only."""

    def __init__(self, folder: Path, jars: Path, settings: Mapping[str, str]) -> None:
        super().__init__(folder, jars, settings=dict(settings))
        self.port = self.ports["CONTROLLER"]
        own = {
            "process.roles": "controller",
            "node.id": str(CONTROLLER_ID),
            "listeners": f"CONTROLLER://127.0.0.1:{self.port}",
        }
        lines = self._config.read_text().splitlines()
        kept = [line for line in lines if line.partition("=")[0] not in {*own, "advertised.listeners"}]
        self._config.write_text("".join(f"{line}\n" for line in [*kept, *(f"{k}={v}" for k, v in own.items())]))


class OurController(BrokerProcess):
    """`kcli broker run` with the controller role only."""

    def __init__(self, folder: Path, jars: Path | None, settings: Mapping[str, str]) -> None:
        (port,) = free_ports(1)
        own = {
            "process.roles": "controller",
            "node.id": str(CONTROLLER_ID),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
        }
        super().__init__(folder, jars, settings={**settings, **own}, port=port)


class OurNode(BrokerProcess):
    """`kcli broker run` with the broker role only. In `settings`, CLIENTS stands for the listener of clients."""

    CLIENTS = "PLAINTEXT://127.0.0.1:PORT"

    def __init__(
        self, folder: Path, jars: Path | None, number: int, controller: str, settings: Mapping[str, str]
    ) -> None:
        (port,) = free_ports(1)
        own = {
            "process.roles": "broker",
            "node.id": str(number),
            "broker.rack": f"rack-{number}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": controller,
            "listeners": self.CLIENTS,
            "advertised.listeners": self.CLIENTS,
        }
        clients = self.CLIENTS.replace("PORT", str(port))
        filled = {name: value.replace(self.CLIENTS, clients) for name, value in {**own, **settings}.items()}
        super().__init__(folder, jars, settings=filled, port=port)


class PartitionState(NamedTuple):
    """A partition as the brokers describe it; leader -1: none."""

    leader: int
    replicas: tuple[int, ...]
    isr: frozenset[int]


class MixedCluster(Kafka):
    """A controller and brokers 1, 2, 3, ... of the given kinds. `nodes` has the brokers by number."""

    def __init__(
        self,
        folder: Path,
        jars: Path | None,
        controller: str,
        brokers: Sequence[str],
        *,
        of_node: Mapping[int, Mapping[str, str]] | None = None,
        coordinators: list[list[int]] | None = None,
    ) -> None:
        """`of_node` has more settings of single brokers. `jars` may be None without a node of Apache's.

        With `coordinators`, `start` creates __consumer_offsets with these replicas.
        """
        self._coordinators = coordinators
        self.folder = folder
        self.kinds = dict(enumerate(brokers, 1))
        make: Any = ApacheController if controller == "apache" else OurController
        self.controller: OwnBroker = make(folder / "controller", jars, SETTINGS)
        at = f"127.0.0.1:{self.controller.port}"
        self.nodes: dict[int, OwnBroker] = {}
        for number, kind in self.kinds.items():
            settings = {**SETTINGS, **(of_node or {}).get(number, {})}
            of_kind: Any = BrokerOnly if kind == "apache" else OurNode
            self.nodes[number] = of_kind(folder / f"node-{number}", jars, number, at, settings)
        super().__init__(",".join(node.bootstrap_servers for node in self.nodes.values()), jars)

    def start(self) -> None:
        """Start the controller, then all brokers, and wait until each serves clients."""
        with ThreadPoolExecutor() as side_by_side:
            apache = [node for node in (self.controller, *self.nodes.values()) if isinstance(node, KafkaNode)]
            if isinstance(self.controller, KafkaNode):
                list(side_by_side.map(lambda node: node.format(), apache))
            else:
                self.controller.start()
                list(side_by_side.map(lambda node: _format(node, self.cluster_id), apache))
        if isinstance(self.controller, KafkaNode):
            self.controller.launch()
        for node in self.nodes.values():  # not in threads: a broker dies with the thread that started it
            if isinstance(node, KafkaNode):
                node.launch()
        self.controller.wait_until_ready()
        for node in self.nodes.values():
            if not isinstance(node, KafkaNode):
                node.start()
        for node in self.nodes.values():
            node.wait_until_ready()
        self.until(lambda: self.live_brokers() == set(self.nodes), "all brokers are unfenced", 60)
        if self._coordinators is not None:
            self.create_placed_topic("__consumer_offsets", self._coordinators, cleanup_policy="compact")

    @property
    def cluster_id(self) -> str:
        """The id in the controller's directory."""
        lines = (self.controller.data / "meta.properties").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))

    def of_kind(self, kind: str) -> list[int]:
        """Return the numbers of the brokers of this kind."""
        return [number for number, one in self.kinds.items() if one == kind]

    def kill(self, *, keep: bool = False) -> None:
        """Kill all processes, and remove their data unless `keep`."""
        for node in (*self.nodes.values(), self.controller):
            node.kill()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- what the brokers say ----

    @cached_property
    def admin(self) -> Any:
        """librdkafka's admin client."""
        from confluent_kafka.admin import AdminClient

        return AdminClient(
            {"bootstrap.servers": self.bootstrap_servers, "log_level": 0, "topic.metadata.refresh.interval.ms": "1000"}
        )

    def live_brokers(self) -> set[int]:
        return set(self.admin.list_topics(timeout=10).brokers)

    def partitions(self, topic: str) -> dict[int, PartitionState]:
        described = self.admin.list_topics(topic, timeout=10).topics[topic].partitions
        return {
            number: PartitionState(one.leader, tuple(one.replicas), frozenset(one.isrs))
            for number, one in described.items()
        }

    def leaders(self, topic: str) -> dict[int, int]:
        return {number: one.leader for number, one in self.partitions(topic).items()}

    def is_in_sync(self, topic: str) -> bool:
        """Return whether every partition has a leader and all its replicas in the ISR."""
        return all(one.leader >= 0 and one.isr == set(one.replicas) for one in self.partitions(topic).values())

    def until(self, condition: Callable[[], bool], what: str, timeout_s: float = 30) -> None:
        """Wait for a condition. An error of the condition counts as false until the deadline."""
        deadline = time.monotonic() + timeout_s
        last: Exception | None = None
        while True:
            try:
                if condition():
                    return
                last = None
            except Exception as error:
                last = error
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout_s:.0f} s: {what}") from last
            time.sleep(0.1)

    def until_in_sync(self, *topics: str) -> None:
        for topic in topics:
            self.until(lambda topic=topic: self.is_in_sync(topic), f"{topic} is in sync: {self.partitions(topic)}")

    # ---- changes ----

    def create_placed_topic(self, name: str, placement: list[list[int]], **configs: str) -> str:
        """Create a topic whose partitions have their replicas on these brokers, and wait until they are in sync."""
        from confluent_kafka.admin import NewTopic

        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(name, len(placement), replica_assignment=placement, config=settings)
        self.admin.create_topics([topic])[name].result(30)
        self.until(lambda: len(self.partitions(name)) == len(placement) and self.is_in_sync(name), f"{name} is in sync")
        return name

    def elect_leaders(self, partitions: Sequence[int], topic: str) -> None:
        """Ask librdkafka to elect the preferred leaders of these partitions."""
        from confluent_kafka import ElectionType, TopicPartition

        asked = [TopicPartition(topic, number) for number in partitions]
        self.admin.elect_leaders(ElectionType.PREFERRED, asked).result(30)

    def elect_preferred_leaders(self) -> None:
        """Run Apache's tool for all partitions."""
        self.tool(
            "LeaderElectionCommand",
            *("--bootstrap-server", self.bootstrap_servers),
            *("--election-type", "preferred", "--all-topic-partitions"),
        )

    def reassign(self, topic: str, placement: Mapping[int, Sequence[int]]) -> None:
        """Move replicas with Apache's tool, and wait until it says that this is complete."""
        rows = [{"topic": topic, "partition": number, "replicas": [*to]} for number, to in placement.items()]
        file = self.folder / "reassignment.json"
        file.write_text(json.dumps({"version": 1, "partitions": rows}))
        words = ("--bootstrap-server", self.bootstrap_servers, "--reassignment-json-file", str(file))
        self.tool(REASSIGN, *words, "--execute")
        self.until(
            lambda: "is completed" in (done := self.tool(REASSIGN, *words, "--verify").stdout) and "still" not in done,
            f"{topic} is reassigned",
        )

    @contextmanager
    def without(self, numbers: Collection[int], *, clean: bool = False) -> Iterator[list[int | None]]:
        """Stop brokers, with SIGKILL or a controlled shutdown, and start them again at the end. Yield the statuses."""
        statuses = []
        for number in numbers:
            if clean:
                statuses.append(self.nodes[number].stop())
            else:
                self.nodes[number].kill()
        try:
            yield statuses
        finally:
            for number in numbers:
                self.nodes[number].start()


def _format(node: KafkaNode, cluster_id: str) -> None:
    node.tool("StorageTool", "format", "-t", cluster_id or CLUSTER_ID, "-c", str(node.config_file))
