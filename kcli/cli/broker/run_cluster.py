"""A cluster on one machine: `kcli broker run --nodes N`, one controller process and N node processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic, sleep
from typing import NamedTuple

from kcli.broker.config import BrokerConfig
from kcli.broker.testing import cluster_directory as layout
from kcli.broker.testing.cluster_directory import CONTROLLER, ClusterDirectory, node_name
from kcli.cli import exit_status
from kcli.cli.broker.cluster_processes import preload, run_controller, run_node
from kcli.cli.broker.supervisor import Child, Process, Supervisor
from kcli.cli.environment import Environment, StopSignals
from kcli.errors import ConfigError, KcliError
from kcli.visible import shell_word

FIRST_PORT = 9092
_START_S = 30.0
_NODES_STOP_S = 15.0
_CONTROLLER_STOP_S = 5.0


class ClusterPlan(NamedTuple):
    """The command line of a cluster.

    `port` None: those that the directory has, else 9092 and the following ones; 0: free ones. `given` are broker
    properties for all processes. `topics` are created if they do not exist; None partitions: the default. A temporary
    directory is removed at the end.
    """

    nodes: int
    directory: ClusterDirectory
    host: str
    port: int | None
    given: Mapping[str, str]
    topics: list[tuple[str, int | None]]
    is_temporary: bool

    @property
    def command(self) -> str:
        """The command that starts what is missing."""
        return f"kcli broker run --nodes {self.nodes} --data-dir {shell_word(self.directory.path)}"


def run_cluster(env: Environment, plan: ClusterPlan, signals: StopSignals) -> int:
    """Start the missing processes of the cluster, print its addresses, and supervise them until a signal.

    ConfigError for a directory or settings that do not fit. KcliError if a process does not start.
    """
    _check(plan)
    directory = plan.directory
    names = [CONTROLLER, *(node_name(number) for number in range(1, plan.nodes + 1))]
    missing = [name for name in names if not directory.is_in_use(name)]
    if not missing:
        raise KcliError(f"the cluster in {directory.path} is running already")
    for name in names:
        if name not in missing:
            env.report(f"kcli: {_title(name)} is running already: {layout.address_of(directory.read(name))}")
    cluster = _Cluster(env, plan, signals, missing)
    try:
        return cluster.run()
    finally:
        cluster.supervisor.close()


def _check(plan: ClusterPlan) -> None:
    directory = plan.directory
    if directory.has_single_broker:
        raise ConfigError(f"{directory.path} has the data of a single broker; choose another directory")
    if directory.nodes and max(directory.nodes) > plan.nodes:
        count = max(directory.nodes)
        raise ConfigError(
            f"--nodes {plan.nodes}: the cluster in {directory.path} has {count} nodes; use --nodes {count}"
        )
    repeated = [name for name, count in Counter(name for name, _ in plan.topics).items() if count > 1]
    if repeated:
        raise ConfigError(f"--topic {repeated[0]} is given more than once; give it once")
    BrokerConfig.from_properties(plan.given)
    for name in plan.given:
        if name in layout.OWN_PROPERTIES:
            raise ConfigError(f"{name} cannot be combined with --nodes, which sets it for each process")
        if BrokerConfig.is_secret(name):
            raise ConfigError(f"{name} cannot be combined with --nodes: the nodes have listeners without passwords")
    if plan.port and plan.port + plan.nodes - 1 > 65_535:
        raise ConfigError(f"--port: {plan.nodes} nodes need the ports {plan.port} to {plan.port + plan.nodes - 1}")


def _title(name: str) -> str:
    """Return the name of a process in messages: `controller`, `node 2`."""
    return name.replace("-", " ")


def first_port(directory: ClusterDirectory) -> int:
    """Return the port of node 1 from which the ports of new nodes count, so that no other node has them."""
    addresses = {number: layout.address_of(directory.read(node_name(number))) for number in directory.nodes}
    ports = {number: int(address.rpartition(":")[2]) for number, address in addresses.items()}
    return max((port - number + 1 for number, port in ports.items() if port), default=FIRST_PORT)


class _Cluster:
    """The supervised processes of a cluster."""

    def __init__(self, env: Environment, plan: ClusterPlan, signals: StopSignals, missing: list[str]) -> None:
        self._env = env
        self._plan = plan
        self._signals = signals
        self._missing = missing
        self._is_stopping = False
        self.supervisor = Supervisor(self._log, self._on_end)

    def run(self) -> int:
        signals, supervisor = self._signals, self.supervisor
        signals.wake = supervisor.wake
        preload()
        self._start()
        if not signals.requested:
            self._create_topics()
            started = self.supervisor.processes.items()
            self._plan.directory.write_processes(
                {name: layout.StartedProcess(process.pid, process.address) for name, process in started}
            )
            self._env.stdout.write(",".join(self._addresses()) + "\n")
            self._env.stdout.flush()
        while not signals.requested:
            supervisor.poll(3600)
            if not supervisor.running:
                raise KcliError("all processes of the cluster have ended")
        return self._stop()

    def _log(self, name: str, line: str) -> None:
        self._env.report(f"kcli: {_title(name)}: {line}")

    def _on_end(self, process: Process) -> None:
        if self._is_stopping or not process.is_ready:
            return
        plan, title = self._plan, _title(process.name)
        command, effect = plan.command, ""
        if process.name == CONTROLLER:
            effect = ": until it is back, no leader is elected and no topic is created"
        else:
            number = process.name.removeprefix("node-")
            command = f"kcli broker run --node {number} --data-dir {shell_word(plan.directory.path)}"
        self._env.report(f"kcli: {title} {process.end}{effect}; start it again: {command}")

    # ---- start ----

    def _start(self) -> None:
        """Start the missing processes: the controller first, because the nodes need its address."""
        plan, directory = self._plan, self._plan.directory
        shared = self._shared_settings()
        if CONTROLLER in self._missing:
            stored = directory.read(CONTROLLER)
            port = int(layout.address_of(stored).rpartition(":")[2]) if stored and self._keeps_ports() else 0
            self._start_one(
                CONTROLLER, layout.controller_properties(directory.folder(CONTROLLER), port, shared), run_controller
            )
            self._await(CONTROLLER, lambda process: bool(process.address))
        controller = layout.address_of(directory.read(CONTROLLER))
        for number in range(1, plan.nodes + 1):
            name = node_name(number)
            if name not in self._missing or self._signals.requested:
                continue
            listener = self._listener(number)
            properties = layout.node_properties(number, directory.folder(name), listener, controller, shared)
            self._start_one(name, properties, run_node)
        for name in self.supervisor.processes:
            self._await(name, lambda process: process.is_ready)

    def _shared_settings(self) -> dict[str, str]:
        """Return the settings of all processes: the stored ones, unless the command line has others."""
        plan = self._plan
        stored = {
            name: value for name, value in plan.directory.read(CONTROLLER).items() if name not in layout.OWN_PROPERTIES
        }
        return {**layout.default_settings(plan.nodes), **stored, **plan.given}

    def _keeps_ports(self) -> bool:
        """Return whether the stored ports are used: not for new free ports of a cluster that is not running."""
        return self._plan.port != 0 or len(self._missing) <= self._plan.nodes

    def _listener(self, number: int) -> tuple[str, int]:
        plan = self._plan
        stored = plan.directory.read(node_name(number))
        if stored and not plan.port and self._keeps_ports():
            return plan.host, int(layout.address_of(stored).rpartition(":")[2])
        if plan.port == 0:
            return plan.host, 0
        return plan.host, (plan.port or first_port(plan.directory)) + number - 1

    def _start_one(self, name: str, properties: dict[str, str], run: Callable[[dict[str, str], Child], int]) -> None:
        self._plan.directory.write(name, properties)
        self.supervisor.start(name, partial(run, properties))

    def _await(self, name: str, condition: Callable[[Process], bool]) -> None:
        """Wait for a state of a starting process. KcliError if it ends instead, or takes too long."""
        process, signals = self.supervisor.processes[name], self._signals

        def ended() -> list[Process]:
            return [process for process in self.supervisor.processes.values() if process.exit_code is not None]

        done = self.supervisor.wait(lambda: condition(process) or bool(ended()) or signals.requested, _START_S)
        if signals.requested:
            return
        for process in ended():
            raise KcliError(f"{_title(process.name)} did not start: it {process.end}")
        if not done:
            raise KcliError(f"{_title(name)} was not ready within {_START_S:.0f} s")
        self._store_address(name, process)

    def _store_address(self, name: str, process: Process) -> None:
        """Store the port that the process has, so that it keeps it when it is started again."""
        directory = self._plan.directory
        stored = directory.read(name)
        port = process.address.rpartition(":")[2]
        if not process.address or layout.address_of(stored).rpartition(":")[2] == port:
            return
        stored["listeners"] = stored["listeners"].rpartition(":")[0] + f":{port}"
        if name == CONTROLLER:
            stored["controller.quorum.bootstrap.servers"] = process.address
        directory.write(name, stored)

    def _addresses(self) -> list[str]:
        names = [node_name(number) for number in range(1, self._plan.nodes + 1)]
        started = self.supervisor.processes
        if CONTROLLER in started:
            controller = started[CONTROLLER]
            self._env.report(f"kcli: controller (process {controller.pid}): {controller.address}")
        addresses = []
        for name in names:
            is_started = name in started
            addresses.append(
                started[name].address if is_started else layout.address_of(self._plan.directory.read(name))
            )
            process = f" (process {started[name].pid})" if is_started else ""
            self._env.report(f"kcli: {_title(name)}{process}: {addresses[-1]}")
        self._env.report(
            "kcli: this cluster is for tests and demos, not for production; data directory: "
            f"{self._plan.directory.path}"
        )
        return addresses

    def _create_topics(self) -> None:
        if not self._plan.topics:
            return
        from contextlib import closing

        from kcli.admin.topics import NewTopic, create_topics, describe_topics
        from kcli.client.config import ClientConfig
        from kcli.client.connect import connect

        addresses = [layout.address_of(self._plan.directory.read(node_name(1)))]
        config = ClientConfig.from_properties({"bootstrap.servers": ",".join(addresses)})
        clock = self._env.clock
        with closing(connect(config, clock)) as client:
            deadline_ms = clock.now_ms() + _START_S * 1000
            wanted = dict(self._plan.topics)
            existing = describe_topics(client, wanted, deadline_ms).values
            for name, partitions in wanted.items():
                count = len(existing[name].partitions) if name in existing else partitions
                if partitions is not None and count != partitions:
                    raise ConfigError(
                        f"--topic {name}:{partitions}: the topic exists with {count} partitions; use {name}"
                    )
            new = [
                NewTopic(name, -1 if count is None else count) for name, count in wanted.items() if name not in existing
            ]
            for error in create_topics(client, new, deadline_ms).errors.values():
                raise error

    # ---- stop ----

    def _stop(self) -> int:
        """Stop the nodes, which move their leaders and groups, and then the controller, which they need for that."""
        self._is_stopping = True
        supervisor, stopping = self.supervisor, self.supervisor.running
        nodes = [process.name for process in stopping if process.name != CONTROLLER]
        late = supervisor.stop(nodes, _NODES_STOP_S) + supervisor.stop([CONTROLLER], _CONTROLLER_STOP_S)
        for name in late:
            self._env.report(f"kcli: {_title(name)} did not stop in time and was killed; it recovers at its next start")
        if self._plan.is_temporary:
            self._wait_for_others()
        in_order = {exit_status.DONE, exit_status.INTERRUPTED}  # interrupted while it was still starting
        is_done = all(process.exit_code in in_order for process in stopping)
        return exit_status.DONE if is_done else exit_status.FAILED

    def _wait_for_others(self) -> None:
        """Wait until nodes that were started elsewhere have left the directory: a node may be stopping, too."""
        directory, until_s = self._plan.directory, monotonic() + _CONTROLLER_STOP_S
        while any(directory.is_in_use(node_name(number)) for number in directory.nodes) and monotonic() < until_s:
            sleep(0.05)
