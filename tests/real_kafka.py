"""A real Apache Kafka for tests: jars that Maven fetches once, and a single KRaft node on loopback.

Coordinates, settings and class names work with 3.9.2, 4.0.2, 4.1.2, 4.2.1 and 4.3.1.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests.jvm_archive import archive_flags, locked
from tests.needs import skip_or_fail
from tests.preloaded import KcliProcess

T = TypeVar("T")

VERSION = os.environ.get("KCLI_KAFKA_VERSION", "4.3.1")
CLUSTER_ID = "21Mn6F1BRPmTbRv5B9l0PA"
# Maven copies the jars that a project needs. A download that stalls fails after two minutes and not after half an hour:
# the names are those of Maven's two ways to download.
COPY_JARS = (
    *("mvn", "-q", "-B", "-Daether.connector.requestTimeout=120000", "-Dmaven.wagon.rto=120000"),
    *("org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies", "-DincludeScope=runtime"),
)

SMALL_JVM = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=128m")
TOOL_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
    "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    "num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    # Timeouts of transactions are looked for each 10 s by default.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    # The broker sets the heartbeat interval of KIP-848 members: 5 s by default.
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.record.lock.duration.ms": "1000",
    # By default the cleaner waits 15 s between runs and takes 128 MiB of heap.
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.cleaner.threads": "1",
    "log.initial.task.delay.ms": "500",
    # Tests write old records: after the first check at start-up, retention must not delete them.
    "log.retention.check.interval.ms": "86400000",
    # After kill -9 a node must wait for the end of its old registration: 9 s by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}

# Short names of Java tools outside org.apache.kafka.tools.
TOOLS = {
    "ConfigCommand": "kafka.admin.ConfigCommand",
    "StorageTool": "kafka.tools.StorageTool",
    "ConsoleConsumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "ConsoleShareConsumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "ConsumerGroupCommand": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "ReassignPartitionsCommand": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "ShareGroupCommand": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "StreamsGroupCommand": "org.apache.kafka.tools.streams.StreamsGroupCommand",
}
TOOLS_BEFORE_4 = {
    "ConsoleProducer": "kafka.tools.ConsoleProducer",
    "DumpLogSegments": "kafka.tools.DumpLogSegments",
    "BrokerApiVersionsCommand": "kafka.admin.BrokerApiVersionsCommand",
}
NEEDS_ITS_OWN_JVM = ("VerifiableProducer",)  # prints its result in a shutdown hook of the JVM


class KafkaUnavailable(Exception):
    """This machine cannot run a real Kafka; the message names what is missing."""


# ---- the jars ----


def cache_directory() -> Path:
    """Return the folder that keeps downloads between runs: `$KCLI_TEST_CACHE`, else `~/.cache/kcli-tests`."""
    return Path(os.environ.get("KCLI_TEST_CACHE") or Path.home() / ".cache" / "kcli-tests")


def pom(version: str) -> str:
    """Return a Maven project whose runtime dependencies are this version of Kafka and its tools, without Connect."""
    parts = [
        _dependency("org.apache.kafka", "kafka_2.13", version),
        _dependency("org.apache.kafka", "kafka-tools", version, exclude=("org.apache.kafka", "connect-runtime")),
    ]
    if _major_minor(version) >= (4, 0):
        parts.append(_dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"))
        parts.append(_dependency("org.apache.logging.log4j", "log4j-core", "2.25.4"))
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>kcli</groupId><artifactId>kafka-for-tests</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{''.join(parts)}</dependencies></project>\n"
    )


def _dependency(group: str, artifact: str, version: str, exclude: tuple[str, str] | None = None) -> str:
    exclusions = ""
    if exclude:
        exclusions = (
            f"<exclusions><exclusion><groupId>{exclude[0]}</groupId><artifactId>{exclude[1]}</artifactId>"
            "</exclusion></exclusions>"
        )
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        f"{exclusions}</dependency>"
    )


def _major_minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def fetch_jars(version: str = VERSION) -> Path:
    """Return the folder with Kafka's jars; Maven fills it once. Safe for concurrent processes."""
    if shutil.which("java") is None:
        raise KafkaUnavailable("no real Kafka: there is no `java` (17 or newer) on the PATH")
    folder = cache_directory() / f"kafka-{version}"
    if folder.is_dir():
        return folder
    if shutil.which("mvn") is None:
        raise KafkaUnavailable(f"no real Kafka: {folder} is empty and there is no `mvn` on the PATH to fill it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / f"kafka-{version}.lock"):
        if not folder.is_dir():
            _download(version, folder)
    return folder


def _download(version: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as scratch:
        project = Path(scratch, "pom.xml")
        project.write_text(pom(version))
        jars = Path(scratch, "jars")
        command = [*COPY_JARS, "-f", str(project), f"-DoutputDirectory={jars}"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900)
        if done.returncode != 0 or not list(jars.glob("kafka_2.13-*.jar")):
            output = (done.stdout + done.stderr).strip().splitlines()
            raise KafkaUnavailable(
                f"no real Kafka: Maven could not fetch {version}: {output[0] if output else 'no output'}"
            )
        jars.rename(folder)  # atomic


# ---- changes ----


def read_until_equal(expected: T, read: Callable[[], T], timeout_s: float = 30) -> T:
    """Repeat a reading until it is as expected or the time is over, and return the last one, which the test compares.

    In KRaft a change is answered when the controller has committed it. The broker applies it a moment later, so that a
    reading right after the answer may show the old state.
    """
    deadline = time.monotonic() + timeout_s
    while (found := read()) != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


# ---- brokers ----


class Kafka:
    """A running Kafka: its address, its Java tools, its topics."""

    def __init__(self, bootstrap_servers: str, jars: Path | None, version: str = VERSION) -> None:
        """Without `jars` they are fetched when first used: kcli's broker needs them for Kafka's tools only."""
        self.bootstrap_servers = bootstrap_servers
        self.version = version
        self._jars = jars
        self._names = itertools.count()

    @property
    def jars(self) -> Path:
        """The folder with Kafka's jars. The test is skipped where they cannot be fetched."""
        if self._jars is None:
            try:
                self._jars = fetch_jars(self.version)
            except KafkaUnavailable as missing:
                skip_or_fail(str(missing))
        return self._jars

    def java(self, tool: str, *jvm: str) -> list[str]:
        """Return the command line of a Java tool, given by short name (`ConsoleProducer`) or full class name."""
        return [*self._jvm_of_tools(*jvm), "-cp", f"{self.jars}/*", self._class(tool)]

    def _jvm_of_tools(self, *more: str) -> tuple[str, ...]:
        archive = archived_tool(self.jars, self.version)
        return ("java", *TOOL_JVM, *archive, *_logging(self.version, "warn"), *more)

    def _class(self, tool: str) -> str:
        if "." in tool:
            return tool
        older = TOOLS_BEFORE_4 if _major_minor(self.version) < (4, 0) else {}
        return older.get(tool) or TOOLS.get(tool) or f"org.apache.kafka.tools.{tool}"

    def tool(
        self, tool: str, *args: str, stdin: str | None = None, check: bool = True, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's tools to its end. `check` raises an error with its output if it fails.

        The tool runs in a JVM that several tools share (see `java_tools`); use `java` for a process of its own.
        """
        from tests.java_tools import java_tools

        if tool in NEEDS_ITS_OWN_JVM:
            done = subprocess.run(
                [*self.java(tool), *args], input=stdin or "", capture_output=True, text=True, timeout=timeout_s
            )
        else:
            done = java_tools(self.jars, self._jvm_of_tools()).run(self._class(tool), args, stdin or "", timeout_s)
        if check and done.returncode != 0:
            raise AssertionError(f"{tool} {' '.join(args)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def create_topic(self, name: str, partitions: int = 1, **configs: Any) -> str:
        """Create a topic and wait until its leaders serve it. Configs use underscores: `cleanup_policy="compact"`."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)
        _until_served(admin, name, partitions)
        return name

    def wait_for_topic(self, name: str, partitions: int) -> None:
        """Wait until the leaders of a topic that was created otherwise serve it."""
        from confluent_kafka.admin import AdminClient

        _until_served(AdminClient({"bootstrap.servers": self.bootstrap_servers}), name, partitions)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until the broker does not know it: then another one may have its name."""
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        admin.delete_topics([name])[name].result(30)
        assert not read_until_equal(False, lambda: name in admin.list_topics(timeout=30).topics), f"{name} is listed"

    def add_partitions(self, name: str, partitions: int) -> None:
        """Increase the number of partitions, and wait until their leaders serve them."""
        from confluent_kafka.admin import AdminClient, NewPartitions

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        admin.create_partitions([NewPartitions(name, partitions)])[name].result(30)
        _until_served(admin, name, partitions)

    def new_topic(self, partitions: int = 1, prefix: str = "t", **configs: Any) -> str:
        """Create a topic with a unique name and return the name."""
        return self.create_topic(self.new_name(prefix), partitions, **configs)

    def wait_for_coordinators(self) -> None:
        """Let the broker create __consumer_offsets, and wait until it has loaded all its partitions.

        Until then it answers the requests of groups with COORDINATOR_LOAD_IN_PROGRESS, which is an error of a commit of
        librdkafka.
        """
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        groups = [f"nobody-{number}" for number in range(64)]  # in all partitions

        def are_loaded() -> bool:
            try:
                for described in admin.describe_consumer_groups(groups, request_timeout=30).values():
                    described.result(30)
            except KafkaException:
                return False
            return True

        assert read_until_equal(True, are_loaded, 60), "the broker does not coordinate all groups"

    def ordered_producer(self, topic: str | None = None, **settings: Any) -> Any:
        """Return a confluent-kafka producer that keeps the order of a partition's records.

        Its default, five requests in flight without idempotence, does not: the broker can refuse the first batch for a
        new topic until it has created the log, and accept the next one. With `topic`, the producer fetches the topic's
        metadata first: records that wait for metadata may leave in several batches. `flush` or `poll` raises an error
        for a record that was not stored, unless `produce` got a callback of its own.
        """
        from confluent_kafka import Producer

        named = {name.replace("_", "."): value for name, value in settings.items()}
        limits = {"acks": "all", "max.in.flight.requests.per.connection": 1, "on_delivery": _raise_if_lost}
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, **limits, **named})
        if topic is not None:
            producer.list_topics(topic, 30)
        return producer

    def new_name(self, prefix: str = "t") -> str:
        """Return a unique name for a topic, group or transaction on this broker."""
        return f"{prefix}-{os.getpid()}-{next(self._names):04}"  # sorts in order of creation


def _raise_if_lost(error: Any, message: Any) -> None:
    """Fail the test, in `flush` or `poll`, when a record was not stored."""
    assert error is None, f"a record for {message.topic()}-{message.partition()} was not stored: {error}"


def _until_served(admin: Any, name: str, partitions: int) -> None:
    deadline = time.monotonic() + 30
    while not (_has_leaders(admin, name, partitions) and _is_served(admin, name, partitions)):
        assert time.monotonic() < deadline, f"topic {name} got no leaders"
        time.sleep(0.02)


def _has_leaders(admin: Any, name: str, partitions: int) -> bool:
    topic = admin.list_topics(name, timeout=30).topics[name]
    return len(topic.partitions) == partitions and all(p.leader >= 0 for p in topic.partitions.values())


def _is_served(admin: Any, name: str, partitions: int) -> bool:
    """True if the logs exist: a broker announces itself as leader before it has created them."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    asked = {TopicPartition(name, partition): OffsetSpec.latest() for partition in range(partitions)}
    try:
        for answer in admin.list_offsets(asked, request_timeout=30).values():
            answer.result(30)
    except KafkaException:
        return False
    return True


class OwnBroker(Kafka):
    """A broker process that the test controls: stopped, killed and restarted on the same port and data.

    The kernel kills it when the thread that started it ends.
    """

    def __init__(self, folder: Path, port: int, jars: Path | None, version: str = VERSION) -> None:
        super().__init__(f"127.0.0.1:{port}", jars, version)
        self.port = port
        self.folder = folder
        self._process: subprocess.Popen[bytes] | KcliProcess | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def data(self) -> Path:
        """The folder with the partition directories."""
        return self.folder / "data"

    @property
    def log_file(self) -> Path:
        """The broker's own log, over all its starts."""
        return self.folder / "broker.log"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self, timeout_s: float = 120) -> None:
        """Start the broker and wait until it answers."""
        raise NotImplementedError

    def _launch(self, command: Sequence[str], cwd: Path | None = None) -> None:
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=cwd,
                start_new_session=True,  # Ctrl-C is for pytest; the fixture stops the broker
                preexec_fn=die_with_parent,
            )

    def wait_until_ready(self, timeout_s: float = 120, every_s: float = 0.1) -> None:
        """Wait for the first answer. If the broker ends instead, raise an error with the end of its log."""
        assert self._process is not None
        deadline = time.monotonic() + timeout_s
        while not answers(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                tail = "\n".join(self.log_file.read_text(errors="replace").splitlines()[-30:])
                raise AssertionError(f"the broker did not start; the end of its log:\n{tail}")
            time.sleep(every_s)

    def stop(self) -> int | None:
        """Stop the broker and return its exit status, negative for a signal; None if it was not running."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the broker with SIGKILL. Only the page cache survives."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(how)
        try:
            return process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def restart(self) -> None:
        self.stop()
        self.start()


class KafkaNode(OwnBroker):
    """A single KRaft node of Apache Kafka."""

    def __init__(
        self,
        folder: Path,
        jars: Path,
        version: str = VERSION,
        settings: dict[str, str] | None = None,
        jvm: tuple[str, ...] = SMALL_JVM,
        more_listeners: Sequence[str] = (),
        advertised: dict[str, int] | None = None,
        advertised_host: str = "127.0.0.1",
    ) -> None:
        """`more_listeners` are names like `SASL_SSL`; `advertised` replaces the ports that clients get."""
        port, controller_port, *more = free_ports(2 + len(more_listeners))
        self.ports = {
            "PLAINTEXT": port,
            "CONTROLLER": controller_port,
            **dict(zip(more_listeners, more, strict=True)),
        }
        super().__init__(folder, port, jars, version)
        self._jvm = jvm
        own = {
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
            "listeners": _listeners("127.0.0.1", self.ports),
            "advertised.listeners": _listeners(advertised_host, {**self.ports, **(advertised or {})}),
            "log.dirs": str(self.data),
        }
        lines = [f"{key}={value}\n" for key, value in {**SETTINGS, **own, **(settings or {})}.items()]
        self._config = folder / "server.properties"
        self._config.write_text("".join(lines))

    @property
    def config_file(self) -> Path:
        """The settings of the next start."""
        return self._config

    def format(self) -> None:
        """Format the data folder for the first start."""
        self.tool("StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._config), "--standalone")

    def start(self, timeout_s: float = 120) -> None:
        """Start the broker and wait until it answers."""
        if not self.data.exists():
            self.format()
        self.launch()
        self.wait_until_ready(timeout_s)

    def launch(self) -> None:
        """Start without waiting; the data folder must be formatted."""
        flags = self._jvm
        if flags[: len(SMALL_JVM)] == SMALL_JVM and not any("ArchiveClassesAtExit" in flag for flag in flags):
            flags += _archived_broker(self.jars, self.version)
        command = ["java", *flags, *_logging(self.version, "info")]
        self._launch([*command, "-cp", f"{self.jars}/*", "kafka.Kafka", str(self._config)])


@functools.cache
def archived_tool(jars: Path, version: str) -> tuple[str, ...]:
    """Return JVM options that make Kafka's tools start faster; one tool without a broker trains the archive."""

    def train(flags: tuple[str, ...]) -> None:
        command = ["java", *TOOL_JVM, *flags, *_logging(version, "warn"), "-cp", f"{jars}/*"]
        command += [TOOLS["ConsumerGroupCommand"], "--bootstrap-server", "127.0.0.1:1", "--list", "--timeout", "500"]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)

    return archive_flags(jars.with_name(f"{jars.name}-tool.jsa"), train)


@functools.cache
def _archived_broker(jars: Path, version: str) -> tuple[str, ...]:
    """Return JVM options that make a small broker start faster."""

    def train(flags: tuple[str, ...]) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            node = KafkaNode(Path(scratch), jars, version, jvm=(*SMALL_JVM, *flags))
            node.start()
            node.stop()

    return archive_flags(jars.with_name(f"{jars.name}-broker.jsa"), train)


def _listeners(host: str, ports: dict[str, int]) -> str:
    return ",".join(f"{name}://{host}:{port}" for name, port in ports.items())


def _logging(version: str, level: str) -> list[str]:
    """Return JVM options for logs on stderr, for the logging library of this version."""
    here = Path(__file__).parent / "real_kafka_logging"
    if _major_minor(version) < (4, 0):
        return [f"-Dlog4j.configuration=file:{here}/log4j1.properties", f"-Dkafka.level={level}"]
    return [f"-Dlog4j2.configurationFile={here}/log4j2.properties", f"-Dkafka.level={level}"]


# Looked up here: in a new process, the lock of the dynamic loader may be held by a thread that is not there.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def die_with_parent() -> None:
    """Ask the kernel, in a new process, to kill it when its parent ends: for `preexec_fn`."""
    if _prctl is not None:
        _prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def free_ports(count: int) -> list[int]:
    """Return free loopback ports below the ephemeral range.

    A restarted broker must find its port free again. A client that connects to a closed port of the ephemeral range can
    end up connected to itself.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(12_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def answers(port: int) -> bool:
    """True if a broker on this port answers ApiVersions v0 within five seconds."""
    request = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            client.sendall(struct.pack(">i", len(request)) + request)
            return len(client.recv(4)) > 0
    except OSError:
        return False
