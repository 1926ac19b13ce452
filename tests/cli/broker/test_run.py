"""`kcli broker run` as a process: its output, its exit status, and the errors of its command line."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.builder import NewRecord, build_batch
from tests.broker.wire import Wire
from tests.limits import Limit, read_line
from tests.real_kafka import read_until_equal

KCLI = [sys.executable, "-m", "kcli", "broker", "run"]


class Running:
    """A started broker; `address` is the line it printed."""

    def __init__(self, *options: str, **popen: Any) -> None:
        self.process = subprocess.Popen(
            [*KCLI, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **popen
        )
        self.address = read_line(self.process, "the address of the broker").rstrip("\n")

    def end(self, signal_number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal; return the exit status, the rest of standard output, and standard error."""
        self.process.send_signal(signal_number)
        return self.wait()

    def wait(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


@pytest.fixture
def running() -> Iterator[Any]:
    started: list[Running] = []

    def start(*options: str, **popen: Any) -> Running:
        started.append(Running(*options, **popen))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


def refused(*options: str, **given: Any) -> tuple[int, str]:
    """Run a broker that must not start; return its status and standard error. Standard output must be empty."""
    done = subprocess.run([*KCLI, *options], capture_output=True, text=True, timeout=30, **given)
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_prints_its_address_and_shuts_down_cleanly(running: Any, tmp_path: Path, signal_number: int) -> None:
    broker = running("--port", "0", "--data-dir", str(tmp_path / "data"))
    assert re.fullmatch(r"127\.0\.0\.1:\d+", broker.address)
    with Wire(broker.address) as wire:
        assert wire.ask(MetadataRequest(topics=[]), 9).brokers[0].port == int(broker.address.rpartition(":")[2])
        status, out, err = broker.end(signal_number)
    assert (status, out) == (0, "")
    assert "not for production" in err
    assert str(tmp_path / "data") in err
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_topics_option_creates_missing_topics_and_rejects_other_partition_counts(running: Any, tmp_path: Path) -> None:
    options = (
        "--port",
        "0",
        "--data-dir",
        str(tmp_path),
        "-t",
        "orders:3",
        "--topic",
        "audit",
        "-c",
        "num.partitions=2",
    )
    for _ in range(2):
        broker = running(*options)
        with Wire(broker.address) as wire:
            asked = [MetadataRequestTopic(name=name) for name in ("orders", "audit")]
            found = wire.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 9).topics
            assert {one.name: len(one.partitions) for one in found} == {"orders": 3, "audit": 2}
        assert broker.end()[0] == 0
    status, err = refused("--port", "0", "--data-dir", str(tmp_path), "-t", "orders:4")
    assert (status, err.splitlines()[-1]) == (
        2,
        "kcli: --topic orders:4: the topic exists with 3 partitions; use orders",
    )


def test_ephemeral_removes_its_directory(running: Any, tmp_path: Path) -> None:
    broker = running("--port", "0", "--ephemeral", "-t", "orders", env={**os.environ, "TMPDIR": str(tmp_path)})
    assert [path.name[:12] for path in tmp_path.iterdir()] == ["kcli-broker-"]
    assert broker.end()[0] == 0
    assert list(tmp_path.iterdir()) == []


