"""The pytest plugin in the test suite of a user: each test runs pytest on a test file in a new process."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.needs import needs_cryptography, needs_package
from tests.snippets import GUIDE, snippets

pytestmark = pytest.mark.slow

pytest_plugins = ("pytester",)
ROOT = Path(__file__).parent.parent.parent

# An installed plugin is found by its entry point; in a checkout it must be named.
INSTALLED = any(found.value == "kcli.broker.pytest_plugin" for found in entry_points(group="pytest11"))
TELL = () if INSTALLED else ("-p", "kcli.broker.pytest_plugin")

# Other plugins take most of the time and are not tested here.
ALONE = [word for name in ("xdist", "xdist.looponfail", "hypothesispytest") for word in ("-p", f"no:{name}")]

Passes = Callable[..., None]


@pytest.fixture
def passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Passes:
    """Run a test file; all of its tests must pass."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(source: str, count: int = 1) -> None:
        pytester.makepyfile(source)
        result = pytester.runpytest_subprocess(
            "-W", "error::pytest.PytestUnhandledThreadExceptionWarning", *TELL, *ALONE, timeout=300
        )
        result.assert_outcomes(passed=count)

    return run


@pytest.fixture
def runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Run test files, some of whose tests fail, and return the result."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(*words: str, **sources: str) -> pytest.RunResult:
        pytester.makepyfile(**sources)
        return pytester.runpytest_subprocess(*TELL, *ALONE, "-W", "ignore::ResourceWarning", *words, timeout=300)

    return run


def test_the_entry_point_names_the_plugin() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\nkcli = "kcli.broker.pytest_plugin"' in text


def test_the_example_of_the_guide_works(passes: Passes) -> None:
    examples = [snippet.source for snippet in snippets(GUIDE) if snippet.is_test]
    passes("\n".join(examples), len(examples))


def test_records_are_produced_and_consumed(passes: Passes) -> None:
    passes(
        """
        from confluent_kafka import Consumer, Producer

        def test_orders(kafka_broker):
            kafka_broker.create_topic("orders", partitions=3)
            producer = Producer({"bootstrap.servers": kafka_broker.address})
            producer.produce("orders", b"one")
            assert producer.flush(10) == 0
            consumer = Consumer({"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": "g",
                                 "auto.offset.reset": "earliest"})
            consumer.subscribe(["orders"])
            assert consumer.poll(10).value() == b"one"
            consumer.close()
        """
    )


def test_every_test_has_its_own_broker(passes: Passes) -> None:
    passes(
        """
        import pytest

        @pytest.mark.parametrize("time", range(3))
        def test_fresh(time, kafka_broker):
            assert kafka_broker.topics == {}
            kafka_broker.create_topic("t", 2, {"retention_ms": 60_000})
            assert kafka_broker.topics == {"t": 2}
        """,
        count=3,
    )


def test_killed_broker_restarts_with_its_data(passes: Passes) -> None:
    passes(
        """
        import pytest
        from confluent_kafka import Consumer, Producer, TopicPartition

        @pytest.mark.parametrize("end", ["kill", "stop"])
        def test_comes_back(end, kafka_broker):
            address = kafka_broker.address
            kafka_broker.create_topic("t")
            producer = Producer({"bootstrap.servers": address, "enable.idempotence": True,
                                 "reconnect.backoff.max.ms": 100, "log_level": 0})
            for n in range(100):
                producer.produce("t", b"%d" % n)
            assert producer.flush(10) == 0
            getattr(kafka_broker, end)()
            assert not kafka_broker.is_running
            producer.produce("t", b"100")
            kafka_broker.start()
            assert kafka_broker.address == address
            assert producer.flush(10) == 0
            kafka_broker.restart()
            consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "log_level": 0})
            consumer.assign([TopicPartition("t", 0, 0)])
            found = []
            while len(found) < 101:
                message = consumer.poll(10)
                assert message is not None and message.error() is None
                found.append(int(message.value()))
            assert found == list(range(101))
            consumer.close()
        """,
        count=2,
    )


def test_requests_are_intercepted(passes: Passes) -> None:
    passes(
        """
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient
        from kcli.broker.testing.control import DROP

        def test_dropped_then_let_through(kafka_broker):
            seen = []
            def drop(request, context):
                seen.append((context.client_id, request.topic_data[0].partition_data[0].index))
                return DROP
            kafka_broker.create_topic("t")
            kafka_broker.intercept("Produce", drop, times=2)
            quick = {"reconnect.backoff.max.ms": 100, "enable.idempotence": True, "log_level": 0}
            producer = Producer({"bootstrap.servers": kafka_broker.address, "client.id": "me", **quick})
            stored = []
            producer.produce("t", b"x", on_delivery=lambda error, message: stored.append((error, message.offset())))
            assert producer.flush(10) == 0
            assert stored == [(None, 0)]
            assert seen == [("me", 0), ("me", 0)]
            assert [one.api for one in kafka_broker.requests].count("Produce") == 3

        def test_kept_over_a_restart(kafka_broker):
            seen = []
            kafka_broker.intercept("Metadata", lambda request, context: seen.append(context.api_version))
            kafka_broker.restart()
            AdminClient({"bootstrap.servers": kafka_broker.address}).list_topics(timeout=10)
            assert seen
            kafka_broker.forget_interceptions()
            seen.clear()
            AdminClient({"bootstrap.servers": kafka_broker.address}).list_topics(timeout=10)
            assert not seen
        """,
        count=2,
    )


