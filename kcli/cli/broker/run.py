"""`kcli broker run`: run the embedded broker in this process until a signal stops it, or a cluster of processes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from kcli.cli import exit_status
from kcli.cli.environment import Environment, StopSignals
from kcli.cli.parser import Option, given_options
from kcli.errors import ConfigError, KcliError
from kcli.visible import shell_word

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kcli.broker.broker import Broker
    from kcli.broker.combined import CombinedBroker
    from kcli.broker.config import BrokerConfig
    from kcli.broker.controller.controller_server import ControllerServer
    from kcli.broker.security.listeners import Endpoint

_DIRECTORIES = ("log.dirs", "log.dir")
_MOST_NODES = 50
_OPEN = "kcli: listening beyond this machine without access control: anyone can read, write and delete data"


class DirectoryOptions(NamedTuple):
    """The directory of the data."""

    data_dir: Annotated[
        str | None,
        Option("--data-dir", "-d", metavar="DIR", help="Store the data in DIR. [~/.local/share/kcli/broker]"),
    ] = None
    ephemeral: Annotated[
        bool, Option("--ephemeral", help="Store the data in a temporary directory; remove it at the end.")
    ] = False

    def choose(
        self,
        env: Environment,
        properties: dict[str, str],
        given: Collection[str],
        cleanup: ExitStack,
        default: str,
    ) -> None:
        """Set log.dirs in the properties. ConfigError if several directories are `given`."""
        configured = next((name for name in _DIRECTORIES if name in given), None)
        own = list(given_options(self))
        chosen = own + [f"-c {configured}"] * (configured is not None)
        if len(chosen) > 1:
            raise ConfigError(f"{' and '.join(chosen)} cannot be combined; choose one")
        if own:  # an option is stronger than the file
            for name in _DIRECTORIES:
                properties.pop(name, None)
        if self.ephemeral:
            from tempfile import TemporaryDirectory

            properties["log.dirs"] = cleanup.enter_context(
                TemporaryDirectory(prefix="kcli-broker-", ignore_cleanup_errors=True)
            )
        elif self.data_dir is not None or not any(name in properties for name in _DIRECTORIES):
            properties["log.dirs"] = _default_directory(env, default) if self.data_dir is None else self.data_dir


class ListenerOptions(NamedTuple):
    """The address of the only listener, which is without encryption and passwords."""

    host: Annotated[
        str | None,
        Option("--host", metavar="HOST", help="Listen on HOST, without encryption and passwords. [127.0.0.1]"),
    ] = None
    port: Annotated[
        int | None,
        Option("--port", metavar="PORT", min=0, max=65_535, help="Listen on PORT; 0 chooses a free port. [9092]"),
    ] = None

    def choose(self, properties: dict[str, str], given: Collection[str]) -> None:
        """Set listeners in the properties. ConfigError if they have some."""
        if "listeners" in properties:
            if given_options(self):
                where = "-c listeners" if "listeners" in given else "listeners of the file in --properties"
                raise ConfigError(f"{where} cannot be combined with --host or --port; choose one")
            return
        host = self.host or "127.0.0.1"
        shown = f"[{host}]" if ":" in host else host
        properties["listeners"] = f"PLAINTEXT://{shown}:{9092 if self.port is None else self.port}"


def run(
    env: Environment,
    directory: DirectoryOptions,
    listener: ListenerOptions,
    topic: Annotated[
        list[str] | None,
        Option(
            "--topic",
            "-t",
            metavar="NAME[:N]",
            help="Create topic NAME with N partitions if it does not exist; repeatable.",
        ),
    ] = None,
    properties: Annotated[
        str | None,
        Option("--properties", metavar="FILE", help="Read Kafka's broker properties from FILE: a server.properties."),
    ] = None,
    config: Annotated[
        list[str] | None,
        Option("--config", "-c", metavar="NAME=VALUE", help="Set one of Kafka's broker properties; repeatable."),
    ] = None,
    nodes: Annotated[
        int | None,
        Option(
            "--nodes",
            metavar="N",
            min=1,
            max=_MOST_NODES,
            help="Run a cluster of one controller and N nodes, a process each, on PORT and the following ports.",
        ),
    ] = None,
    node: Annotated[
        int | None,
        Option("--node", metavar="K", min=1, max=_MOST_NODES, help="Run node K of the cluster in DIR in this process."),
    ] = None,
    metrics: Annotated[
        str | None,
        Option("--metrics", metavar="HOST:PORT", help="Serve metrics to Prometheus, without encryption and passwords."),
    ] = None,
) -> int:
    """Run a Kafka broker, or a cluster of them, for laptops, demos and tests. It is not a production broker.

    Kafka clients work with it as with Apache Kafka. Acknowledged records survive kill -9; with
    log.flush.interval.messages=1 they survive a power failure, too. The data are in Kafka's own format.

    When the broker is ready, it prints the address of its first listener, the only line on standard output. Ctrl-C or
    SIGTERM shuts it down cleanly. If the data directory fails, or if another broker uses it, the exit status is 1.

    Listeners with TLS, SASL and ACLs are configured with Kafka's properties, best in a file that only you can read;
    -c is stronger than the file. user_NAME="PASSWORD" in sasl.jaas.config creates a user, for SCRAM as for PLAIN.

    --nodes N runs a cluster whose nodes replicate their partitions: new topics have min(3, N) replicas. DIR, by default
    ~/.local/share/kcli/cluster, has a folder and a properties file for each process. The line on standard output has
    the addresses of all nodes, when all of them are ready; the lines that a process logs begin with its name. A node
    that dies, such as by kill -9, is reported with the command that starts it again: --node K --data-dir DIR. The same
    --nodes command starts all processes that are missing, the controller too. Ctrl-C or SIGTERM shuts down the nodes,
    which move their leaders, and then the controller, within 20 seconds. The controller has no replica: a cluster of
    kcli is for laptops and tests.

    --metrics serves what Kafka's MBeans BrokerTopicMetrics, RequestMetrics, ReplicaManager, DelayedOperationPurgatory
    and KafkaController count, at http://HOST:PORT/metrics, under the names of Prometheus's JMX exporter, such as
    kafka_server_brokertopicmetrics_messagesin_total.
    """
    from kcli.cli.property_sources import key_values

    topics = [_topic(text) for text in topic or []]
    if node is not None:
        ephemeral = directory.ephemeral
        others = {"--nodes": nodes, "--ephemeral": ephemeral, **given_options(listener), "--topic": topic}
        for option, value in others.items():
            if value not in (None, False):
                raise ConfigError(f"--node and {option} cannot be combined; the node has the settings of its cluster")
    address = _metrics_address(metrics, nodes)
    given = key_values("-c", config or [])
    _warn_of_secrets(env, given)
    of_file = _read_properties(env, properties)
    merged = {**of_file, **given}
    with ExitStack() as cleanup:
        signals = cleanup.enter_context(StopSignals())
        with signals.deferred():  # no signal between creating the directory and registering its cleanup
            default = "broker" if nodes is None and node is None else "cluster"
            directory.choose(env, merged, given, cleanup, default)
        _raise_file_limit()
        if nodes is None and node is None:
            _refuse_cluster_directory(merged)
        if nodes is not None:
            return _run_cluster(env, merged, nodes, listener, topics, signals, is_temporary=directory.ephemeral)
        where = {**dict.fromkeys(of_file, f"{properties}: "), **dict.fromkeys(given, "-c ")}
        if node is not None:
            where = {**_use_node(env, merged, node), **where}
        else:
            listener.choose(merged, given)
        checked, page = _settings(env, merged, where), _MetricsPage()
        if address is not None:
            from kcli.cli.output.openmetrics import metrics_served

            cleanup.enter_context(metrics_served(page, address, env, "--metrics"))
        return _serve(env, checked, where, topics, signals, page)


def _metrics_address(text: str | None, nodes: int | None) -> tuple[str, int] | None:
    if text is None:
        return None
    from kcli.cli.output.openmetrics import check_package, parse_listen

    if nodes is not None:
        raise ConfigError("--nodes and --metrics cannot be combined; start each node with --node K --metrics HOST:PORT")
    address = parse_listen(text, "--metrics")
    check_package()
    return address


def _read_properties(env: Environment, path: str | None) -> dict[str, str]:
    """Return the properties of a file, with the values of its config providers. ConfigError with the path."""
    if path is None:
        return {}
    from kcli.client.config_providers import replace_references
    from kcli.client.external_values import read_file
    from kcli.client.properties import load_properties

    try:
        return replace_references(load_properties(read_file(path), kcat=False), env.environ, read_file)
    except OSError as error:
        raise ConfigError(f"cannot read properties file {path}: {error.strerror}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _warn_of_secrets(env: Environment, given: Collection[str]) -> None:
    """Warn if -c has a password: other users can read the command line."""
    from kcli.broker.config import BrokerConfig

    known = [name for name in given if name in BrokerConfig.SETTINGS or BrokerConfig.is_known(name)]
    names = [name for name in known if BrokerConfig.is_secret(name)]
    if names:
        env.report(
            f"kcli: warning: -c {', '.join(names)}: other users can see it in the process list; use --properties FILE"
        )


def _topic(text: str) -> tuple[str, int | None]:
    """Parse `orders:6` into name and partitions; None means the broker's `num.partitions`."""
    from kcli.broker.cluster.topic_rules import LONGEST_NAME, name_fault

    name, colon, count = text.partition(":")
    if not name or (colon and not (count.isascii() and count.isdigit() and 0 < int(count[:9]) < 100_000)):
        raise ConfigError(f"--topic: {text!r} is not valid; use NAME or NAME:PARTITIONS")
    if name_fault(name):
        legal = f"at most {LONGEST_NAME} ASCII letters, digits, '.', '_' and '-'"
        raise ConfigError(f"--topic: {name!r} is not valid as a topic name; use {legal}")
    return name, int(count) if colon else None


