"""One tool writes, another reads: kcli with itself, with kcat and with Kafka's own producer, in every codec."""

from __future__ import annotations

import subprocess

import pytest

from tests.interop.process import Finished, kcli
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LINES = [b"line %d with some text: \xc3\xa4\xe2\x82\xac %s" % (n, b"x" * (n % 50)) for n in range(100_000)]
FEW = LINES[:2000]


def text(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def done(run: Finished) -> Finished:
    assert run.status == 0, run.err
    assert "Traceback" not in run.err
    return run


def consume_all(kafka: Kafka, topic: str) -> list[bytes]:
    return done(kcli("consume", "topic", topic, "-o", "start", "-e", "-b", kafka.bootstrap_servers)).lines


def kcat_reads(kcat: str, kafka: Kafka, topic: str) -> list[bytes]:
    command = [kcat, "-b", kafka.bootstrap_servers, "-C", "-t", topic, "-o", "beginning", "-e", "-q"]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout.splitlines()


def test_a_hundred_thousand_lines_come_back_once_each(any_kafka: Kafka, kcat: str) -> None:
    topic, at = any_kafka.new_name("orders"), ("-b", any_kafka.bootstrap_servers)
    done(kcli("topic", "create", topic, "-p", "3", *at))
    any_kafka.wait_for_topic(topic, 3)
    done(kcli("produce", topic, *at, stdin=text(LINES)))
    assert sorted(consume_all(any_kafka, topic)) == sorted(LINES)
    assert sorted(kcat_reads(kcat, any_kafka, topic)) == sorted(LINES)


def test_keys_spread_over_all_partitions_and_each_keeps_the_order(any_kafka: Kafka) -> None:
    topic, at = any_kafka.new_topic(partitions=3), ("-b", any_kafka.bootstrap_servers)
    done(kcli("produce", topic, "-K:", *at, stdin=b"".join(b"key %d:%d\n" % (n % 100, n) for n in range(20_000))))
    for partition in "012":
        run = done(kcli("consume", "topic", topic, "-p", partition, "-o", "start", "-e", *at))
        numbers = [int(line) for line in run.lines]
        assert numbers
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("codec", CODECS)
def test_kcat_reads_what_kcli_wrote_with(codec: str, any_kafka: Kafka, kcat: str) -> None:
    topic = any_kafka.new_topic(prefix=codec)
    compression = ("-X", f"compression.type={codec}")
    done(kcli("produce", topic, "-b", any_kafka.bootstrap_servers, *compression, stdin=text(FEW)))
    assert kcat_reads(kcat, any_kafka, topic) == FEW


@pytest.mark.parametrize("codec", CODECS)
def test_kcli_reads_what_kcat_wrote_with(codec: str, any_kafka: Kafka, kcat: str) -> None:
    topic = any_kafka.new_topic(prefix=codec)
    command = [kcat, "-b", any_kafka.bootstrap_servers, "-P", "-t", topic, "-z", codec]
    subprocess.run(command, check=True, input=text(FEW), capture_output=True, timeout=60)
    assert consume_all(any_kafka, topic) == FEW


@pytest.mark.parametrize("codec", CODECS)
def test_kcli_reads_what_the_java_producer_wrote_with(codec: str, any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(prefix=codec)
    to = ("--bootstrap-server", any_kafka.bootstrap_servers, "--topic", topic)
    any_kafka.tool("ConsoleProducer", *to, "--compression-codec", codec, stdin=text(FEW).decode())
    assert consume_all(any_kafka, topic) == FEW


def test_kafka_s_own_consumer_reads_what_kcli_wrote(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    done(kcli("produce", topic, "-b", any_kafka.bootstrap_servers, stdin=text(FEW)))
    bounds = ("--from-beginning", "--max-messages", str(len(FEW)), "--timeout-ms", "30000")
    read = any_kafka.tool(
        "ConsoleConsumer", "--bootstrap-server", any_kafka.bootstrap_servers, "--topic", topic, *bounds
    )
    assert read.stdout.encode().splitlines() == FEW


def test_a_mistyped_topic_is_reported_and_never_created(any_kafka: Kafka) -> None:
    name, at = any_kafka.new_name("typo"), ("-b", any_kafka.bootstrap_servers)
    for command in (("consume", "topic", name, "-o", "start", "-e"), ("produce", name), ("topic", "describe", name)):
        run = kcli(*command, *at, stdin=b"x\n")
        assert run.status == 3, run.err
        assert name in run.err + run.out.decode()
    assert name.encode() not in done(kcli("topic", "list", *at)).out