def test_ephemeral_removes_its_directory_after_repeated_or_early_signals(running: Any, tmp_path: Path) -> None:
    """`timeout` signals the process and its group, and a signal may come before the broker serves."""
    broker = running("--port", "0", "--ephemeral", "-t", "orders:50", env={**os.environ, "TMPDIR": str(tmp_path)})
    broker.process.terminate()
    time.sleep(0.01)
    assert broker.end()[0] == 0
    assert list(tmp_path.iterdir()) == []
    early = subprocess.Popen(
        [*KCLI, "--port", "0", "--ephemeral", "-t", "orders:500"], env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    limit = Limit("the directory of the broker")
    while not list(tmp_path.glob("kcli-broker-*")):  # wait for the directory; tempfile creates a probe file before it
        limit.check()
        time.sleep(0.001)
    early.terminate()
    early.wait(30)
    assert list(tmp_path.iterdir()) == []


def test_ignored_sighup_does_not_stop_the_broker(running: Any, tmp_path: Path) -> None:
    ignoring = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    broker = running("--port", "0", "--data-dir", str(tmp_path), **ignoring)
    broker.process.send_signal(signal.SIGHUP)
    with Wire(broker.address) as wire:
        assert wire.ask(MetadataRequest(topics=[]), 9).brokers
    assert broker.end()[0] == 0


def test_default_data_directory_is_in_xdg_data_home(running: Any, tmp_path: Path) -> None:
    broker = running("--port", "0", "-t", "orders", env={**os.environ, "XDG_DATA_HOME": str(tmp_path)})
    assert broker.end()[0] == 0
    assert (tmp_path / "kcli" / "broker" / "orders-0").is_dir()


def test_second_broker_on_a_directory_fails_with_status_1(running: Any, tmp_path: Path) -> None:
    first = running("--port", "0", "--data-dir", str(tmp_path))
    status, err = refused("--port", "0", "--data-dir", str(tmp_path))
    assert (status, len(err.splitlines())) == (1, 1)
    assert str(tmp_path) in err
    with Wire(first.address) as wire:
        assert wire.ask(MetadataRequest(topics=[]), 9).brokers


def test_port_in_use_is_reported_in_one_line_and_releases_the_directory(running: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, err = refused("--port", port, "--data-dir", str(tmp_path))
    assert (status, len(err.splitlines())) == (1, 1)
    assert f"127.0.0.1:{port}" in err
    assert "in use" in err
    assert running("--port", port, "--data-dir", str(tmp_path)).end()[0] == 0


def test_listening_beyond_loopback_prints_a_warning(running: Any, tmp_path: Path) -> None:
    broker = running("--port", "0", "--host", "0.0.0.0", "--data-dir", str(tmp_path))
    port = broker.address.rpartition(":")[2]
    with Wire(f"127.0.0.1:{port}") as wire:  # the advertised host is the name of the machine
        assert wire.ask(MetadataRequest(topics=[]), 9).brokers[0].host == socket.gethostname()
    status, _, err = broker.end()
    assert status == 0
    assert "beyond this machine" in err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-c", "num.partition=3"], "num.partitions"),
        (["-c", "num.partitions=many"], "num.partitions"),
        (["-c", "num.partitions"], "write key=value"),
        (["-t", "orders:0"], "use NAME or NAME:PARTITIONS"),
        (["-t", ":3"], "use NAME or NAME:PARTITIONS"),
        (["-t", "or ders"], "--topic: 'or ders' is not valid as a topic name; use at most 249 ASCII letters"),
        (["--ephemeral", "--data-dir", "/tmp/x"], "choose one"),
        (["--ephemeral", "-c", "log.dirs=/tmp/x"], "choose one"),
        (["--port", "1", "-c", "listeners=PLAINTEXT://127.0.0.1:2"], "choose one"),
        (["--port", "99999"], "--port"),
        (["--ephemeral", "--metrics", "9308"], "--metrics: '9308' is not valid; use HOST:PORT"),
        (["--ephemeral", "--port", "0", "--metrics", "192.0.2.1:1"], "--metrics: cannot listen on 192.0.2.1:1: "),
        (["--ephemeral", "--nodes", "2", "--metrics", "127.0.0.1:0"], "--nodes and --metrics cannot be combined"),
    ],
)
def test_usage_error_is_one_line_with_status_2(options: list[str], sentence: str) -> None:
    status, err = refused(*options)
    assert (status, len(err.splitlines())) == (2, 1)
    assert sentence in err


ROLES = {
    "broker": (),
    "controller": ("-c", "process.roles=controller", "-c", "listeners=CONTROLLER://127.0.0.1:0"),
    "both": (
        *("-c", "process.roles=broker,controller"),
        *("-c", "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"),
    ),
}


