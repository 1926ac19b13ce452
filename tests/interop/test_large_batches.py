"""Batches that are small on the wire and large in memory, and odd batches, as Java's consumer reads them."""

from __future__ import annotations

import subprocess

import pytest

from kcli.client.config import ConsumerConfig
from kcli.consumer.consumer import Consumer
from kcli.errors import RecordTooLarge
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.primitives import varlong
from kcli.protocol.records import batch
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.checksum import crc32c
from kcli.protocol.records.compression import SNAPPY, compress
from kcli.protocol.records.record import NewRecord
from kcli.structs import TopicPartition
from tests.broker.wire import Wire
from tests.interop.process import kcli
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

T = 1_700_000_000_000
LARGE = 60 << 20


def append(kafka: Kafka, topic: str, *batches: bytes) -> None:
    with Wire(kafka.bootstrap_servers) as wire:
        for data in batches:
            topics = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(records=data)])]
            response = wire.ask(ProduceRequest(acks=-1, timeout_ms=15_000, topic_data=topics), 9)
            [answered] = response.responses[0].partition_responses
            assert answered.error_code == 0, answered.error_message


def framed(payload: bytes, count: int, *, codec: int = 0) -> bytes:
    """Return a v2 batch of any payload, with its size and checksum."""
    size = batch.HEADER_BYTES - batch.PREFIX_BYTES + len(payload)
    data = bytearray(batch.HEADER.pack(0, size, 0, 2, 0, codec, count - 1, T, T, -1, -1, -1, count) + payload)
    data[batch.CRC_AT : batch.CRC_FROM] = crc32c(memoryview(data)[batch.CRC_FROM :]).to_bytes(4, "big")
    return bytes(data)


def record(*fields: int | bytes) -> bytes:
    body = b"\0" + b"".join(field if isinstance(field, bytes) else varlong(field) for field in fields)
    return varlong(len(body)) + body


def read_on(consumer: Consumer) -> list[bytes | None]:
    """Return the values of the next records; they are there already."""
    for _ in range(60):
        values = [value for columns in consumer.poll(1000).values() for value in columns.values()]
        if values:
            return values
    raise AssertionError("no records within 60 polls")


def java_reads(kafka: Kafka, topic: str, count: int) -> list[str]:
    printing = ["--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"]
    at = ("--bootstrap-server", kafka.bootstrap_servers, "--topic", topic, "--from-beginning")
    done = kafka.tool("ConsoleConsumer", *at, "--max-messages", str(count), "--timeout-ms", "30000", *printing)
    return done.stdout.splitlines()


def test_a_line_of_60_mb_is_written_and_read_back(any_kafka: Kafka, kcat: str) -> None:
    topic = any_kafka.new_topic()
    line = b"0123456789abcdef" * (LARGE >> 4)
    options = ("-z", "zstd", "-X", f"max.request.size={LARGE * 2}", "-X", f"buffer.memory={LARGE * 2}")
    written = kcli("produce", topic, "-b", any_kafka.bootstrap_servers, *options, stdin=line + b"\nafter\n")
    assert written.status == 0, written.err
    command = [kcat, "-b", any_kafka.bootstrap_servers, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%S\n"]
    assert subprocess.run(command, check=True, capture_output=True, timeout=60).stdout == b"%d\n5\n" % LARGE
    read = kcli("consume", topic, "-b", any_kafka.bootstrap_servers, "-o", "start:end", "-f", "%S %o\n")
    assert (read.status, read.out) == (0, b"%d 0\n5 1\n" % LARGE), read.err


def test_a_batch_of_more_than_a_million_records_is_read(any_kafka: Kafka) -> None:
    topic, count = any_kafka.new_topic(), (1 << 20) + 5
    append(any_kafka, topic, build_batch([NewRecord(None, b"", T)] * count, compression="zstd"))
    read = kcli("consume", topic, "-b", any_kafka.bootstrap_servers, "-o", "start:end", "-f", "%o\n")
    assert read.status == 0, read.err
    assert read.out.splitlines() == [b"%d" % offset for offset in range(count)]


def test_a_batch_above_the_limit_is_too_large_and_the_reader_goes_on_after_it(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    large = build_batch([NewRecord(None, bytes(1 << 20), T)] * 3, compression="zstd")
    append(any_kafka, topic, large, build_batch([NewRecord(None, b"after", T)]))
    limit = ("-X", "max.decompressed.batch.bytes=1000000")
    read = kcli("consume", topic, "-b", any_kafka.bootstrap_servers, "-o", "start:end", "-f", "%s\n", *limit)
    assert (read.status, read.out) == (1, b"")
    assert "decompresses to more than max.decompressed.batch.bytes (1000000 bytes)" in read.err
    assert "the next batch begins at offset 3" in read.err
    assert "corrupt" not in read.err
    after = kcli("consume", topic, "-b", any_kafka.bootstrap_servers, "-o", "3:end", "-f", "%s\n", *limit)
    assert (after.status, after.out) == (0, b"after\n"), after.err
    config = {"bootstrap.servers": any_kafka.bootstrap_servers, "max.decompressed.batch.bytes": "1000000"}
    tp = TopicPartition(topic, 0)
    with Consumer.from_config(ConsumerConfig.from_properties(config)) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 0)
        with pytest.raises(RecordTooLarge) as caught:
            read_on(consumer)
        consumer.seek(tp, caught.value.evidence["next_offset"])
        assert read_on(consumer) == [b"after"]


def test_odd_batches_are_read_as_java_reads_them(any_kafka: Kafka) -> None:
    """Nulls with a length of -2, and two snappy streams in one batch."""
    topic = any_kafka.new_topic()
    nulls = record(0, 0, -2, -3, 1, 1, b"h", -2) + record(0, 1, 1, b"k", 1, b"v", 0)
    halves = record(0, 0, -1, 1, b"1", 0), record(0, 1, -1, 1, b"2", 0)
    streams = compress("snappy", halves[0]) + compress("snappy", halves[1])
    append(any_kafka, topic, framed(nulls, 2), framed(streams, 2, codec=SNAPPY))
    expected = ["h:null\tnull\tnull", "NO_HEADERS\tk\tv", "NO_HEADERS\tnull\t1", "NO_HEADERS\tnull\t2"]
    assert java_reads(any_kafka, topic, 4) == expected
    read = kcli("consume", topic, "-b", any_kafka.bootstrap_servers, "-o", "start:end", "-f", "%h %K %k %S %s\n")
    assert read.status == 0, read.err
    assert read.out.splitlines() == [b"h=NULL -1  -1 ", b" 1 k 1 v", b" -1  1 1", b" -1  1 2"]
