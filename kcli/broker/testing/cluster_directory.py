"""The directory of a cluster on one machine: a folder and a properties file for the controller and for each node.

    DIR/controller/  DIR/controller.properties  DIR/node-1/  DIR/node-1.properties ...

The files are Kafka's server.properties, so that one process can be started from them without the options of the
command that made them. They have no secrets. `processes.json` has the process ids and addresses of the last start.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from kcli.broker.data_dir import LOCK, META, parse_properties
from kcli.broker.files import DiskFiles
from kcli.errors import ConfigError
from kcli.private_files import make_folder

CONTROLLER = "controller"
PROCESSES = "processes.json"
#: The node id of the controller, as in Kafka's examples; those of the brokers are 1, 2, ...
CONTROLLER_ID = 3000
LOOPBACK = "127.0.0.1"

_NODE = re.compile(r"node-([1-9][0-9]{0,3})\.properties")

#: Properties that the cluster sets itself.
OWN_PROPERTIES = frozenset(
    {
        *("process.roles", "node.id", "broker.id", "log.dir", "log.dirs", "listeners", "advertised.listeners"),
        *("controller.listener.names", "controller.quorum.voters", "controller.quorum.bootstrap.servers"),
        *("listener.security.protocol.map", "inter.broker.listener.name", "security.inter.broker.protocol"),
    }
)


def node_name(node_id: int) -> str:
    """Return the name of a node's folder."""
    return f"node-{node_id}"


class StartedProcess(NamedTuple):
    """A process of the cluster: its id in the system, and the `host:port` of its first listener."""

    pid: int
    address: str


class ClusterDirectory:
    """The directory of a cluster at `path`, which need not exist yet."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._files = DiskFiles()

    def __repr__(self) -> str:
        return f"<ClusterDirectory {self.path} nodes {self.nodes}>"

    @property
    def nodes(self) -> list[int]:
        """The ids of the nodes that have a properties file."""
        names = os.listdir(self.path) if os.path.isdir(self.path) else []
        return sorted(int(match[1]) for match in map(_NODE.fullmatch, names) if match)

    @property
    def has_single_broker(self) -> bool:
        """True if the directory is that of a broker without a cluster."""
        return os.path.exists(os.path.join(self.path, META))

    def folder(self, name: str) -> str:
        """Return the data directory of the controller or a node."""
        return os.path.join(self.path, name)

    def file(self, name: str) -> str:
        """Return the path of the properties file of the controller or a node."""
        return os.path.join(self.path, f"{name}.properties")

    def read(self, name: str) -> dict[str, str]:
        """Return the stored properties with the present path of the folder; {} without a file.

        ConfigError for a damaged file, OSError for one that cannot be read.
        """
        try:
            with open(self.file(name), "rb") as file:
                properties = parse_properties(file.read())
        except FileNotFoundError:
            return {}
        for needed in ("process.roles", "node.id", "controller.quorum.bootstrap.servers"):
            if not properties.get(needed):
                raise ConfigError(f"{self.file(name)}: {needed} is missing; restore the file, or remove it")
        if not address_of(properties).rpartition(":")[2].isdecimal():
            raise ConfigError(f"{self.file(name)}: listeners has no port; restore the file, or remove it")
        return {**properties, "log.dirs": self.folder(name)}

    def write(self, name: str, properties: Mapping[str, str]) -> None:
        """Store the properties. OSError if that fails."""
        make_folder(self.path)
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        self._files.write_atomically(self.file(name), text.encode("latin-1", "replace"))

    def processes(self) -> dict[str, StartedProcess]:
        """Return the processes by name that `kcli broker run --nodes` has started last; some may have ended."""
        path = os.path.join(self.path, PROCESSES)
        if not os.path.exists(path):
            return {}
        with open(path, "rb") as file:
            rows = json.load(file)["processes"]
        return {row["name"]: StartedProcess(row["pid"], row["address"]) for row in rows}

    def write_processes(self, started: Mapping[str, StartedProcess]) -> None:
        """Store the processes that were started, beside those that were not. OSError if that fails."""
        rows = [{"name": name, **process._asdict()} for name, process in {**self.processes(), **started}.items()]
        text = json.dumps({"kcli": 1, "processes": rows}, indent=1) + "\n"
        self._files.write_atomically(os.path.join(self.path, PROCESSES), text.encode())

    def is_in_use(self, name: str) -> bool:
        """Return whether a process uses the data directory of the controller or a node."""
        path = os.path.join(self.folder(name), LOCK)
        if not os.path.exists(path):
            return False
        lock = self._files.lock(path)
        if lock is None:
            return True
        lock.close()
        return False


def address_of(properties: Mapping[str, str]) -> str:
    """Return the `host:port` of the first listener; the port is 0 if it is not known yet."""
    return properties.get("listeners", "").partition(",")[0].partition("://")[2]


def controller_properties(folder: str, port: int, shared: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the controller; port 0: any free port. `shared` are those of the whole cluster."""
    return {
        "process.roles": "controller",
        "node.id": str(CONTROLLER_ID),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://{LOOPBACK}:{port}",
        "controller.quorum.bootstrap.servers": f"{LOOPBACK}:{port}",
        "log.dirs": folder,
        **shared,
    }


def node_properties(
    node_id: int, folder: str, listener: tuple[str, int], controller: str, shared: Mapping[str, str]
) -> dict[str, str]:
    """Return the properties of a node with this host and port; `controller` is the controller's address."""
    host, port = listener
    shown = f"[{host}]" if ":" in host else host
    return {
        "process.roles": "broker",
        "node.id": str(node_id),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": controller,
        "listeners": f"PLAINTEXT://{shown}:{port}",
        "log.dirs": folder,
        **shared,
    }


def default_settings(nodes: int) -> dict[str, str]:
    """Return the settings of a cluster of so many nodes whose defaults suit a larger or a smaller one."""
    replicas = str(min(3, nodes))
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "share.coordinator.state.topic.replication.factor": replicas,
    }
