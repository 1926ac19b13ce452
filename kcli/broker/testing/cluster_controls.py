"""The base of the clusters for tests, in threads and as processes: directory, settings, questions about the state."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kcli.broker.cluster.image import PartitionState
from kcli.broker.testing.cluster_directory import ClusterDirectory
from kcli.broker.testing.embedded import property_name, property_text
from kcli.broker.testing.temporary_folder import TemporaryFolder
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError

if TYPE_CHECKING:
    from typing_extensions import Self

#: Settings of tests: failures are noticed soon, and groups form without delay.
FAST = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "250",
    "group.initial.rebalance.delay.ms": "0",
}
WAIT_S = 30.0
_POLL_S = 0.002


class HasAddress(Protocol):
    """A node: its address remains the same across restarts."""

    @property
    def address(self) -> str: ...


N = TypeVar("N", bound=HasAddress)


class ClusterControls(Generic[N]):
    """A cluster that tests start, stop, and ask for its state. A subclass has the processes or threads.

    `nodes` has the nodes by id. Use it in a `with` statement, or call `start` and `close`.
    """

    def __init__(self, nodes: int = 3, data_dir: str | Path | None = None, **settings: Any) -> None:
        """`settings` are Kafka's broker properties with underscores for dots, of all nodes and the controller.

        Without `data_dir` the data are in a temporary directory, which `close` removes. ValueError unless there is at
        least one node.
        """
        if nodes < 1:
            raise ValueError(f"nodes: {nodes} is not valid; use at least 1")
        self._temporary = None if data_dir else TemporaryFolder(prefix="kcli-cluster-")
        self.data_dir = Path(data_dir or self._temporary.name)  # type: ignore[union-attr]
        given = {property_name(name): property_text(value) for name, value in settings.items()}
        self._settings = {**FAST, **given}
        self._directory = ClusterDirectory(str(self.data_dir))
        self._count = nodes
        self.nodes: dict[int, N] = {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, also of those that are stopped. ValueError before the first start."""
        return ",".join(node.address for node in self.nodes.values())

    def client_properties(self, client: str = "kcli") -> dict[str, Any]:
        """Return the configuration of a client, such as kafka-python: see `EmbeddedBroker.client_properties`."""
        from kcli.broker.security.ready_made import plain_properties

        return plain_properties(client, self.bootstrap_servers)

    def start(self, node: int | None = None) -> None:
        """Start a node, or whatever does not run; clients can use it when this returns."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop everything, and remove temporary data."""
        raise NotImplementedError

    def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        """Return leader, replicas and in-sync replicas of a partition; None if it does not exist."""
        raise NotImplementedError

    def _controller_address(self) -> tuple[str, int]:
        raise NotImplementedError

    def _is_in_sync(self) -> bool:
        raise NotImplementedError

    def _knows(self, topic: str) -> bool:
        """Return whether all running nodes know the topic."""
        raise NotImplementedError

    def _node(self, number: int) -> N:
        if number not in self.nodes:
            raise ValueError(f"there is no node {number}; the nodes are {', '.join(map(str, self.nodes))}")
        return self.nodes[number]

    def leader_of(self, topic: str, partition: int = 0, *, other_than: int | None = None) -> int:
        """Return the leader of a partition; wait up to 30 seconds until there is one, `other_than` a former one.

        KcliError if there is none by then.
        """
        leader = -1

        def has_leader() -> bool:
            nonlocal leader
            state = self.partition(topic, partition)
            leader = -1 if state is None else state.leader
            return leader >= 0 and leader != other_than

        self._wait(has_leader, f"{topic}-{partition} has no {'other ' if other_than is not None else ''}leader")
        return leader

    def wait_until_in_sync(self) -> None:
        """Wait up to 30 seconds until every replica of every partition is in sync. KcliError if one is not."""
        self._wait(self._is_in_sync, "a replica is not in sync")

    def _wait(self, condition: Callable[[], bool], failure: str) -> None:
        until = time.monotonic() + WAIT_S
        while not condition():
            if time.monotonic() > until:
                raise KcliError(f"{failure} after {WAIT_S:.0f} s")
            time.sleep(_POLL_S)

    def create_topic(
        self, name: str, partitions: int = 1, replicas: int = -1, configs: Mapping[str, Any] | None = None
    ) -> str:
        """Create a topic and return its name when all running nodes know it. BrokerError with the controller's code.

        `configs` are Kafka's topic properties, with dots or underscores. `replicas` -1: min(3, N).
        """
        from kcli.broker.node.heartbeats import BlockingConnection
        from kcli.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

        texts = {property_name(key): property_text(value) for key, value in (configs or {}).items()}
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in texts.items()],
        )
        connection = BlockingConnection(self._controller_address(), WAIT_S, "kcli-cluster")
        try:
            [result] = connection.ask(CreateTopicsRequest(topics=[topic], timeout_ms=int(WAIT_S * 1000))).topics
        finally:
            connection.close()
        if result.error_code:
            raise BrokerError(ErrorCode.of(result.error_code), result.error_message, topic=name)
        self._wait(lambda: self._knows(name), f"topic {name} is not known to all nodes")
        return name
