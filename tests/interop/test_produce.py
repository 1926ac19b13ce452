"""Records that kcli writes to both brokers, read by kcat and Kafka's own consumer, and records that brokers refuse."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable

import pytest

from kcli.client.config import ProducerConfig
from kcli.client.request_future import RequestFuture
from kcli.errors import BrokerError
from kcli.producer.batches import RecordMetadata
from kcli.producer.producer import Producer
from tests.interop.process import Finished, kcli
from tests.lossy_proxy import lossy_proxy
from tests.real_kafka import Kafka, OwnBroker

pytestmark = pytest.mark.slow

ALL = ["-o", "beginning", "-e", "-q"]
KEYS = [f"customer-{n}" for n in range(200)]


def kcat_reads(kcat: str, kafka: Kafka, topic: str, form: str) -> list[str]:
    command = [kcat, "-b", kafka.bootstrap_servers, "-C", "-t", topic, *ALL, "-f", form + "\\n"]
    printed = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
    return printed.decode(errors="backslashreplace").splitlines()


def produce(kafka: Kafka, topic: str, *argv: str, stdin: bytes) -> Finished:
    return kcli("produce", topic, "-b", kafka.bootstrap_servers, *argv, stdin=stdin)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_reads_keys_headers_times_and_tombstones(codec: str, any_kafka: Kafka, kcat: str) -> None:
    topic = any_kafka.new_topic(prefix=codec)
    options = ("-z", codec, "-K", ":", "-Z", "-H", "a=1", "-H", "b=", "--timestamp", "1600000000123")
    run = produce(any_kafka, topic, *options, stdin=b"".join(b"k%d:value %d\n" % (n, n) for n in range(500)) + b"gone:")
    assert run.status == 0, run.err
    seen = kcat_reads(kcat, any_kafka, topic, "%k|%S|%s|%T|%h")
    assert seen[0] == "k0|7|value 0|1600000000123|a=1,b="
    assert seen[499] == "k499|9|value 499|1600000000123|a=1,b="
    assert seen[500] == "gone|-1||1600000000123|a=1,b="
    assert len(seen) == 501


def test_keys_go_to_the_partitions_that_java_chooses(any_kafka: Kafka, kcat: str) -> None:
    """Kafka's ConsoleProducer and kcli write the same keys; both must choose the same partitions."""
    ours, theirs = any_kafka.new_topic(partitions=7), any_kafka.new_topic(partitions=7)
    lines = "".join(f"{key}:x\n" for key in KEYS)
    assert produce(any_kafka, ours, "-K", ":", stdin=lines.encode()).status == 0
    keyed = [word for prop in ("parse.key=true", "key.separator=:") for word in ("--property", prop)]
    to = ("--bootstrap-server", any_kafka.bootstrap_servers, "--topic", theirs)
    any_kafka.tool("ConsoleProducer", *to, *keyed, stdin=lines)
    placed = [sorted(kcat_reads(kcat, any_kafka, topic, "%p %k")) for topic in (ours, theirs)]
    assert placed[0] == placed[1]
    assert len({line.split()[0] for line in placed[0]}) == 7


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_each_acks_setting_stores_the_records(acks: str, any_kafka: Kafka, kcat: str) -> None:
    topic = any_kafka.new_topic()
    assert produce(any_kafka, topic, "--acks", acks, stdin=b"a\nb\n").status == 0
    assert kcat_reads(kcat, any_kafka, topic, "%o %s") == ["0 a", "1 b"]


