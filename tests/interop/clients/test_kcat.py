"""kcat (librdkafka 2.0, old versions of every API) on both brokers."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.limits import read_line
from tests.real_kafka import Kafka

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
NOON = 1_706_702_400_000  # 2024-01-31T12:00:00Z


class Kcat:
    """kcat with one broker."""

    def __init__(self, path: str, kafka: Kafka) -> None:
        self.start_of_line = [path, "-b", kafka.bootstrap_servers]

    def __call__(self, *arguments: str, stdin: bytes = b"") -> list[str]:
        """Return the lines that kcat prints. It must end with status 0."""
        done = subprocess.run([*self.start_of_line, *arguments], input=stdin, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode().splitlines()

    def produce(self, topic: str, *arguments: str, lines: list[str]) -> None:
        # One request in flight, or the first batch for a new topic may be overtaken by the second.
        ordered = ("-X", "max.in.flight.requests.per.connection=1")
        self("-P", "-t", topic, *ordered, *arguments, stdin="".join(f"{line}\n" for line in lines).encode())

    def consume(self, topic: str, *arguments: str, start: str = "beginning") -> list[str]:
        return self("-C", "-t", topic, "-o", start, "-e", "-q", *arguments)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen([*self.start_of_line, *arguments], stdout=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


@pytest.fixture
def cat(any_kafka: Kafka, kcat: str) -> Kcat:
    return Kcat(kcat, any_kafka)


@pytest.mark.parametrize("codec", CODECS)
def test_written_records_are_read_back(codec: str, any_kafka: Kafka, cat: Kcat) -> None:
    topic = any_kafka.new_topic(prefix=codec)
    lines = [f"line {n} {'text ' * (n % 30)}" for n in range(3_000)]
    cat.produce(topic, "-z", codec, lines=lines)
    assert cat.consume(topic, "-X", "check.crcs=true") == lines


def test_keys_headers_tombstones_and_offsets_are_printed(any_kafka: Kafka, cat: Kcat) -> None:
    topic = any_kafka.new_topic(partitions=3)
    cat.produce(topic, "-p", "2", "-K:", "-H", "a=1", "-H", "b=two", "-Z", lines=["k1:v1", "k2:", "k3:v3"])
    assert cat.consume(topic, "-f", "%p|%o|%k|%S|%s|%h\\n") == [
        "2|0|k1|2|v1|a=1,b=two",
        "2|1|k2|-1||a=1,b=two",
        "2|2|k3|2|v3|a=1,b=two",
    ]


@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_each_acks_setting_stores_the_records(acks: str, any_kafka: Kafka, cat: Kcat) -> None:
    topic = any_kafka.new_topic()
    cat.produce(topic, "-X", f"acks={acks}", lines=["a", "b"])
    deadline = time.monotonic() + 10  # without acknowledgement kcat ends before the record is in the log
    while cat.consume(topic) != ["a", "b"]:
        assert time.monotonic() < deadline


def test_reading_starts_at_the_given_offset(any_kafka: Kafka, cat: Kcat) -> None:
    topic = any_kafka.new_topic()
    cat.produce(topic, lines=[str(n) for n in range(100)])
    assert cat.consume(topic, start="97") == ["97", "98", "99"]
    assert cat.consume(topic, start="-3") == ["97", "98", "99"]
    assert cat.consume(topic, "-c", "2", start="50") == ["50", "51"]
    assert cat.consume(topic, start="end") == []


def test_reading_starts_at_a_time(any_kafka: Kafka, cat: Kcat) -> None:
    topic = any_kafka.new_topic(retention_ms=-1)
    producer = any_kafka.ordered_producer()
    for n in range(10):
        producer.produce(topic, str(n), timestamp=NOON + 1_000 * n)
    assert producer.flush(30) == 0
    assert cat.consume(topic, "-o", f"s@{NOON + 2_500}", "-o", f"e@{NOON + 6_000}") == ["3", "4", "5"]
    assert cat("-Q", "-t", f"{topic}:0:{NOON + 4_000}") == [f"{topic} [0] offset 4"]
    assert cat("-Q", "-t", f"{topic}:0:-1") == [f"{topic} [0] offset 10"]
    assert cat("-Q", "-t", f"{topic}:0:-2") == [f"{topic} [0] offset 0"]


def test_metadata_lists_brokers_and_topics(any_kafka: Kafka, cat: Kcat) -> None:
    topic = any_kafka.new_topic(partitions=3)
    result: dict[str, Any] = json.loads("\n".join(cat("-L", "-J", "-t", topic)))
    [broker] = result["brokers"]
    assert (broker["id"], broker["name"]) == (1, any_kafka.bootstrap_servers)
    [described] = result["topics"]
    assert described["topic"] == topic
    assert [(p["partition"], p["leader"], p["replicas"], p["isrs"]) for p in described["partitions"]] == [
        (number, 1, [{"id": 1}], [{"id": 1}]) for number in range(3)
    ]
    everything = json.loads("\n".join(cat("-L", "-J")))
    assert topic in {one["topic"] for one in everything["topics"]}


def test_writing_creates_a_topic(any_kafka: Kafka, cat: Kcat) -> None:
    topic = any_kafka.new_name("made-by-writing")
    cat.produce(topic, "-p", "0", lines=["first"])
    assert cat.consume(topic) == ["first"]
    [described] = json.loads("\n".join(cat("-L", "-J", "-t", topic)))["topics"]
    assert len(described["partitions"]) == 4  # num.partitions


def test_a_waiting_reader_gets_new_records_at_once(any_kafka: Kafka, cat: Kcat) -> None:
    topic = any_kafka.new_topic()
    patient = ("-X", "fetch.wait.max.ms=20000", "-X", "socket.timeout.ms=30000", "-u", "-q")
    with cat.running("-C", "-t", topic, "-o", "beginning", *patient) as reader:
        cat.produce(topic, lines=["one"])
        assert read_line(reader, "the first record") == "one\n"
        started = time.monotonic()
        cat.produce(topic, lines=["two"])
        assert read_line(reader, "the second record") == "two\n"
        assert time.monotonic() - started < 10, "only when the long poll was over"


def test_a_record_larger_than_the_fetch_limits_is_read(any_kafka: Kafka, cat: Kcat) -> None:
    topic = any_kafka.new_topic()
    lines = ["a" * 300_000, "b" * 500_000, "c"]
    cat.produce(topic, lines=lines)
    small = ("-X", "fetch.message.max.bytes=1000", "-X", "fetch.max.bytes=1000", "-X", "message.max.bytes=1000")
    assert cat.consume(topic, *small) == lines


def test_a_group_continues_at_its_committed_offset(any_kafka: Kafka, cat: Kcat) -> None:
    topic, group = any_kafka.new_topic(partitions=3), any_kafka.new_name("group")
    as_group = ("-G", group, "-e", "-q", "-X", "auto.offset.reset=earliest", topic)
    cat.produce(topic, "-K:", lines=[f"{n}:{n}" for n in range(100)])
    assert sorted(cat(*as_group), key=int) == [str(n) for n in range(100)]
    cat.produce(topic, "-K:", lines=[f"{n}:{n}" for n in range(100, 110)])
    assert sorted(cat(*as_group), key=int) == [str(n) for n in range(100, 110)]