@pytest.mark.parametrize("role", ROLES)
def test_metrics_are_served_to_prometheus(running: Any, role: str) -> None:
    own = () if role == "controller" else ("-t", "orders:3")
    port = () if ROLES[role] else ("--port", "0")
    names = ("-c", "node.id=1", "-c", "controller.listener.names=CONTROLLER") if ROLES[role] else ()
    broker = running("--ephemeral", "--metrics", "127.0.0.1:0", *port, *own, *names, *ROLES[role])
    url = re.search(r"http://\S+/metrics", broker.process.stderr.readline())
    assert url
    if role != "controller":
        with Wire(broker.address) as wire:
            wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 12)

    def scraped() -> str:
        with urllib.request.urlopen(url[0], timeout=20) as answer:
            return answer.read().decode()

    assert read_until_equal(True, lambda: "activecontrollercount" in scraped())  # there is nothing before the start
    text = scraped()
    samples = {sample.name: sample.value for family in parse_text(text) for sample in family.samples}
    assert samples["kafka_controller_kafkacontroller_activecontrollercount"] == 1
    if role != "controller":
        assert samples["kafka_server_replicamanager_leadercount"] == 3
        assert samples["kafka_controller_kafkacontroller_globalpartitioncount"] == 3
        assert 'kafka_network_requestmetrics_requests_total{request="Metadata",version="12"} 1.0\n' in text
    assert broker.end()[0] == 0


SECURED = """\
# a server.properties
listeners=INSIDE://127.0.0.1:0,\\
  OUTSIDE://127.0.0.1:0
listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:SASL_PLAINTEXT
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.outside.scram-sha-512.sasl.jaas.config=\\
  org.apache.kafka.common.security.scram.ScramLoginModule required user_alice="${dir:FOLDER:alice}";
config.providers=dir
config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
num.partitions=5
"""


def test_properties_file_configures_secured_listeners(running: Any, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "alice").write_text("pw of alice")
    file = tmp_path / "server.properties"
    file.write_text(SECURED.replace("FOLDER", str(tmp_path / "secrets")))
    broker = running("--properties", str(file), "--data-dir", str(tmp_path / "data"), "-c", "num.partitions=2")
    with Wire(broker.address) as wire:
        auto = [MetadataRequestTopic(name="t")]
        wire.ask(MetadataRequest(topics=auto, allow_auto_topic_creation=True), 9)
        assert len(wire.ask(MetadataRequest(topics=auto), 9).topics[0].partitions) == 2, "-c is stronger"
    _, _, err = broker.end()
    found = re.search(r"^kcli: listener OUTSIDE \(SASL_PLAINTEXT\): 127\.0\.0\.1:\d+$", err, re.MULTILINE)
    assert found is not None
    assert "pw of alice" not in err
    (log,) = (tmp_path / "data" / "__cluster_metadata-0").glob("*.log")
    assert b"alice" in log.read_bytes()
    assert b"pw of alice" not in log.read_bytes()