def test_marker_sets_broker_properties(passes: Passes) -> None:
    passes(
        """
        import pytest
        from confluent_kafka.admin import AdminClient

        @pytest.mark.kafka_broker(num_partitions=7, auto_create_topics_enable=True)
        def test_seven(kafka_broker):
            admin = AdminClient({"bootstrap.servers": kafka_broker.address, "allow.auto.create.topics": True})
            while not admin.list_topics("made", timeout=10).topics["made"].partitions:
                pass
            assert kafka_broker.topics == {"made": 7}
        """
    )


def test_threads_and_directories_are_removed(passes: Passes) -> None:
    passes(
        """
        import threading
        from pathlib import Path
        folders = []

        def test_uses(kafka_broker):
            folders.append(kafka_broker.data_dir)
            assert kafka_broker.data_dir.exists()
            kafka_broker.kill()

        def test_after():
            assert not folders[0].exists()
            assert not [t for t in threading.enumerate() if t.name == "kcli-broker"]
        """,
        count=2,
    )


def test_plugin_imports_nothing_else_at_load() -> None:
    load = "before = {*sys.modules}; import kcli.broker.pytest_plugin; print(*{*sys.modules} - before)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, pytest; {load}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=120,
    )
    assert set(done.stdout.split()) == {"kcli", "kcli.broker", "kcli.broker.pytest_plugin"}


# Refused connections in the report

REFUSED = """
import asyncio
import ssl
import pytest
import urllib.request
from contextlib import suppress

async def with_aiokafka(**properties):
    from aiokafka import AIOKafkaProducer
    producer = AIOKafkaProducer(request_timeout_ms=3000, **properties)
    try:
        await asyncio.wait_for(producer.start(), 10)
    finally:
        await producer.stop()

def with_kafka_python(**properties):
    from kafka import KafkaAdminClient
    KafkaAdminClient(bootstrap_timeout_ms=1500, request_timeout_ms=1000, **properties)

def with_confluent_kafka(**properties):
    from confluent_kafka.admin import AdminClient
    names = {name.replace("_", "."): value for name, value in properties.items() if name != "ssl_context"}
    AdminClient({"log_level": 0, **names}).list_topics(timeout=1.5)

PEERS = {
    "kafka-python": with_kafka_python,
    "aiokafka": lambda **properties: asyncio.run(with_aiokafka(**properties)),
    "confluent-kafka": with_confluent_kafka,
}
each_peer = pytest.mark.parametrize("peer", PEERS)

@each_peer
def test_tls(peer, kafka_broker):
    PEERS[peer](bootstrap_servers=kafka_broker.address, security_protocol="SSL",
                ssl_context=ssl.create_default_context())

@each_peer
def test_sasl(peer, kafka_broker):
    user = ({"sasl_username": "a", "sasl_password": "b"} if peer == "confluent-kafka"
            else {"sasl_plain_username": "a", "sasl_plain_password": "b"})
    PEERS[peer](bootstrap_servers=kafka_broker.address, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN",
                **user)

@each_peer
@pytest.mark.kafka_broker(security="SASL_PLAINTEXT", users={"alice": "secret"})
def test_no_sasl(peer, kafka_broker):
    PEERS[peer](bootstrap_servers=kafka_broker.address)

@each_peer
@pytest.mark.kafka_broker(security="SASL_PLAINTEXT", users={"alice": "secret"})
def test_wrong_password(peer, kafka_broker):
    properties = kafka_broker.client_properties(peer)
    for name in ("sasl_plain_password", "sasl.password"):
        if name in properties:
            properties[name] = "wrong"
    PEERS[peer](**{name.replace(".", "_"): value for name, value in properties.items()})

def test_http(kafka_broker):
    urllib.request.urlopen(f"http://{kafka_broker.address}/topics", timeout=10)

def test_version(kafka_broker):
    import socket
    host, _, port = kafka_broker.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(b"\\0\\0\\0\\x0a\\0\\x03\\0\\x63\\0\\0\\0\\1\\0\\0")
        assert sock.recv(1)

def test_of_a_cluster(kafka_cluster):
    urllib.request.urlopen(f"http://{kafka_cluster.nodes[2].address}/topics", timeout=10)

def test_passes_all_the_same(kafka_broker):
    with suppress(OSError):
        urllib.request.urlopen(f"http://{kafka_broker.address}/topics", timeout=10)
"""
REASONS = {
    "test_tls": "TLS on a listener without TLS; set security.protocol to PLAINTEXT or SASL_PLAINTEXT",
    "test_sasl": "SASL on a listener without SASL; set security.protocol to PLAINTEXT or SSL",
    "test_no_sasl": "without authentication on a listener with SASL; set security.protocol to SASL_PLAINTEXT or SASL",
    "test_wrong_password": "SCRAM-SHA-256: Authentication failed during authentication due to invalid credentials",
    "test_http": "an HTTP request came instead of a frame, so the other side is not a Kafka client",
    "test_version": "Metadata v99 is not served; this broker serves v",
    "test_of_a_cluster": "an HTTP request came instead of a frame, so the other side is not a Kafka client",
}