def _default_directory(env: Environment, name: str) -> str:
    from os.path import expanduser, join

    base = env.environ.get("XDG_DATA_HOME") or expanduser(join("~", ".local", "share"))
    return join(base, "kcli", name)


def _settings(env: Environment, properties: dict[str, str], where: Mapping[str, str]) -> BrokerConfig:
    """Return the broker's configuration. An error about a property has its origin, by `where`, in front."""
    from kcli.broker.config import BrokerConfig

    try:
        settings = BrokerConfig.from_properties(properties)
    except ConfigError as error:
        raise ConfigError(f"{where.get(_property_of(error), '')}{error}") from None
    if _is_any_open(settings):
        env.report(_OPEN)
    return settings


def _property_of(error: ConfigError) -> str:
    """Return the first word of an error, which is the property if it is about one."""
    return str(error).partition(" ")[0].rstrip(":")


def _is_any_open(settings: BrokerConfig) -> bool:
    return any(_is_open(settings, endpoint) for endpoint in settings.endpoints)


def _is_open(settings: BrokerConfig, endpoint: Endpoint) -> bool:
    """Return True for a listener on which everyone in the network can connect as ANONYMOUS and is not restricted."""
    if _is_loopback(endpoint.host) or endpoint.has_sasl or settings.authorizer_class_name:
        return False
    return not endpoint.has_tls or settings.listener_settings(endpoint.name).ssl_client_auth != "required"


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _raise_file_limit() -> None:
    """Raise the limit of open files: a segment needs three, a client one, and shells often allow only 256 or 1024."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):  # macOS has a hidden limit below "unlimited"
        if soft != resource.RLIM_INFINITY and soft < 10_240:
            _try_file_limit(10_240, hard)


def _try_file_limit(soft: int, hard: int) -> None:
    import contextlib
    import resource

    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _serve(
    env: Environment,
    settings: BrokerConfig,
    where: Mapping[str, str],
    topics: list[tuple[str, int | None]],
    signals: StopSignals,
    page: _MetricsPage,
) -> int:
    from kcli.cli.broker.cluster_processes import serve, shutting_down

    def log(text: str) -> None:
        env.report(f"kcli: {text}")

    def is_stopping() -> bool:
        return signals.requested

    if settings.is_controller:
        from kcli.broker.controller.controller_server import ControllerServer

        if topics:
            raise ConfigError("--topic cannot be combined with process.roles=controller; create topics at a broker")
        controller = ControllerServer(settings, log=log)
        _start(controller, settings, where, signals)
        _print_ready(env, "controller", controller)
        page.server = controller
        with shutting_down(controller):
            controller.run(is_stopping)
        return exit_status.DONE

    from kcli.broker.broker import Broker

    broker: Broker | CombinedBroker
    if settings.wants_controller:
        broker = _combined(env, settings, where, log) or Broker(settings, log=log)
    else:
        broker = Broker(settings, log=log)
    _start(broker, settings, where, signals)

    def on_ready() -> None:
        for name, partitions in topics:
            _create(broker, name, partitions)
        _print_ready(env, "broker", broker)

    page.server = broker
    return serve(broker, is_stopping, on_ready)


class _MetricsPage:
    """The metrics of a server at the time of a scrape, as a collector of prometheus_client. Empty before its start."""

    def __init__(self) -> None:
        self.server: Broker | CombinedBroker | ControllerServer | None = None

    def collect(self) -> list[Any]:
        from kcli.broker.mbeans import families
        from kcli.cli.output.openmetrics import Families

        return [] if self.server is None else Families(families(self.server.mbeans())).collect()


def _combined(
    env: Environment, settings: BrokerConfig, where: Mapping[str, str], log: Callable[[str], None]
) -> CombinedBroker | None:
    """Return a broker with a controller in its process; None, with a line that has the reason, if that cannot be."""
    from kcli.broker.combined import CombinedBroker, reason_to_be_alone

    try:
        reason = reason_to_be_alone(settings)
        if reason is None:
            broker = CombinedBroker(settings, log=log)
            if not _is_any_open(settings) and _is_any_open(broker.controller.config):
                env.report(_OPEN)
            return broker
    except ConfigError as error:
        raise ConfigError(f"{where.get(_property_of(error), '')}{error}") from None
    log(f"{reason}; this broker runs without a controller, and other brokers cannot join it")
    return None


def _start(
    server: Broker | CombinedBroker | ControllerServer,
    settings: BrokerConfig,
    where: Mapping[str, str],
    signals: StopSignals,
) -> None:
    try:
        server.start()
        signals.wake = server.wakeup
    except ConfigError as error:
        if (name := _property_of(error)) in settings.SETTINGS or settings.is_known(name):
            raise ConfigError(f"{where.get(name, '')}{error}") from None
        # Caused by the directory, not by the command line: status 1.
        raise KcliError(error.message, **error.evidence) from error


def _print_ready(env: Environment, role: str, server: Broker | CombinedBroker | ControllerServer) -> None:
    env.report(
        f"kcli: this {role} is for tests and demos, not for production; data directory: {server.config.data_dir}"
    )
    if len(server.endpoints) > 1:
        for endpoint in server.endpoints:
            env.report(f"kcli: listener {endpoint.name} ({endpoint.protocol}): {endpoint.host}:{endpoint.port}")
    env.stdout.write(f"{server.address}\n")
    env.stdout.flush()


def _refuse_cluster_directory(properties: Mapping[str, str]) -> None:
    """Raise ConfigError for a single broker in the directory of a cluster, before it writes anything there."""
    from kcli.broker.testing.cluster_directory import ClusterDirectory

    directory = ClusterDirectory(next(properties[name] for name in _DIRECTORIES if name in properties))
    if directory.nodes:
        raise ConfigError(
            f"{directory.path} has a cluster of kcli; start it with --nodes {max(directory.nodes)}, or choose another "
            "directory"
        )


def _use_node(env: Environment, properties: dict[str, str], number: int) -> dict[str, str]:
    """Add the stored properties of a node of the cluster in the data directory; the given ones are stronger.

    Return the origin of each, to stand before an error.
    """
    from kcli.broker.testing.cluster_directory import CONTROLLER, ClusterDirectory, address_of, node_name

    directory = ClusterDirectory(next(properties.pop(name) for name in _DIRECTORIES if name in properties))
    name = node_name(number)
    stored = directory.read(name)
    if not stored:
        known = f"its nodes are {', '.join(map(str, directory.nodes))}" if directory.nodes else "it has no cluster"
        raise ConfigError(f"--node {number}: there is no node {number} in {directory.path}; {known}")
    if directory.is_in_use(name):
        raise KcliError(f"node {number} is running already: {address_of(stored)}")
    properties.update({**stored, **properties, "log.dirs": directory.folder(name)})
    if not directory.is_in_use(CONTROLLER):
        env.report(
            f"kcli: the controller of this cluster is not running, and node {number} waits for it; start it: "
            f"kcli broker run --nodes {max(directory.nodes)} --data-dir {shell_word(directory.path)}"
        )
    return dict.fromkeys(stored, f"{directory.file(name)}: ")


def _run_cluster(
    env: Environment,
    properties: dict[str, str],
    nodes: int,
    listener: ListenerOptions,
    topics: list[tuple[str, int | None]],
    signals: StopSignals,
    *,
    is_temporary: bool,
) -> int:
    from kcli.broker.testing.cluster_directory import ClusterDirectory
    from kcli.cli.broker.run_cluster import ClusterPlan, run_cluster

    directory = next(properties.pop(name) for name in _DIRECTORIES if name in properties)
    host = listener.host or "127.0.0.1"
    plan = ClusterPlan(nodes, ClusterDirectory(directory), host, listener.port, properties, topics, is_temporary)
    if not _is_loopback(host):
        env.report(_OPEN)
    return run_cluster(env, plan, signals)


def _create(broker: Broker | CombinedBroker, name: str, partitions: int | None) -> None:
    count = broker.create_topic(name, partitions)
    if partitions is not None and count != partitions:
        raise ConfigError(f"--topic {name}:{partitions}: the topic exists with {count} partitions; use {name}")
