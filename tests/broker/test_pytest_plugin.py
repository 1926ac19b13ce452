"""The pytest plugin in the test suite of a user: each test runs pytest on a test file in a new process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

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
