"""A cluster of brokers with a controller, for tests: start, stop, kill, pause and isolate its nodes at will."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcli.broker.serving.loop_thread import LoopThread
from kcli.broker.testing.cluster_controls import ClusterControls
from kcli.broker.testing.cluster_directory import (
    CONTROLLER,
    LOOPBACK,
    controller_properties,
    default_settings,
    node_name,
)
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster.image import PartitionState
    from kcli.broker.controller.controller_server import ControllerServer

_PAUSE_S = 30.0


class EmbeddedCluster(ClusterControls[EmbeddedBroker]):
    """Nodes 1 to N and their controller in threads of this process, on loopback.

    Settings are Kafka's broker properties with underscores for dots; they apply to all nodes and to the controller.
    Without `data_dir` the data are in a temporary directory, which `close` removes. Topics have min(3, N) replicas by
    default. A node that is gone is fenced after 1.5 seconds (broker_session_timeout_ms). Use it in a `with` statement,
    or call `start` and `close`.

    `nodes` has the brokers by id, each an `EmbeddedBroker`; ports remain the same across restarts.
    """

    def __init__(self, nodes: int = 3, data_dir: str | Path | None = None, **settings: Any) -> None:
        """ValueError unless there is at least one node."""
        super().__init__(nodes, data_dir, **settings)
        self._settings = {**default_settings(nodes), **self._settings}
        self._controller: LoopThread[ControllerServer] = LoopThread("kcli-controller")
        self._controller_port = 0
        self._paused: dict[int, threading.Event] = {}

    def __repr__(self) -> str:
        running = [number for number, node in self.nodes.items() if node.is_running]
        return f"<EmbeddedCluster of {self._count}, running {running}, controller {self._controller.state}>"

    # ---- life cycle ----

    def start(self, node: int | None = None) -> None:
        """Start a node, or whatever does not run; clients can use it when this returns.

        Addresses and data are those of the last start. ValueError if the node is running. KcliError if it does not
        serve within 60 seconds, as without a controller.
        """
        if node is not None:
            self._node(node).start()
            return
        if not self._controller.is_running:
            self.start_controller()
        if not self.nodes:
            self.nodes = {number: self._make_node(number) for number in range(1, self._count + 1)}
        _in_parallel([node.start for node in self.nodes.values() if not node.is_running])

    def stop(self, node: int) -> None:
        """Shut a node down in order: its leaderships move to other nodes first. No-op if it is stopped."""
        self.resume(node)
        self._node(node).stop()

    def kill(self, node: int) -> None:
        """Stop a node as by kill -9: connections break and nothing is flushed. No-op if it is stopped."""
        self.resume(node)
        self._node(node).kill()

    def start_controller(self) -> None:
        """Start the controller with the address and data that it had."""
        from kcli.broker.config import BrokerConfig
        from kcli.broker.controller.controller_server import ControllerServer

        folder = self._directory.folder(CONTROLLER)
        properties = controller_properties(folder, self._controller_port, self._settings)
        server = ControllerServer(BrokerConfig.from_properties(properties))
        server.start()
        self._controller_port = server.port
        self._controller.start(server)

    def stop_controller(self) -> None:
        """Shut the controller down in order. Until it is back no leader is elected. No-op if it is stopped."""
        self._controller.end(lambda server: server.shutdown(clean=True))

    def kill_controller(self) -> None:
        """Stop the controller as by kill -9. No-op if it is stopped."""
        self._controller.end(lambda server: server.kill())

    def close(self) -> None:
        """Stop everything, and remove temporary data. KcliError if a loop has failed."""
        for number in list(self.nodes):
            self.resume(number)
        _in_parallel([node.close for node in self.nodes.values()])
        self.stop_controller()
        if self._temporary is not None:
            self._temporary.remove()
        if self._controller.failure is not None:
            failure = self._controller.failure
            raise KcliError(f"the controller of the embedded cluster failed: {failure!r}") from failure

    def _make_node(self, number: int) -> EmbeddedBroker:
        settings: dict[str, Any] = {
            "process.roles": "broker",
            "node.id": str(number),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controller_port}",
            **self._settings,
        }
        return EmbeddedBroker(self._directory.folder(node_name(number)), **settings)

    # ---- faults ----

    def isolate(self, node: int) -> None:
        """Break the connections between a node and the others, and between it and the controller, until `heal`.

        Clients still reach it.
        """
        self._cut_off({node})

    def heal(self) -> None:
        """End every isolation."""
        self._cut_off(set())

    def _cut_off(self, isolated: set[int]) -> None:
        cut = {self._address(number) for number in isolated}
        for number, node in self.nodes.items():
            if node.is_running:
                unreachable = None if number in isolated else cut
                node.call(lambda broker, to=unreachable: broker.node.peers.cut_off(to))  # type: ignore[misc]

    def _address(self, number: int) -> tuple[str, int]:
        host, _, port = self._node(number).address.rpartition(":")
        return host, int(port)

    def pause(self, node: int) -> None:
        """Let a node do nothing until `resume`, as by SIGSTOP: its connections stay open, and no heartbeat is sent."""
        broker, resumed = self._node(node), self._paused.get(node)
        if resumed is not None or not broker.is_running:
            return
        resumed, reached = threading.Event(), threading.Event()
        self._paused[node] = resumed

        def wait() -> None:
            reached.set()
            resumed.wait()

        def stall(target: Broker) -> None:
            target.node.resumed = resumed
            target.post(wait)

        broker.call(stall)
        if not reached.wait(_PAUSE_S):
            resumed.set()
            del self._paused[node]
            raise KcliError(f"node {node} did not pause within {_PAUSE_S:.0f} s")

    def resume(self, node: int) -> None:
        """Let a paused node go on. No-op if it is not paused."""
        resumed = self._paused.pop(node, None)
        if resumed is not None:
            resumed.set()

    # ---- state ----

    def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        """Return leader, replicas and in-sync replicas of a partition at the controller; None if it does not exist."""

        def read(server: ControllerServer) -> PartitionState | None:
            found = server.controller.image.topics.get(topic)
            return None if found is None else found.partitions.get(partition)

        return self._controller.call(read)

    def _controller_address(self) -> tuple[str, int]:
        return LOOPBACK, self._controller_port

    def _is_in_sync(self) -> bool:
        def lagging(server: ControllerServer) -> bool:
            topics = server.controller.image.topics.values()
            return any(
                state.leader < 0 or set(state.isr) != set(state.replicas)
                for topic in topics
                for state in topic.partitions.values()
            )

        return not self._controller.call(lagging)

    def _knows(self, topic: str) -> bool:
        running = [node for number, node in self.nodes.items() if node.is_running and number not in self._paused]
        return all(topic in node.topics for node in running)


def _in_parallel(calls: list[Callable[[], None]]) -> None:
    """Make these calls side by side, and raise the error of the first one that fails."""
    with ThreadPoolExecutor(max(len(calls), 1)) as threads:
        made = [threads.submit(call) for call in calls]
    for call in made:
        call.result()
