"""A broker without its server: cluster state, logs and partitions on any `Files`, with a manual clock."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kcli.broker.alone import Alone
from kcli.broker.cluster.decide.draft import Draft
from kcli.broker.cluster.decide.draft_cluster import DraftCluster
from kcli.broker.config import BrokerConfig
from kcli.broker.data_dir import KAFKA_METADATA_LOG
from kcli.broker.handlers.api_table import HANDLERS
from kcli.broker.log.log import Log
from kcli.broker.log_manager import LogManager
from kcli.broker.replica_manager import ReplicaManager
from kcli.broker.security.allow_all import AllowAll
from kcli.broker.serving.request_context import RequestContext
from kcli.broker.serving.timer import Timer
from kcli.broker.testing.memory_files import MemoryFiles
from kcli.clock import ManualClock
from kcli.protocol.codec import decode, encode
from kcli.protocol.wire import Request
from kcli.structs import TopicPartition

DATA = "/data"


class Changing:
    """The cluster of a broker alone, together with the changes of `DraftCluster`, each as a decision of its own."""

    def __init__(self, alone: Alone) -> None:
        self._alone = alone

    def __getattr__(self, name: str) -> Any:
        if name == "create_topic":
            return self._create_topic
        if not hasattr(DraftCluster, name) or hasattr(self._alone.cluster, name):
            return getattr(self._alone.cluster, name)

        def change(*arguments: Any, **named: Any) -> Any:
            return self._alone.change(
                lambda draft: getattr(self._alone._controller.cluster(draft), name)(*arguments, **named)
            )

        return change

    def _create_topic(self, name: str, *counts: int, validate_only: bool = False, **named: Any) -> Any:
        create = self._alone._controller.cluster
        if validate_only:
            return create(Draft(self._alone.image)).create_topic(name, *counts, validate_only=True, **named)
        self._alone.change(lambda draft: create(draft).create_topic(name, *counts, **named))
        return self._alone.cluster.topics[name]


class Node:
    """The parts of a broker that handlers of topics and settings use; `ask` sends a request to a handler."""

    def __init__(self, files: Any = None, data_dir: str = DATA, **properties: Any) -> None:
        self.data_dir = data_dir
        self.files: Any = files if files is not None else MemoryFiles()
        self.properties = {name.replace("_", "."): value for name, value in properties.items()}
        self.clock = ManualClock(now_ms=1000)
        self.authorizer: Any = AllowAll()
        self.logged: list[str] = []
        self.start()

    def start(self) -> None:
        """Open the data directory as a broker does at its start."""
        self.config = BrokerConfig.from_properties(self.properties)
        self.endpoints = self.config.endpoints
        self.timer = Timer()
        self.log_manager = LogManager(self.data_dir, self.files, self.config, self.clock)
        self.replica_manager = ReplicaManager(self.log_manager, self.timer, self.clock, self.config)
        self.client_quotas = None
        try:
            self.alone = Alone(self)
        except BaseException:
            self.log_manager.close(clean=False)
            raise
        self.cluster: Any = Changing(self.alone)
        self.log_manager.open(self.cluster.log_config)
        self.alone.open_partitions()

    def listen(self) -> None:
        pass

    def log(self, text: str) -> None:
        self.logged.append(text)

    def restart(self, *, clean: bool = True, files: Any = None, **properties: Any) -> None:
        """Close and start again, optionally with other files or more properties."""
        self.close(clean=clean)
        self.files = files if files is not None else self.files
        self.properties |= {name.replace("_", "."): value for name, value in properties.items()}
        self.start()

    def close(self, *, clean: bool = True) -> None:
        self.alone.close(clean=clean)
        self.log_manager.close(clean=clean)

    def log_of(self, topic: str, number: int = 0) -> Log:
        return self.replica_manager.partitions[TopicPartition(topic, number)].log

    def directories(self) -> set[str]:
        """Return the names of the partition directories."""
        names = self.files.list(DATA)
        folders = {n for n in names if self.files.is_dir(f"{DATA}/{n}") and not n.endswith("-delete")}
        return {name for name in folders if not name.startswith(KAFKA_METADATA_LOG)}

    def ask(self, request: Request[Any], version: int) -> Any:
        """Return the response; request and response are encoded and decoded."""
        key = request.API_KEY
        context = RequestContext(key, version, 1, "test", "c1", "127.0.0.1", self.clock.now_ms(), self.clock.wall_ms())
        arrived = decode(type(request), encode(request, version), version)
        response = self.answer(arrived, context)
        return decode(type(response), encode(response, version), version)

    def answer(self, request: Request[Any], context: RequestContext) -> Any:
        if self.alone.is_forwarded(context.api_key):
            return self.alone.forward(request, context)
        return import_module(f"kcli.broker.handlers.{HANDLERS[context.api_key].module}").handle(self, request, context)
