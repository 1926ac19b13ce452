"""A cluster of processes for tests: `kcli broker run --nodes`, with signals for its nodes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcli import forks
from kcli.broker.cluster.image import PartitionState
from kcli.broker.testing.cluster_controls import WAIT_S, ClusterControls
from kcli.broker.testing.cluster_directory import CONTROLLER, address_of
from kcli.errors import KcliError
from kcli.private_files import make_folder

if TYPE_CHECKING:
    from kcli.protocol.messages.metadata import MetadataResponse

_COMMAND = (sys.executable, "-m", "kcli", "broker", "run")
_LOG = "output.log"
_STOP_S = 40.0


class NodeProcess:
    """A node of a `ProcessCluster`. `pid` is that of its last start."""

    def __init__(self, address: str, pid: int) -> None:
        self.address = address
        self.pid = pid
        self.is_running = True
        self.is_paused = False

    def __repr__(self) -> str:
        return f"<NodeProcess {self.address} {self.pid} {'running' if self.is_running else 'stopped'}>"


class ProcessCluster(ClusterControls[NodeProcess]):
    """Nodes 1 to N and their controller as processes, with the methods of `EmbeddedCluster` except `isolate`.

    What the processes log is in `output.log` of `data_dir`. Linux and macOS only.
    """

    def __init__(self, nodes: int = 3, data_dir: str | Path | None = None, **settings: Any) -> None:
        """ValueError unless there is at least one node."""
        super().__init__(nodes, data_dir, **settings)
        self._processes: dict[int, subprocess.Popen[str]] = {}  # of all commands that were started, by their pid
        self._controller_pid = 0
        self._made_in = forks.pid

    def __repr__(self) -> str:
        return f"<ProcessCluster {self.data_dir} {list(self.nodes.values())}>"

    # ---- life cycle ----

    def start(self, node: int | None = None) -> None:
        """Start a node, or whatever does not run; clients can use it when this returns.

        ValueError if the node is running. KcliError if it does not start.
        """
        if node is None:
            self._start_missing()
            return
        one = self._node(node)
        if one.is_running:
            raise ValueError(f"node {node} is already running")
        process, _ = self._run("--node", str(node), "--data-dir", str(self.data_dir))
        one.pid, one.is_running = process.pid, True

    def _start_missing(self) -> None:
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        port = () if self.nodes else ("--port", "0")
        options = ("--nodes", str(self._count), "--data-dir", str(self.data_dir), *port, *settings)
        before = self._directory.processes()
        self._run(*options)
        for name, process in self._directory.processes().items():
            if process == before.get(name):
                continue  # it was running already
            if name == CONTROLLER:
                self._controller_pid = process.pid
            else:
                self.nodes[int(name.removeprefix("node-"))] = NodeProcess(process.address, process.pid)
        self.nodes = dict(sorted(self.nodes.items()))

    def _run(self, *options: str) -> tuple[subprocess.Popen[str], str]:
        """Start a command of its own session; return its process and the line that it prints when it is ready."""
        with self._log_path.open("ab") as log:
            process = subprocess.Popen(
                (*_COMMAND, *options),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._processes[process.pid] = process
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        process.stdout.close()
        if not line:
            process.wait(_STOP_S)
            last = self._log_path.read_text().strip().rpartition("\n")[2]
            raise KcliError(f"the cluster did not start: {last.removeprefix('kcli: ')}")
        return process, line

    @property
    def _log_path(self) -> Path:
        make_folder(self.data_dir)
        return self.data_dir / _LOG

    def stop(self, node: int) -> None:
        """Shut a node down in order: its leaderships move to other nodes first. No-op if it is stopped."""
        self.resume(node)
        self._end(self._node(node), signal.SIGTERM)

    def kill(self, node: int) -> None:
        """Kill the process of a node with SIGKILL. No-op if it is stopped."""
        self._end(self._node(node), signal.SIGKILL)

    def _end(self, node: NodeProcess, number: int) -> None:
        if not node.is_running:
            return
        node.is_running = node.is_paused = False
        self._signal(node.pid, number)

    def _signal(self, pid: int, number: int) -> None:
        """Send a signal that ends a process, and wait for its end."""
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        until = time.monotonic() + _STOP_S
        while self._exists(pid):
            if time.monotonic() > until:
                raise KcliError(f"process {pid} did not end within {_STOP_S:.0f} s")
            time.sleep(0.01)

    def _exists(self, pid: int) -> bool:
        if pid in self._processes:
            return self._processes[pid].poll() is None
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True

    def pause(self, node: int) -> None:
        """Stop the process of a node with SIGSTOP until `resume`."""
        one = self._node(node)
        if one.is_running:
            one.is_paused = True
            os.kill(one.pid, signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """Let a paused node go on, with SIGCONT. No-op if it is not paused."""
        one = self._node(node)
        if one.is_paused:
            one.is_paused = False
            os.kill(one.pid, signal.SIGCONT)

    def kill_controller(self) -> None:
        """Kill the process of the controller with SIGKILL."""
        self._signal(self._controller_pid, signal.SIGKILL)

    def start_controller(self) -> None:
        """Start the controller with the address and data that it had, and the nodes that do not run."""
        self._start_missing()

    def close(self) -> None:
        """Stop everything, and remove temporary data. No-op in a fork of the process that started it."""
        if self._made_in != forks.pid:
            return
        for number in self.nodes:
            self.resume(number)
        running = [process for process in reversed(self._processes.values()) if process.poll() is None]
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._temporary is not None:
            self._temporary.remove()

    # ---- state ----

    def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        """Return leader, replicas and in-sync replicas of a partition; None if no running node knows it."""
        for metadata in self._metadata():
            for found in metadata.topics:
                for row in found.partitions:
                    if (found.name, row.partition_index) == (topic, partition) and not found.error_code:
                        return PartitionState(
                            tuple(row.replica_nodes),
                            tuple(row.isr_nodes),
                            row.leader_id,
                            row.leader_epoch,
                            -1,
                        )
        return None

    def _metadata(self) -> list[MetadataResponse]:
        """Return what the running nodes say about all topics."""
        from kcli.broker.node.heartbeats import BlockingConnection
        from kcli.broker.node.peers import PeerError
        from kcli.protocol.messages.metadata import MetadataRequest

        answers = []
        for node in self.nodes.values():
            if not node.is_running or node.is_paused:
                continue
            host, _, port = node.address.rpartition(":")
            with suppress(PeerError):
                connection = BlockingConnection((host, int(port)), WAIT_S, "kcli-cluster")
                try:
                    answers.append(connection.ask(MetadataRequest(topics=None)))
                finally:
                    connection.close()
        return answers

    def _controller_address(self) -> tuple[str, int]:
        host, _, port = address_of(self._directory.read(CONTROLLER)).rpartition(":")
        return host, int(port)

    def _is_in_sync(self) -> bool:
        partitions = [
            partition for metadata in self._metadata() for topic in metadata.topics for partition in topic.partitions
        ]
        return all(
            partition.leader_id >= 0 and set(partition.isr_nodes) == set(partition.replica_nodes)
            for partition in partitions
        )

    def _knows(self, topic: str) -> bool:
        return all(
            any(found.name == topic and not found.error_code for found in metadata.topics)
            for metadata in self._metadata()
        )