def test_errors_in_a_properties_file_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=many\nssl.key.password=geheim\n")
    status, err = refused("--properties", str(file), "--ephemeral")
    assert (status, err.startswith(f"kcli: {file}: num.partitions: the value is not valid")) == (2, True), err
    assert "geheim" not in err
    status, err = refused("--properties", str(tmp_path / "missing"), "--ephemeral")
    assert (status, err) == (2, f"kcli: cannot read properties file {tmp_path}/missing: No such file or directory\n")


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ("listeners=SSL://127.0.0.1:0", "ssl.keystore.location is missing; a listener with TLS needs a key"),
        ("listeners=SSL://127.0.0.1:0\nssl.keystore.location=/nowhere.pem", "ssl.keystore.location: "),
        ("listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms: this broker does not support GSSAPI on"),
        (
            "listeners=SASL_PLAINTEXT://127.0.0.1:0\nsasl.enabled.mechanisms=PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config is not set; it has the users",
        ),
        (
            "listeners=SASL_PLAINTEXT://127.0.0.1:0\nsasl.enabled.mechanisms=PLAIN\n"
            "listener.name.sasl_plaintext.plain.sasl.jaas.config=Module required user_a=geheim",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config: the text does not end with a semicolon",
        ),
    ],
)
def test_security_that_cannot_be_made_is_a_usage_error(properties: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(properties)
    status, err = refused("--properties", str(file), "--ephemeral")
    assert (status, len(err.splitlines())) == (2, 1), err
    assert sentence in err
    assert "geheim" not in err


def test_password_on_the_command_line_is_warned_about_and_not_shown(running: Any) -> None:
    broker = running("--port", "0", "--ephemeral", "-c", "ssl.key.password=geheim")
    _, _, err = broker.end()
    assert "kcli: warning: -c ssl.key.password: other users can see it in the process list; use --properties" in err
    assert "geheim" not in err


def test_settings_without_effect_are_reported(running: Any) -> None:
    broker = running("--port", "0", "--ephemeral", "-c", "num.io.threads=4")
    assert "num.io.threads has no effect" in broker.end()[2]


def test_directory_that_cannot_be_created_is_one_line_with_status_1(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    status, err = refused("--port", "0", "--data-dir", str(tmp_path / "file" / "data"))
    assert (status, len(err.splitlines())) == (1, 1)
    assert str(tmp_path / "file") in err


def test_full_disk_stops_the_broker_without_losing_acknowledged_records(running: Any, tmp_path: Path) -> None:
    """A file size limit simulates the full disk. Apache Kafka answers 56, goes offline and exits with 1."""

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5 << 20, resource.RLIM_INFINITY))

    broker = running("--port", "0", "--data-dir", str(tmp_path), "-t", "orders", preexec_fn=small_disk)
    acknowledged = 0
    with Wire(broker.address) as wire:
        while (error := wire.produce("orders", bytes(500_000))) == 0:
            acknowledged += 1
    assert error == 56
    assert 5 <= acknowledged <= 10
    status, out, err = broker.wait()
    assert (status, out) == (1, "")
    assert re.search(r"^kcli: the data directory has failed: .*too large", err.splitlines()[-1])
    again = running("--port", "0", "--data-dir", str(tmp_path))
    with Wire(again.address) as wire:
        asked = ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(timestamp=-1)])
        found = wire.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), 5).topics[0].partitions[0]
        assert (found.error_code, found.offset) == (0, acknowledged)


def test_silent_connections_are_closed_when_file_descriptors_run_out(running: Any, tmp_path: Path) -> None:
    """Half of the descriptors are reserved for logs, so that idle connections cannot make the directory fail."""

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))

    broker = running("--port", "0", "--data-dir", str(tmp_path), "-t", "orders:8", preexec_fn=few_files)
    with ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(Wire(broker.address))
        served, deadline = False, time.monotonic() + 20
        while not served:
            assert time.monotonic() < deadline
            with suppress(AssertionError, ConnectionError), Wire(broker.address) as wire:
                served = wire.produce("orders", b"me too") == 0
    assert broker.end()[0] == 0


def test_more_partitions_than_file_descriptors(running: Any, tmp_path: Path) -> None:
    """Without free descriptors CreateTopics was refused, the broker ended, and the topic existed after a restart."""

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    broker = running("--port", "0", "--data-dir", str(tmp_path), "-t", "orders:100", preexec_fn=few_files)
    with Wire(broker.address) as wire:
        batch = build_batch([NewRecord(None, b"x", 1_500_000_000_000)])
        data = [PartitionProduceData(index=index, records=batch) for index in range(100)]
        request = ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name="orders", partition_data=data)]
        )
        [answer] = wire.ask(request, 9).responses
        assert {row.error_code for row in answer.partition_responses} == {0}
        topic = CreatableTopic(name="invoices", num_partitions=100, replication_factor=1)
        assert wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5).topics[0].error_code == 0
        with ExitStack() as stack:
            for _ in range(20):
                assert stack.enter_context(Wire(broker.address)).produce("orders", b"x") == 0
    assert broker.end()[0] == 0
    again = running("--port", "0", "--data-dir", str(tmp_path), preexec_fn=few_files)
    with Wire(again.address) as wire:
        topics = wire.ask(MetadataRequest(topics=None), 9).topics
        assert {topic.name: len(topic.partitions) for topic in topics} == {"orders": 100, "invoices": 100}


