"""CombinedBroker: a broker and its cluster's controller in one process (process.roles=broker,controller).

They have two loops in two threads, a connection over loopback between them, and one data directory, as in Kafka:
`__cluster_metadata-0` beside the partitions, one `meta.properties`, one lock.

A process with both roles is combined only if its settings ask for a controller that others can reach: see
`wants_controller`. Without them the broker is alone, on a directory of the same form.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.cluster.metadata_log import has_records
from kcli.broker.controller.controller_server import ControllerServer
from kcli.broker.data_dir import EARLIER_TOPICS, KAFKA_METADATA_LOG, find_partitions
from kcli.broker.files import DiskFiles
from kcli.broker.serving.loop_thread import LoopThread
from kcli.broker.serving.request_context import ANONYMOUS, RequestContext
from kcli.errors import BrokerError, ConfigError
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.counters import MBean
    from kcli.broker.security.listeners import Endpoint

_CREATE_EARLIER_TOPICS_VERSION = 7


def reason_to_be_alone(config: BrokerConfig) -> str | None:
    """Return why a broker whose settings ask for a controller, too, must run without it; None if it need not."""
    if config.data_dir is not None and os.path.exists(os.path.join(config.data_dir, EARLIER_TOPICS)):
        return (
            f"{config.data_dir} is the directory of an earlier version: it has {EARLIER_TOPICS}, which a start without "
            "a controller converts"
        )
    if not all(text.startswith(f"{config.node_id}@") for text in config.controller_quorum_voters):
        return f"controller.quorum.voters must have node {config.node_id} only"
    if len(config.controllers) > 1:
        return "controller.quorum.bootstrap.servers must have one address"
    for part in (_controller_part(config).endpoints, [_inter_broker_endpoint(config)]):
        for endpoint in part:
            if endpoint.protocol != "PLAINTEXT":
                return f"listener {endpoint.name} has protocol {endpoint.protocol}; nodes and controller need PLAINTEXT"
    if config.authorizer_class_name and ANONYMOUS not in config.super_user_names:
        return f"the authorizer refuses the nodes, which connect by PLAINTEXT; super.users must have {ANONYMOUS}"
    return None


def _inter_broker_endpoint(config: BrokerConfig) -> Endpoint:
    named = [endpoint for endpoint in config.endpoints if endpoint.name == config.inter_broker_listener_name]
    same = [endpoint for endpoint in config.endpoints if endpoint.protocol == config.security_inter_broker_protocol]
    return [*named, *same, *config.endpoints][0]


def _controller_part(config: BrokerConfig) -> BrokerConfig:
    return config.with_properties({"process.roles": "controller"})


class CombinedBroker:
    """A broker and a controller. `run` is the loop of the broker; that of the controller has a thread.

    Only `wakeup` may be used from other threads.
    """

    def __init__(self, config: BrokerConfig, *, log: Callable[[str], None]) -> None:
        """`log` receives messages for the operator, also from the controller's thread."""
        self.config = config
        self._log = log
        self.controller = ControllerServer(_controller_part(config), log=lambda text: log(f"controller: {text}"))
        self._loop: LoopThread[ControllerServer] = LoopThread("kcli-controller", on_failure=self.wakeup)
        self._broker: Broker | None = None

    def __repr__(self) -> str:
        return f"<CombinedBroker {self._broker!r} {self.controller!r}>"

    @property
    def broker(self) -> Broker:
        """The broker, after `start`."""
        assert self._broker is not None
        return self._broker

    @property
    def address(self) -> str:
        """The `host:port` of the broker's first listener."""
        return self.broker.address

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The listeners of the broker, then those of the controller."""
        return self.broker.endpoints + self.controller.endpoints

    @property
    def is_serving(self) -> bool:
        """True if clients can connect."""
        return self.broker.is_serving

    def start(self) -> None:
        """Start the controller, and open the broker's logs. The broker serves clients while `run` goes on.

        KcliError or OSError if that fails; then nothing is left open.
        """
        _check_directory(self.config)
        self.controller.start()
        try:
            properties = {
                "process.roles": "broker",
                "controller.quorum.bootstrap.servers": self.controller.endpoints[0].address,
                "controller.quorum.voters": None,
            }
            node = Broker(self.config.with_properties(properties), log=self._log, data_dir=self.controller.data)
            node.start()
        except BaseException:
            self.controller.kill()
            raise
        self._broker = node
        try:
            self._loop.start(self.controller)
        except BaseException:
            self.shutdown(clean=False)
            raise

    def run(self, until: Callable[[], bool]) -> None:
        """Serve until `until()` returns True. It is called after each iteration; `wakeup` ends one.

        KcliError if the data directory fails.
        """
        self.broker.run(lambda: until() or self._loop.failure is not None)
        if self._loop.failure is not None:
            raise self._loop.failure

    def create_topic(self, name: str, partitions: int | None) -> int:
        """Create a topic if it does not exist, and return its number of partitions. None: num.partitions."""

        def create(server: ControllerServer) -> int:
            topics = server.controller.image.topics
            if name not in topics:
                topic = CreatableTopic(name=name, num_partitions=partitions or -1, replication_factor=-1)
                key, version = CreateTopicsRequest.API_KEY, _CREATE_EARLIER_TOPICS_VERSION
                now_ms, now_wall_ms = server.clock.now_ms(), server.clock.wall_ms()
                context = RequestContext(key, version, 0, None, "", "127.0.0.1", now_ms, now_wall_ms)
                answer = server.handle(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), context)
                assert isinstance(answer, CreateTopicsResponse)
                [row] = answer.topics
                if row.error_code:
                    raise BrokerError(row.error_code, row.error_message)
            return len(topics[name].partitions)

        count = self._loop.call(create)
        self.run(lambda: name in self.broker.cluster.topics)
        return count

    def shutdown(self, *, clean: bool = True) -> None:
        """Shut down the broker, which tells the controller that it leaves, and then the controller."""
        try:
            self.broker.shutdown(clean=clean)
        finally:
            self._loop.end(lambda controller: controller.shutdown(clean=clean))

    def mbeans(self) -> list[MBean]:
        """Return the metrics: requests to the broker, and gauges of both. May be called from any thread."""
        from kcli.broker.mbeans import CONTROLLER

        return self.broker.mbeans() + [bean for bean in self.controller.mbeans() if bean.domain == CONTROLLER]

    def wakeup(self) -> None:
        """End the current wait of `run`, or the next one. May be called from any thread."""
        if self._broker is not None:
            self._broker.wakeup()


def _check_directory(config: BrokerConfig) -> None:
    """Raise ConfigError if a directory has partitions, but not the metadata log that describes their topics."""
    files, path = DiskFiles(), config.data_dir
    if path is None or not files.exists(path) or has_records(path, files):
        return
    if partitions := find_partitions(path, files):
        raise ConfigError(
            f"the data directory {path} has partitions ({next(iter(partitions))}), but no {KAFKA_METADATA_LOG} with "
            "their topics; choose another directory, or start the broker without a listener of the controller: it then "
            "adopts them"
        )
