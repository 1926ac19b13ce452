"""A broker without its server: cluster state, logs and partitions on any `Files`, with a manual clock."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kcli.broker.cluster_state import ClusterState
from kcli.broker.config import BrokerConfig
from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.log.log import Log
from kcli.broker.log_manager import LogManager
from kcli.broker.memory_files import MemoryFiles
from kcli.broker.replica_manager import ReplicaManager
from kcli.broker.request_context import RequestContext
from kcli.broker.security.allow_all import AllowAll
from kcli.broker.timer import Timer
from kcli.clock import ManualClock
from kcli.protocol.codec import decode, encode
from kcli.protocol.wire import Request
from kcli.structs import TopicPartition

DATA = "/data"


class Node:
    """The parts of a broker that handlers of topics and settings use; `ask` sends a request to a handler."""

    def __init__(self, files: Any = None, **properties: Any) -> None:
        self.files: Any = files if files is not None else MemoryFiles()
        self.properties = {name.replace("_", "."): value for name, value in properties.items()}
        self.clock = ManualClock(now_ms=1000)
        self.authorizer: Any = AllowAll()
        self.acls: Any = None
        self.start()

    def start(self) -> None:
        """Open the data directory as a broker does at its start."""
        self.config = BrokerConfig.from_properties(self.properties)
        self.timer = Timer()
        self.log_manager = LogManager(DATA, self.files, self.config, self.clock)
        self.replica_manager = ReplicaManager(self.log_manager, self.timer, self.clock, self.config)
        self.client_quotas = None
        self.cluster = ClusterState(self.config, self.files, self.log_manager, self.replica_manager)
        self.log_manager.open(self.cluster.log_config)
        self.cluster.start()

    def restart(self, *, clean: bool = True, files: Any = None, **properties: Any) -> None:
        """Close and start again, optionally with other files or more properties."""
        self.log_manager.close(clean=clean)
        self.files = files if files is not None else self.files
        self.properties |= {name.replace("_", "."): value for name, value in properties.items()}
        self.start()

    def log(self, topic: str, number: int = 0) -> Log:
        return self.replica_manager.partitions[TopicPartition(topic, number)].log

    def directories(self) -> set[str]:
        """Return the names of the partition directories."""
        names = self.files.list(DATA)
        return {n for n in names if self.files.is_dir(f"{DATA}/{n}") and not n.endswith("-delete")}

    def ask(self, request: Request[Any], version: int) -> Any:
        """Return the response; request and response are encoded and decoded."""
        key = request.API_KEY
        context = RequestContext(key, version, 1, "test", "c1", "127.0.0.1", self.clock.now_ms(), self.clock.wall_ms())
        arrived = decode(type(request), encode(request, version), version)
        handler = import_module(f"kcli.broker.handlers.{HANDLERS[key].module}")
        response = handler.handle(self, arrived, context)
        return decode(type(response), encode(response, version), version)