def test_help_states_that_it_is_not_for_production() -> None:
    done = subprocess.run([*KCLI, "--help"], capture_output=True, text=True, timeout=120)
    assert "not a production broker" in " ".join(done.stdout.split())


def test_serving_plain_records_loads_no_heavy_modules(running: Any, tmp_path: Path) -> None:
    broker = running("--port", "0", "--data-dir", str(tmp_path), "-t", "orders:3")
    with Wire(broker.address) as wire:
        for _ in range(20):
            assert wire.produce("orders", bytes(10_000)) == 0
    status = Path(f"/proc/{broker.process.pid}/status")
    if status.exists():
        (resident,) = re.findall(r"VmRSS:\s+(\d+) kB", status.read_text())
        assert int(resident) < 70 * 1024
        mapped = Path(f"/proc/{broker.process.pid}/maps").read_text()
        assert not re.findall(r"numpy|cramjam|_ssl|_asyncio|lz4", mapped)


def combined(folder: Path, *options: str) -> tuple[str, ...]:
    """Write a server.properties with both roles, and return the options that use it."""
    file = folder / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:9093\nlog.dirs={folder / 'data'}\n"
    )
    return ("--properties", str(file), *options)


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL])
def test_broker_with_a_controller_in_its_process(running: Any, tmp_path: Path, signal_number: int) -> None:
    broker = running(*combined(tmp_path, "-t", "orders:3"))
    with Wire(broker.address) as wire:
        assert wire.produce("orders", b"kept") == 0
    status, out, err = broker.end(signal_number)
    assert (status, out) == (0 if signal_number == signal.SIGINT else -9, "")
    assert "kcli: listener CONTROLLER (PLAINTEXT): 127.0.0.1:" in err
    assert (tmp_path / "data" / "__cluster_metadata-0").is_dir()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists() == (signal_number == signal.SIGINT)

    again = running(*combined(tmp_path, "-t", "orders:3"))
    with Wire(again.address) as wire:
        asked = ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(timestamp=-1)])
        assert wire.ask(ListOffsetsRequest(topics=[asked]), 7).topics[0].partitions[0].offset == 1


EARLIER = """{
"topics": [
{"name": "orders", "id": "x5h0bf_LRZ-6ZnBzqXwLZg", "partitions": 3, "configs": {}}
],
"version": 1,
"deleted": {},
"broker_configs": {"": {"min.insync.replicas": "1"}}
}"""


def test_directory_of_an_earlier_version_is_converted_before_it_gets_a_controller(running: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "kcli-topics.json").write_text(EARLIER)
    broker = running(*combined(tmp_path))
    with Wire(broker.address) as wire:
        assert [one.name for one in wire.ask(MetadataRequest(topics=None), 9).topics] == ["orders"]
    _, _, err = broker.end()
    assert (
        f"kcli: {data} is the directory of an earlier version: it has kcli-topics.json, which a start without a "
        "controller converts; this broker runs without a controller, and other brokers cannot join it\n"
    ) in err
    assert f"kcli: {data} was converted: " in err

    again = running(*combined(tmp_path))
    with Wire(again.address) as wire:
        assert [one.name for one in wire.ask(MetadataRequest(topics=None), 9).topics] == ["orders"]
    assert "kcli: listener CONTROLLER (PLAINTEXT): 127.0.0.1:" in again.end()[2]


def test_partitions_without_a_metadata_log_are_one_line_with_status_1(tmp_path: Path) -> None:
    (tmp_path / "data" / "orders-0").mkdir(parents=True)
    status, err = refused(*combined(tmp_path))
    assert (status, err.count("\n")) == (1, 1)
    assert err.startswith(f"kcli: the data directory {tmp_path / 'data'} has partitions (orders-0), but no")