def test_the_report_of_a_failed_test_has_the_refused_connections(runs: Callable[..., pytest.RunResult]) -> None:
    """With kafka-python, aiokafka and confluent-kafka."""
    needs_package("aiokafka", "test")
    needs_package("kafka", "test")
    result = runs("-rN", test_refused=REFUSED)
    result.assert_outcomes(passed=1, failed=15)
    reports = dict(re.findall(r"^_+ (test_[\w\[\]-]+) _+$(.*?)(?=^_+ test_|\Z)", result.stdout.str(), re.S | re.M))
    assert len(reports) == 15
    for name, report in reports.items():
        reason = re.escape(REASONS[name.partition("[")[0]])
        section = r"^-+ kcli broker -+\n(?:kcli broker: .*\n)*"
        line = rf"kcli broker: connection from 127\.0\.0\.1:\d+ refused: .*{reason}"
        assert re.search(section + line, report, re.M), (name, report)


def test_refusals_of_an_earlier_test_are_not_reported(runs: Callable[..., pytest.RunResult]) -> None:
    source = """
        import urllib.request
        from contextlib import suppress

        def ask(broker):
            with suppress(OSError):
                urllib.request.urlopen(f"http://{broker.address}/", timeout=10)

        def test_earlier(kafka_shared_broker):
            ask(kafka_shared_broker)
            assert kafka_shared_broker.refusals

        def test_fails(kafka_shared_broker):
            assert False

        def test_fails_after_a_refusal(kafka_shared_broker):
            ask(kafka_shared_broker)
            assert False
    """
    result = runs(test_shared=source)
    result.assert_outcomes(passed=1, failed=2)
    assert result.stdout.str().count("kcli broker: connection from") == 1


# Shared brokers

SHARING = """
    import os, pytest

    def note(broker):
        with open("addresses", "a") as file:
            file.write(broker.address + "\\n")

    class TestOne:
        def test_one(self, kafka_shared_broker):
            note(kafka_shared_broker)

    class TestTwo:
        def test_two(self, kafka_shared_broker):
            note(kafka_shared_broker)
"""