def test_futures_return_offset_and_log_append_time(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(partitions=2, message_timestamp_type="LogAppendTime")
    config = ProducerConfig.from_properties({"bootstrap.servers": any_kafka.bootstrap_servers})
    with Producer.from_config(config) as producer:
        futures = [producer.send(topic, b"x", partition=1, timestamp_ms=5) for _ in range(3)]
        producer.flush()
    stored = [future.value() for future in futures]
    assert [(s.partition, s.offset) for s in stored] == [(1, 0), (1, 1), (1, 2)]
    assert all(s.timestamp_ms > 1_700_000_000_000 for s in stored)


def test_json_lines_round_trip(any_kafka: Kafka, kcat: str) -> None:
    topic, copy = any_kafka.new_topic(), any_kafka.new_topic()
    values = ["text \u00e4", "", "x" * 1000]
    records = [{"key": "k", "value": value, "headers": [{"name": "h", "value": None}]} for value in values]
    records.append({"key": "AP8=", "key_encoding": "base64", "value": None})
    stdin = "\n".join(map(json.dumps, records)).encode()
    assert produce(any_kafka, topic, "--input", "jsonl", stdin=stdin).status == 0
    read = kcli("consume", topic, "-o", "start", "-e", "--output", "jsonl", "-b", any_kafka.bootstrap_servers)
    assert read.status == 0, read.err
    assert produce(any_kafka, copy, "--input", "jsonl", stdin=read.out).status == 0
    form = "%T|%K|%k|%S|%s|%h"
    seen = kcat_reads(kcat, any_kafka, copy, form)
    assert len(seen) == 4
    assert seen == kcat_reads(kcat, any_kafka, topic, form)


def test_a_topic_for_small_messages_gets_small_batches(any_kafka: Kafka, kcat: str) -> None:
    topic = any_kafka.new_topic(max_message_bytes=2000)
    lines = [f"{n} {'x' * 100}" for n in range(1000)]
    assert produce(any_kafka, topic, stdin="\n".join(lines).encode()).status == 0
    assert kcat_reads(kcat, any_kafka, topic, "%s") == lines


def test_refused_records_are_counted_and_the_others_stored(any_kafka: Kafka, kcat: str) -> None:
    topic = any_kafka.new_topic(max_message_bytes=2000)
    stdin = b"small\n" + b"x" * 5000 + b"\n" + b"small too\n"
    run = produce(any_kafka, topic, stdin=stdin)
    assert run.status == 1
    assert run.err.startswith("kcli: 1 record not stored: MESSAGE_TOO_LARGE")
    assert kcat_reads(kcat, any_kafka, topic, "%s") == ["small", "small too"]


@pytest.mark.parametrize("fault", ["cut", "silent", "short"])
def test_records_whose_answers_are_lost_are_possibly_stored(any_kafka: Kafka, kcat: str, fault: str) -> None:
    """kcli said "not stored" of 500 records that were all in the log."""
    topic = any_kafka.new_topic()
    lines = [str(n) for n in range(500)]
    with lossy_proxy(any_kafka.bootstrap_servers, produce=fault) as proxy:
        argv = ("produce", topic, "-b", proxy.address, "--timeout", "2")
        run = kcli(*argv, stdin="\n".join(lines).encode())
    assert run.status == 5, run.err
    assert run.err.startswith("kcli: 500 records possibly stored: not acknowledged within 2 s (delivery.timeout.ms): ")
    assert kcat_reads(kcat, any_kafka, topic, "%s") == lines


def test_a_compacted_topic_refuses_records_without_a_key(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(cleanup_policy="compact")
    run = produce(any_kafka, topic, "-K", ":", stdin=b"k:v\nno key\n")
    assert run.status == 1
    assert "2 records not stored: INVALID_RECORD" in run.err


def test_a_recreated_topic_is_written_to(any_kafka: Kafka, kcat: str) -> None:
    topic = any_kafka.new_topic()
    config = ProducerConfig.from_properties({"bootstrap.servers": any_kafka.bootstrap_servers})
    with Producer.from_config(config) as producer:
        producer.send(topic, b"old")
        producer.flush()
        any_kafka.delete_topic(topic)
        any_kafka.create_topic(topic)
        future = producer.send(topic, b"new")
        producer.flush()
        assert future.value().offset == 0
    assert kcat_reads(kcat, any_kafka, topic, "%s") == ["new"]


def test_an_unknown_topic_is_reported_at_once_and_not_created(any_kafka: Kafka) -> None:
    name = any_kafka.new_name()
    config = ProducerConfig.from_properties({"bootstrap.servers": any_kafka.bootstrap_servers})
    with Producer.from_config(config) as producer:
        error = producer.send(name, b"x").exception()
    assert isinstance(error, BrokerError)
    assert error.code.name == "UNKNOWN_TOPIC_OR_PARTITION"
    listed = kcli("topic", "list", "-b", any_kafka.bootstrap_servers)
    assert name.encode() not in listed.out


def test_each_record_is_stored_once_and_in_order_over_broker_kills(
    any_own_kafka: Callable[..., OwnBroker], kcat: str
) -> None:
    node = any_own_kafka()
    topic = node.new_topic()
    properties = {"bootstrap.servers": node.bootstrap_servers, "linger.ms": 0, "batch.size": 2000}
    enough, stop = threading.Semaphore(0), threading.Event()
    futures: list[RequestFuture[RecordMetadata]] = []

    def write() -> None:
        with Producer.from_config(ProducerConfig.from_properties(properties)) as producer:
            while not stop.is_set():
                futures.append(producer.send(topic, b"%d" % len(futures)))
                futures[-1].add_done_callback(lambda _: enough.release())
                producer.poll(1)

    writer = threading.Thread(target=write)
    writer.start()
    wait_for(enough, 500)
    node.kill()
    node.start()
    wait_for(enough, len(futures))
    stop.set()
    writer.join(60)
    assert [future.error for future in futures if future.error] == []
    assert kcat_reads(kcat, node, topic, "%s") == [str(n) for n in range(len(futures))]


def wait_for(semaphore: threading.Semaphore, count: int) -> None:
    for _ in range(count):
        assert semaphore.acquire(timeout=60)
