"""`kcli consume --share` on a real Kafka: accept, release, reject, and other members of the group (KIP-932)."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kcli.broker.testing.embedded import EmbeddedBroker
from tests.cli.fake import run_kcli
from tests.interop.process import KCLI, kcli, kcli_running, wait_for_lines
from tests.limits import killed_after
from tests.real_kafka import Kafka, KafkaNode

pytestmark = pytest.mark.slow


@pytest.fixture
def jobs(real_kafka: KafkaNode) -> tuple[str, str]:
    """A topic of two partitions with the values 0 to 99, and a share group that starts at the log start."""
    group = real_kafka.new_name("share")
    settings = "share.auto.offset.reset=earliest,share.record.lock.duration.ms=3000"
    entity = ("--entity-type", "groups", "--entity-name", group)
    real_kafka.tool("ConfigCommand", *at(real_kafka), "--alter", *entity, "--add-config", settings)
    topic = real_kafka.new_topic(2, prefix="jobs")
    producer = real_kafka.ordered_producer(topic)
    for number in range(100):
        producer.produce(topic, str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0
    return topic, group


def at(kafka: Kafka) -> tuple[str, str]:
    return "--bootstrap-server", kafka.bootstrap_servers


def read(kafka: Kafka, topic: str, group: str, *more: str) -> list[int]:
    done = kcli("consume", topic, "-b", kafka.bootstrap_servers, "--share", group, *more)
    assert done.status == 0, done.err
    return [int(line) for line in done.lines]


def java_reads(kafka: Kafka, topic: str, group: str, count: int) -> list[int]:
    """Return the values that Kafka's own share consumer gets and accepts."""
    words = ("--topic", topic, "--group", group, "--max-messages", str(count), "--timeout-ms", "30000")
    return [int(line) for line in kafka.tool("ConsoleShareConsumer", *at(kafka), *words).stdout.split()]


def test_each_record_goes_to_one_member_until_it_is_accepted_or_rejected(
    real_kafka: KafkaNode, jobs: tuple[str, str]
) -> None:
    accepted = read(real_kafka, *jobs, "-n", "10")
    rejected = read(real_kafka, *jobs, "-n", "5", "--ack", "reject")
    released = read(real_kafka, *jobs, "-n", "5", "--ack", "release")
    assert not set(accepted) & set(rejected)
    assert not set(released) & {*accepted, *rejected}
    by_java = java_reads(real_kafka, *jobs, 20)
    rest = read(real_kafka, *jobs, "-n", "65")
    assert sorted(accepted + rejected + by_java + rest) == list(range(100))
    assert set(released) <= {*by_java, *rest}


def test_members_that_read_at_the_same_time_get_different_records(
    real_kafka: KafkaNode, jobs: tuple[str, str], tmp_path: Path
) -> None:
    topic, group = jobs
    words = ("consume", topic, "-b", real_kafka.bootstrap_servers, "--share", group)
    one, two = tmp_path / "one", tmp_path / "two"
    with kcli_running(*words, stdout=one) as first, kcli_running(*words, stdout=two) as second:
        wait_for_lines(one.with_suffix(".stderr"), 1, first)  # both are assigned
        wait_for_lines(two.with_suffix(".stderr"), 1, second)
        producer = real_kafka.ordered_producer(topic)
        total, deadline = 100, time.monotonic() + 60
        while not (one.read_bytes() and two.read_bytes()):  # a member may wait with a fetch that takes all
            producer.produce(topic, str(total).encode(), partition=total % 2)
            assert producer.flush(30) == 0
            total += 1
            assert time.monotonic() < deadline
        while len(lines := one.read_text().split() + two.read_text().split()) < total:
            assert time.monotonic() < deadline, f"{len(lines)} of {total} records"
            time.sleep(0.05)
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 130
    assert sorted(map(int, lines)) == list(range(total))
    assert all(
        " records printed, acknowledgement: accept" in it.with_suffix(".stderr").read_text() for it in (one, two)
    )


def test_a_member_that_is_killed_leaves_its_records_to_the_others(
    real_kafka: KafkaNode, jobs: tuple[str, str], tmp_path: Path
) -> None:
    """A pipe that nobody reads stops the member between acquiring and acknowledging."""
    topic, group = jobs
    words = ["consume", topic, "-b", real_kafka.bootstrap_servers, "--share", group, "-f", "%s" + "x" * 4000 + "\\n"]
    with subprocess.Popen([*KCLI, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as stuck:
        assert stuck.stdout is not None
        with killed_after(stuck, "the first records"):
            stuck.stdout.read(100)
        stuck.kill()
    assert sorted(read(real_kafka, topic, group, "-n", "100")) == list(range(100))


def test_json_and_statistics(real_kafka: KafkaNode, jobs: tuple[str, str]) -> None:
    topic, group = jobs
    words = ("consume", topic, "-b", real_kafka.bootstrap_servers, "--share", group, "-n", "100")
    done = kcli(*words, "-O", "json", "--stats")
    document = json.loads(done.out)
    assert sorted(int(item["value"]) for item in document["items"]) == list(range(100))
    assert "total" in done.err


def test_a_group_of_another_type_is_refused(real_kafka: KafkaNode, jobs: tuple[str, str]) -> None:
    topic, group = jobs[0], real_kafka.new_name("classic")
    bootstrap = real_kafka.bootstrap_servers
    assert kcli("consume", topic, "-b", bootstrap, "--group", group, "-o", "start", "-n", "1").status == 0
    done = kcli("consume", topic, "-b", bootstrap, "--share", group, "-n", "1")
    assert done.status == 3
    assert "GROUP_ID_NOT_FOUND" in done.err
    assert group in done.err


def test_brokers_without_share_groups_are_named(kafka_broker: EmbeddedBroker) -> None:
    kafka_broker.create_topic("jobs")
    done = run_kcli("consume", "jobs", "-b", kafka_broker.address, "--share", "workers", "-n", "1")
    assert done.status == 1
    assert done.err.startswith("kcli: group workers cannot be joined: the broker has no share groups (KIP-932)")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ack", "accept"], "--ack requires --share"),
        (["--share", ""], "--share: the group name must not be empty"),
        (["--share", "g", "--ack", "keep"], "--ack: 'keep' is not valid; use accept, release or reject"),
        (["--share", "g", "--ack", "release"], "--ack release requires -n: the brokers deliver a released record"),
        (
            ["--share", "g", "--group", "h"],
            "--group cannot be combined with --share: a reader is",
        ),
        (["--share", "g", "-e"], "-e cannot be combined with --share: a share group has no end offset; use -n or"),
        (["--share", "g", "--grep", "x"], "--grep cannot be combined with --share: a record that is not printed"),
        (["--share", "g", "-o", "start"], "-o cannot be combined with --share: the broker chooses the records"),
        (["--share", "g", "--merge"], "--merge cannot be combined with --share: the broker chooses the records"),
    ],
)
def test_wrong_options(words: list[str], message: str) -> None:
    result = run_kcli("consume", "jobs", *words)
    assert result.status == 2
    assert result.err.startswith(f"kcli: {message}")
