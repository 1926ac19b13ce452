"""Kafka's console producer and consumer: the Java client 4.3, idempotent and with topic ids."""

from __future__ import annotations

import pytest

from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

SHOWN = ("key", "headers", "partition", "offset")


def write(kafka: Kafka, topic: str, text: str, *arguments: str) -> None:
    kafka.tool(
        "ConsoleProducer", "--bootstrap-server", kafka.bootstrap_servers, "--topic", topic, *arguments, stdin=text
    )


def read(kafka: Kafka, topic: str, count: int, *arguments: str) -> list[str]:
    bounds = ("--from-beginning", "--max-messages", str(count), "--timeout-ms", "30000")
    done = kafka.tool(
        "ConsoleConsumer", "--bootstrap-server", kafka.bootstrap_servers, "--topic", topic, *bounds, *arguments
    )
    return done.stdout.splitlines()


def words(option: str, *properties: str) -> list[str]:
    return [word for given in properties for word in (option, given)]


def test_keys_headers_and_values_round_trip(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    parsing = words("--reader-property", "parse.key=true", "key.separator=:", "parse.headers=true")
    write(
        any_kafka,
        topic,
        "a=1,b=2\tk1:v1\nc=3\tk2:v2\n",
        *parsing,
        *words("--reader-property", "headers.key.separator=="),
    )
    shown = words("--formatter-property", *(f"print.{what}=true" for what in SHOWN))
    assert read(any_kafka, topic, 2, *shown) == [
        "Partition:0\tOffset:0\ta:1,b:2\tk1\tv1",
        "Partition:0\tOffset:1\tc:3\tk2\tv2",
    ]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_written_records_are_read_back(codec: str, any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(prefix=codec)
    lines = [f"line {n} {'text ' * (n % 30)}" for n in range(5_000)]
    write(any_kafka, topic, "\n".join(lines) + "\n", "--compression-codec", codec)
    assert read(any_kafka, topic, 5_000, *words("--command-property", "isolation.level=read_committed")) == lines


def test_a_group_continues_at_its_committed_offset(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(), any_kafka.new_name("group")
    write(any_kafka, topic, "1\n2\n3\n")
    assert read(any_kafka, topic, 2, "--group", group) == ["1", "2"]
    assert read(any_kafka, topic, 1, "--group", group) == ["3"]


def test_writing_creates_a_topic(any_kafka: Kafka) -> None:
    topic = any_kafka.new_name("made-by-writing")
    write(any_kafka, topic, "first\n")
    assert read(any_kafka, topic, 1) == ["first"]