@pytest.mark.parametrize(("scope", "count"), [(None, 1), ("session", 1), ("module", 2), ("class", 4)])
def test_the_shared_broker_has_the_scope_of_the_ini_file(
    scope: str | None, count: int, runs: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    if scope is not None:
        pytester.makeini(f"[pytest]\nkafka_broker_scope = {scope}\n")
    runs(test_a=SHARING, test_b=SHARING).assert_outcomes(passed=4)
    addresses = (pytester.path / "addresses").read_text().splitlines()
    assert len(addresses) == 4
    assert len(set(addresses)) == count


def test_an_unknown_scope_is_an_error(runs: Callable[..., pytest.RunResult], pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafka_broker_scope = test\n")
    result = runs(test_a=SHARING)
    assert "kafka_broker_scope: 'test' is not valid; use session, package, module, class" in (
        result.stdout.str() + result.stderr.str()
    )


def test_the_settings_of_the_shared_broker_are_a_fixture(passes: Passes) -> None:
    passes(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kafka_broker_settings():
            return {"num_partitions": 5, "security": "SASL_PLAINTEXT", "users": {"alice": "secret"}}

        def test_settings(kafka_shared_broker):
            from kafka import KafkaConsumer, KafkaProducer
            properties = kafka_shared_broker.client_properties("kafka-python")
            assert properties["sasl_plain_username"] == "alice"
            topic = kafka_shared_broker.new_topic("orders", -1)
            assert kafka_shared_broker.topics[topic] == 5
            producer = KafkaProducer(**properties)
            producer.send(topic, b"one").get(30)
            producer.close()
        """
    )


def test_the_clean_broker_has_no_topics_groups_and_hooks_of_earlier_tests(passes: Passes) -> None:
    passes(
        """
        import pytest
        from confluent_kafka import Consumer, Producer
        from confluent_kafka.admin import AdminClient
        addresses, consumers = set(), []

        @pytest.mark.parametrize("end", ["nothing", "close", "kill", "leave a member"])
        def test_fresh(end, kafka_clean_broker):
            address = kafka_clean_broker.address
            addresses.add(address)
            assert len(addresses) == 1
            assert kafka_clean_broker.topics == {}
            admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
            assert admin.list_consumer_groups().result(10).valid == []
            kafka_clean_broker.create_topic("orders", 2)
            producer = Producer({"bootstrap.servers": address})
            producer.produce("orders", end.encode(), partition=0)
            assert producer.flush(10) == 0
            consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest",
                                 "log_level": 0})
            consumer.subscribe(["orders"])
            assert consumer.poll(10).value() == end.encode()
            consumer.commit(asynchronous=False)
            kafka_clean_broker.intercept("Metadata", lambda request, context: None)
            if end == "leave a member":
                consumers.append(consumer)
            else:
                consumer.close()
            if end == "kill":
                kafka_clean_broker.kill()

        def test_after(kafka_shared_broker):
            assert kafka_shared_broker.topics == {}
            assert not kafka_shared_broker.call(lambda broker: broker.control.has_hooks)
            assert kafka_shared_broker.new_topic("a") != kafka_shared_broker.new_topic("a")
            consumers[0].close()
        """,
        count=5,
    )


def test_each_client_has_ready_properties(passes: Passes) -> None:
    """Every client writes a record to every kind of listener with the properties as they are."""
    needs_package("aiokafka", "test")
    needs_package("kafka", "test")
    needs_cryptography()
    passes(
        """
        import asyncio
        import pytest

        def kafka_python(properties, topic):
            from kafka import KafkaProducer
            producer = KafkaProducer(**properties)
            producer.send(topic, b"x").get(30)
            producer.close()

        def aiokafka(properties, topic):
            from aiokafka import AIOKafkaProducer
            async def send():
                async with AIOKafkaProducer(**properties) as producer:
                    await producer.send_and_wait(topic, b"x")
            asyncio.run(send())

        def confluent_kafka(properties, topic):
            from confluent_kafka import Producer
            producer = Producer(properties)
            producer.produce(topic, b"x")
            assert producer.flush(30) == 0

        def kcli(properties, topic):
            from kcli import Producer
            from kcli.client.config import ProducerConfig
            with Producer.from_config(ProducerConfig.from_properties(properties)) as producer:
                producer.send(topic, b"x")

        CLIENTS = [kafka_python, aiokafka, confluent_kafka, kcli]

        def write(client, broker, topic, **more):
            name = client.__name__.replace("_", "-")
            client(broker.client_properties(name, **more), topic)
            end = broker.call(lambda inner: sum(log.log_end_offset for tp, log in inner.log_manager.logs.items()
                                                if tp.topic == topic))
            assert end == 1

        @pytest.mark.parametrize("client", CLIENTS)
        def test_plaintext(client, kafka_shared_broker):
            write(client, kafka_shared_broker, kafka_shared_broker.new_topic())

        @pytest.mark.parametrize("client", CLIENTS)
        @pytest.mark.kafka_broker(security="SSL", users={"alice": "x", "bob": "y"})
        def test_client_certificates(client, kafka_broker):
            write(client, kafka_broker, kafka_broker.new_topic(), user="bob")

        @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
        @pytest.mark.parametrize("client", CLIENTS)
        @pytest.mark.kafka_broker(security="SASL_SSL", users={"alice": "a, secret"})
        def test_sasl(client, mechanism, kafka_broker):
            write(client, kafka_broker, kafka_broker.new_topic(), mechanism=mechanism)

        @pytest.mark.parametrize("client", CLIENTS[:3])
        def test_cluster(client, kafka_cluster):
            topic = kafka_cluster.create_topic("orders")
            client(kafka_cluster.client_properties(client.__name__.replace("_", "-")), topic)

        def test_what_cannot_be(kafka_broker, tmp_path):
            with pytest.raises(ValueError, match="'kafka' is not a known client; use kcli, java, librdkafka"):
                kafka_broker.client_properties("kafka")
            with pytest.raises(ValueError, match="aiokafka has keyword arguments and no file; use client_properties"):
                kafka_broker.write_client_properties(tmp_path / "x", "aiokafka")

        @pytest.mark.kafka_broker(security="SASL_PLAINTEXT", users={"alice": "x"})
        def test_tokens(kafka_broker):
            with pytest.raises(ValueError, match="aiokafka needs a token provider of its own for OAUTHBEARER"):
                kafka_broker.client_properties("aiokafka", mechanism="OAUTHBEARER")
        """,
        count=21,
    )
