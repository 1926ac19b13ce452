"""A broker in a thread of this process, for tests and demos: start, restart, kill and close it at will."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.broker.serving.loop_thread import LoopThread
from kcli.broker.testing.control import Control, Hook, RefusedConnection, SeenRequest
from kcli.broker.testing.temporary_folder import TemporaryFolder
from kcli.errors import KcliError
from kcli.private_files import write_text

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster.decide.draft import Draft
    from kcli.broker.security.authorizer import AclBinding
    from kcli.broker.security.ready_made import ReadyMade

T = TypeVar("T")


class EmbeddedBroker:
    """A broker that speaks Kafka's protocol on loopback, with its own loop thread.

    Settings are Kafka's broker properties with underscores for dots: `EmbeddedBroker(num_partitions=3)`. Without
    `data_dir` the data are in a temporary directory, which `close` removes. The port is chosen by the kernel unless
    `port` is given, and remains the same across restarts. Use it in a `with` statement, or call `start` and `close`.

    `EmbeddedBroker(security="SASL_SSL", users={"alice": "secret"})` makes a secured listener with certificates of its
    own (SSL, SASL_PLAINTEXT or SASL_SSL; certificates need `kcli-kafka[tls]`); `client_properties` returns the
    configuration of a client. With `acls` (see `kcli.broker.security.acl_rules`) requests are authorized; admin,
    if it is a user, may do everything.

    All methods may be called from any thread except the broker's own. In a process that is forked from this one, the
    broker is stopped, and `close` does nothing: it runs in the parent, whose address the child's own clients use.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        port: int = 0,
        security: str = "PLAINTEXT",
        users: Mapping[str, str] | None = None,
        acls: Iterable[AclBinding] | None = None,
        **settings: Any,
    ) -> None:
        """`users` are passwords by name. ConfigError if they do not fit to the protocol in `security`."""
        self._security = _ready_made(security, users)
        self._temporary = None if data_dir else TemporaryFolder(prefix="kcli-broker-")
        self.data_dir = Path(data_dir or self._temporary.name)  # type: ignore[union-attr]
        self._port = port
        self._settings = {property_name(name): property_text(value) for name, value in settings.items()}
        self._acls = None if acls is None else tuple(acls)
        self._addresses: dict[str, str] = {}
        self._loop: LoopThread[Broker] = LoopThread("kcli-broker")
        self._control = Control()
        self._numbers = itertools.count(1)

    def __repr__(self) -> str:
        address = next(iter(self._addresses.values()), f"127.0.0.1:{self._port}")
        return f"<EmbeddedBroker {address} {self._loop.state} {self.data_dir}>"

    def __enter__(self) -> EmbeddedBroker:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        return self._loop.is_running

    @property
    def address(self) -> str:
        """`127.0.0.1:port`, for `bootstrap.servers`; unchanged by restarts. ValueError before the first start."""
        if not self._addresses:
            raise ValueError("the broker has no address before its first start")
        return next(iter(self._addresses.values()))

    bootstrap_servers = address

    @property
    def addresses(self) -> dict[str, str]:
        """The address of each listener by its name, if the setting `listeners` names several."""
        return dict(self._addresses)

    def client_properties(
        self, client: str = "kcli", user: str | None = None, mechanism: str | None = None
    ) -> dict[str, Any]:
        """Return the configuration of a client, with address, certificates and credentials.

        `client` is one of these:

        | client | the configuration is |
        |---|---|
        | kcli, java | Kafka's property names with texts |
        | librdkafka, confluent-kafka | librdkafka's property names with texts, also for kcat |
        | kafka-python, aiokafka | keyword arguments: `KafkaProducer(**properties)`; TLS is an `ssl_context` |

        `user` is by default the first one of `users`. `mechanism` is SCRAM-SHA-256 by default; also SCRAM-SHA-512,
        PLAIN, and OAUTHBEARER with an unsecured token (not for kafka-python and aiokafka). ValueError for an unknown
        name.
        """
        if self._security is None:
            from kcli.broker.security.ready_made import plain_properties

            return plain_properties(client, self.address)
        return self._security.client_properties(client, self.address, user, mechanism)

    def write_client_properties(
        self, path: str | Path, client: str = "kcli", user: str | None = None, mechanism: str | None = None
    ) -> Path:
        """Write the configuration of a client to a file that only its owner can read, and return its path.

        ValueError for kafka-python and aiokafka, which read no file.
        """
        from kcli.broker.security.ready_made import has_keywords, properties_text

        if has_keywords(client):
            raise ValueError(f"{client} has keyword arguments and no file; use client_properties")
        write_text(path, properties_text(self.client_properties(client, user, mechanism)))
        return Path(path)

    # ---- life cycle ----

    def start(self) -> None:
        """Start with the existing data; clients can connect when this returns.

        ValueError if it is running, ConfigError for invalid settings or a directory in use, KcliError if the port is
        taken.
        """
        from kcli.broker.broker import Broker
        from kcli.broker.config import BrokerConfig

        if self.is_running:
            raise ValueError(f"{self!r} is already running")
        broker = Broker(BrokerConfig.from_properties(self._properties()))
        broker.control = self._control
        broker.start()
        self._port = broker.port
        self._addresses = {endpoint.name: endpoint.address for endpoint in broker.endpoints}
        if self._acls is not None:
            broker.alone.add_acls(self._acls)
        self._loop.start(broker, lambda: broker.is_serving)

    def _properties(self) -> dict[str, str]:
        """Return the broker's properties; after the first start with the ports that it has."""
        protocol, own = "PLAINTEXT", {}
        if self._security is not None:
            protocol, own = self._security.protocol, self._security.broker_properties()
        if self._acls is not None:
            own["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            own["super.users"] = "User:admin"
        listeners = self._settings.get("listeners", f"{protocol}://127.0.0.1:{self._port}")
        if "listeners" in self._settings and self._addresses:
            listeners = ",".join(f"{name}://{address}" for name, address in self._addresses.items())
        return {**own, **self._settings, "log.dirs": str(self.data_dir), "listeners": listeners}

    def stop(self) -> None:
        """Shut down cleanly, as SIGTERM does: flush everything and mark the directory clean. No-op if stopped."""
        self._loop.end(lambda broker: broker.shutdown(clean=True))

    def kill(self) -> None:
        """Stop as by kill -9: connections break, nothing is flushed, no marker is written. No-op if stopped."""
        self._loop.end(lambda broker: broker.kill())

    def restart(self) -> None:
        """Stop if running, and start with the same address and data. After `kill()` the logs are recovered."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop, and remove temporary data. KcliError if the loop failed."""
        self.stop()
        if self._temporary is not None:
            self._temporary.remove()
        if self._loop.failure is not None:
            raise KcliError(f"the embedded broker failed: {self._loop.failure!r}") from self._loop.failure

    # ---- state ----

    def call(self, fn: Callable[[Broker], T]) -> T:
        """Call `fn(broker)` in the broker's thread between two requests; return its result or raise its exception."""
        if not self.is_running:
            raise KcliError(f"{self!r} is not running") from self._loop.failure
        return self._loop.call(fn)

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, Any] | None = None) -> str:
        """Create a topic and return its name. BrokerError with the code that CreateTopics returns.

        `configs` are Kafka's topic properties, with dots or underscores.
        """
        texts = {property_name(key): property_text(value) for key, value in (configs or {}).items()}
        self.call(lambda broker: broker.alone.create_topic(name, partitions, 1, texts))
        return name

    def new_name(self, prefix: str) -> str:
        """Return a name that this broker has not returned before, such as `orders-3`: for a group or a topic."""
        return f"{prefix}-{next(self._numbers)}"

    def new_topic(self, prefix: str = "topic", partitions: int = 1, configs: Mapping[str, Any] | None = None) -> str:
        """Create a topic with a new name and return the name, for tests that share a broker."""
        return self.create_topic(self.new_name(prefix), partitions, configs)

    def clear(self) -> None:
        """Delete all topics and groups, and remove all hooks; start the broker if a test has stopped it.

        Members of the groups are removed; one that is still alive joins anew. Internal topics, producer ids, users
        and settings remain.
        """
        if not self.is_running:
            self.start()
        self.forget_interceptions()
        self.call(_delete_everything)
        self.forget_seen()

    @property
    def topics(self) -> dict[str, int]:
        """The partition count of each topic, without internal topics."""
        return self.call(
            lambda broker: {
                topic.name: len(topic.partitions) for topic in broker.cluster.topics.values() if not topic.is_internal
            }
        )

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return Kafka's metrics by the name of the MBean: attributes such as Count, Value, Mean and Max.

        For example `metrics()["kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t"]["Count"]`. They
        count from the start of the broker.
        """
        from kcli.broker.mbeans import by_mbean

        return by_mbean(self.call(lambda broker: broker.read_mbeans()))

    # ---- test hooks ----

    def intercept(self, api: str | int, hook: Hook, times: int | None = None) -> None:
        """Call `hook(request, context)` for requests of an API, by Kafka's name (`"Produce"`) or key.

        It runs in the broker's thread. It returns None to let the request pass, a response message to send instead of
        the broker's, or one of `kcli.broker.testing.control`: DROP, SILENCE, Delay(ms). `times` limits the number of
        calls. The hook survives restarts. ValueError for an unknown API.
        """
        self._in_the_loop(lambda: self._control.on(api, hook, times))

    def forget_interceptions(self, api: str | int | None = None) -> None:
        """Remove the hooks of an API, or all hooks."""
        self._in_the_loop(lambda: self._control.off(api))

    @property
    def requests(self) -> list[SeenRequest]:
        """The last 1000 requests with API, version, client id and connection, oldest first."""
        return self._in_the_loop(lambda: list(self._control.requests))

    @property
    def refusals(self) -> list[RefusedConnection]:
        """The last 1000 connections that were refused, oldest first, with the client's address and the reason.

        A client that uses TLS on a listener without TLS, or none on one with it; HTTP; SASL where there is none, or
        none where there is; a wrong password or certificate; an API or a version of it that the broker does not serve.
        The pytest plugin adds them to the report of a failed test.
        """
        return self._in_the_loop(lambda: list(self._control.refusals))

    def forget_seen(self) -> None:
        """Empty `requests` and `refusals`."""

        def forget() -> None:
            self._control.requests.clear()
            self._control.refusals.clear()

        self._in_the_loop(forget)

    def _in_the_loop(self, fn: Callable[[], T]) -> T:
        return self.call(lambda _: fn()) if self.is_running else fn()


def _delete_everything(broker: Broker) -> None:
    """Delete all topics and groups of a broker alone, in its thread."""
    from random import Random

    from kcli.broker.cluster.decide.draft_cluster import DraftCluster

    topics = [topic.topic_id for topic in broker.cluster.topics.values() if not topic.is_internal]

    def delete(draft: Draft) -> None:
        cluster = DraftCluster(draft, broker.config, Random())
        for topic_id in topics:
            cluster.delete_topic(topic_id)

    broker.alone.change(delete)
    for group_id in broker.groups.group_ids():
        broker.offsets.delete_group(group_id, broker.clock.wall_ms())
        broker.groups.unload(group_id)


def _ready_made(security: str, users: Mapping[str, str] | None) -> ReadyMade | None:
    if security.upper() == "PLAINTEXT" and not users:
        return None
    from kcli.broker.security.ready_made import ReadyMade

    return ReadyMade.checked(security, users)


def property_name(name: str) -> str:
    """Return Kafka's name of a setting. A name with dots is that already: `listener.name.sasl_ssl.ssl.client.auth`."""
    return name if "." in name else name.replace("_", ".")


def property_text(value: Any) -> str:
    """Format a property's value as Kafka does: booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)
