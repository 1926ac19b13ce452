"""A broker is killed or restarted during `kcli consume topic`: the reader continues, no record lost or duplicated."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.interop.process import kcli_running, wait_for_lines
from tests.real_kafka import OwnBroker

pytestmark = pytest.mark.slow


def idempotent_producer(kafka: OwnBroker) -> Producer:
    """Return a producer with acks=all that retries without duplicates: each record is in the log exactly once."""
    return Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "enable.idempotence": True,
            "message.timeout.ms": 120_000,
            "reconnect.backoff.max.ms": 500,
            "linger.ms": 2,
            "log_level": 0,
        }
    )


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_follower_continues_after_a_broker_restart(
    how: str, any_own_kafka: Callable[..., OwnBroker], tmp_path: Path, kcat: str
) -> None:
    kafka = any_own_kafka()
    topic = kafka.create_topic("followed", partitions=1)
    producer = idempotent_producer(kafka)
    out = tmp_path / "consumed"
    with kcli_running("consume", "topic", topic, "-o", "start", "-b", kafka.bootstrap_servers, stdout=out) as process:
        send(producer, topic, range(2000))
        assert producer.flush(60) == 0
        wait_for_lines(out, 2000, process)
        send(producer, topic, range(2000, 6000))  # some of them are on their way when the broker goes
        producer.poll(0.01)
        getattr(kafka, how)()
        send(producer, topic, range(6000, 7000))
        kafka.start()
        assert producer.flush(120) == 0
        wait_for_lines(out, 7000, process)
        send(producer, topic, range(7000, 7010))
        assert producer.flush(60) == 0
        lines = wait_for_lines(out, 7010, process)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    assert lines == kcat_reads(kcat, kafka, topic)
    assert lines == [b"%d" % n for n in range(7010)]
    assert "Traceback" not in out.with_suffix(".stderr").read_text()


def send(producer: Producer, topic: str, numbers: range) -> None:
    for n in numbers:
        producer.produce(topic, b"%d" % n)


def kcat_reads(kcat: str, kafka: OwnBroker, topic: str) -> list[bytes]:
    command = [kcat, "-b", kafka.bootstrap_servers, "-C", "-t", topic, "-o", "beginning", "-e", "-q"]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout.splitlines()


DUPLICATE_S = 1.2
STAY = ("-X", "session.timeout.ms=60000", "-X", "auto.commit.interval.ms=60000")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_whose_cluster_is_gone_ends_within_its_timeout_or_at_the_second_signal(
    protocol: str, any_own_kafka: Callable[..., OwnBroker], tmp_path: Path
) -> None:
    kafka = any_own_kafka()
    topic = kafka.create_topic("gone", partitions=1)
    producer = idempotent_producer(kafka)
    send(producer, topic, range(10))
    assert producer.flush(60) == 0
    with contextlib.ExitStack() as stack:
        members = []
        for name, timeout in (("term", "4"), ("twice", "60")):
            out, options = tmp_path / name, STAY if protocol == "classic" else STAY[2:]
            command = ("consume", topic, "-o", "start", "-b", kafka.bootstrap_servers, "--group", name, *options)
            run = kcli_running(*command, "--protocol", protocol, "--timeout", timeout, stdout=out)
            members.append((stack.enter_context(run), out))
        for process, out in members:
            wait_for_lines(out, 10, process)
        send(producer, topic, range(10, 20))  # they are printed, and not committed when the broker goes
        assert producer.flush(60) == 0
        for process, out in members:
            wait_for_lines(out, 20, process)
        kafka.kill()
        began = time.monotonic()
        for process, _ in members:
            process.send_signal(signal.SIGTERM)
        for process, out in members:
            if out.name == "twice":
                while time.monotonic() < began + DUPLICATE_S:  # a second one within a second counts as the same
                    assert process.poll() is None
                process.send_signal(signal.SIGINT)
                began = time.monotonic()
            process.wait(30)
            assert time.monotonic() - began < 7, out.with_suffix(".stderr").read_text()
            table = [line.split() for line in out.with_suffix(".stderr").read_text().splitlines()]
            (row,) = (line for line in table if line[:2] == ["gone", "0"])
            assert (row[3], row[5]) == ("20", "20"), "position and records"
            assert row[4] == "-" or int(row[4]) <= 10, "the committed offset: unknown, if its answer did not come"
        assert members[1][0].returncode == 130
