"""Partition directories of Apache Kafka opened by our broker and vice versa, and Kafka's dump tool on our files."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.broker.log.logs import NOW, Keeper, append, fill, scan, values
from tests.real_kafka import Kafka, KafkaNode

pytestmark = pytest.mark.slow

INDEXES = (".index", ".timeindex")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def produce(node: KafkaNode, topic: str, records: list[bytes], **settings: Any) -> None:
    producer = node.ordered_producer(**settings)
    for value in records:
        producer.produce(topic, value, partition=0)
        if len(producer) > 1000:
            producer.flush(30)
    assert producer.flush(30) == 0


def consume(node: KafkaNode, topic: str, count: int) -> list[bytes | None]:
    return [message.value() for message in read(node, topic, count - 1)]


def read(node: KafkaNode, topic: str, last_offset: int) -> list[Any]:
    """Read all messages up to the one with `last_offset`."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "none", "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    while not found or found[-1].offset() < last_offset:
        messages = [message for message in (consumer.poll(30), *consumer.consume(1000, timeout=0.1)) if message]
        assert messages, f"no message after offset {found[-1].offset() if found else None}"
        assert not [message.error() for message in messages if message.error()]
        found += messages
    consumer.close()
    return found


def offsets_for_times(node: KafkaNode, topic: str, times: list[int]) -> list[int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "none"})
    found = [consumer.offsets_for_times([TopicPartition(topic, 0, time_ms)], timeout=20)[0].offset for time_ms in times]
    consumer.close()
    return found


def adopt(node: KafkaNode, topic: str, keeper: Keeper) -> Keeper:
    shutil.copytree(node.folder / "data" / f"{topic}-0", keeper.path)
    return keeper


class KafkaDirectory(NamedTuple):
    """Three topics that Apache Kafka codec_values before it was stopped, and its responses about them."""

    node: KafkaNode
    values: list[bytes]  # of topic `codecs`
    timestamps: list[int]  # timestamps to look up in `codecs`
    offsets: list[int]  # the offsets that Kafka returned for them
    compacted: list[tuple[int, bytes]]  # remaining offsets and values of topic `compacted`


@pytest.fixture(scope="module")
def kafka_directory(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaDirectory]:
    folder = tmp_path_factory.mktemp("theirs")
    node = KafkaNode(folder / "kafka", kafka_jars)
    node.start()
    try:
        codec_values = _write_codecs(node)
        node.create_topic("small-batches", segment_bytes=1_048_576)
        produce(node, "small-batches", [b"%d" % number * 50 for number in range(9000)], batch_num_messages=7)
        remaining = _write_compacted(node)
        timestamps = _times(adopt(node, "codecs", Keeper(str(folder / "codecs-0"))))
        found = KafkaDirectory(node, codec_values, timestamps, offsets_for_times(node, "codecs", timestamps), remaining)
        node.stop()
        yield found
    finally:
        node.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _write_codecs(node: KafkaNode) -> list[bytes]:
    node.create_topic("codecs", segment_bytes=1_048_576, index_interval_bytes=4096)
    noise = random.Random(1)
    wanted = [b"%d:" % number + noise.randbytes(700) for number in range(5000)]
    for number, codec in enumerate(CODECS):
        part = wanted[number * 1000 : number * 1000 + 1000]
        how = {"compression_type": codec, "batch_num_messages": 30, "enable_idempotence": number % 2 == 1}
        produce(node, "codecs", part, **how)
    return wanted


def _times(keeper: Keeper) -> list[int]:
    """Return the smallest and the largest timestamp and six between them."""
    stamps = [record.timestamp_ms for record in scan(keeper.open(clean=False))]
    return [min(stamps), max(stamps), *random.Random(1).sample(range(min(stamps), max(stamps)), 6)]


def _write_compacted(node: KafkaNode) -> list[tuple[int, bytes]]:
    config = {"cleanup_policy": "compact", "segment_bytes": 1_048_576, "min_cleanable_dirty_ratio": 0.01}
    node.create_topic("compacted", delete_retention_ms=0, **config)
    folder = node.folder / "data" / "compacted-0"
    producer = node.ordered_producer(batch_num_messages=9)
    for number in range(4000):
        producer.produce("compacted", b"%d" % number + b"v" * 1000, key=b"%d" % (number % 500), partition=0)
    producer.flush(30)
    deadline = time.monotonic() + 60
    while not _is_cleaned_up_to_its_last_segment(folder):
        assert time.monotonic() < deadline, "the topic was not compacted within 60 s"
        time.sleep(0.2)
    assert sum(path.stat().st_size for path in folder.glob("*.log")) < 2_500_000
    return [(message.offset(), message.value()) for message in read(node, "compacted", 3999)]


def _is_cleaned_up_to_its_last_segment(folder: Path) -> bool:
    """Kafka replaces segments in groups, and writes the cleaner checkpoint after the last one."""
    last = max(int(path.stem) for path in folder.glob("*.log"))
    topic, partition = folder.name.rsplit("-", 1)
    checkpoint = folder.parent / "cleaner-offset-checkpoint"
    return checkpoint.exists() and f"{topic} {partition} {last}" in checkpoint.read_text().splitlines()


@pytest.mark.real_kafka
def test_directory_of_apache_kafka_is_served_byte_for_byte(kafka_directory: KafkaDirectory, keeper: Keeper) -> None:
    log = adopt(kafka_directory.node, "codecs", keeper).open(clean=True)
    assert keeper.reports == []
    assert len(log.segments) > 2
    assert values(log) == kafka_directory.values
    for segment in log.segments:
        read = log.read(segment.base_offset, 1 << 30, upto=log.log_end_offset, min_one_message=True)
        assert read.records is not None
        file = kafka_directory.node.data / "codecs-0" / f"{segment.base_offset:020d}.log"
        assert bytes(read.records) == file.read_bytes()
    stamps = [record.timestamp_ms for record in scan(log)]
    assert [log.offset_for_timestamp(time_ms) for time_ms in kafka_directory.timestamps] == [
        (offset, stamps[offset], 0) for offset in kafka_directory.offsets
    ]
    assert len(log.producers.producers) == 2
    assert keeper.reports == []


@pytest.mark.real_kafka
def test_rebuilt_indexes_equal_those_of_apache_kafka(kafka_directory: KafkaDirectory, keeper: Keeper) -> None:
    made = {
        path.name: path.read_bytes()
        for path in (kafka_directory.node.data / "small-batches-0").iterdir()
        if path.suffix in INDEXES and path.stem.isdigit()
    }
    adopt(kafka_directory.node, "small-batches", keeper)
    for name in made:
        (keeper.path / name).unlink()
    keeper.open(clean=True).close()
    assert len(made) >= 4
    assert {name: (keeper.path / name).read_bytes() for name in made} == made


@pytest.mark.real_kafka
def test_log_compacted_by_apache_kafka_is_read_with_its_offset_gaps(
    kafka_directory: KafkaDirectory, keeper: Keeper
) -> None:
    log = adopt(kafka_directory.node, "compacted", keeper).open(clean=True)
    assert [(record.offset, record.value) for record in scan(log)] == kafka_directory.compacted
    assert len(kafka_directory.compacted) < 3500
    assert all(values(log, offset)[0] == value for offset, value in kafka_directory.compacted[::50])
    assert [log.offset_for_timestamp(record.timestamp_ms) is not None for record in scan(log)].count(False) == 0
    assert keeper.reports == []


def test_records_acknowledged_by_apache_kafka_before_kill_9_are_recovered(
    own_kafka: Callable[..., KafkaNode], keeper: Keeper
) -> None:
    node = own_kafka()
    node.create_topic("theirs", segment_bytes=1_048_576)
    wanted = [b"%d" % number * 100 for number in range(9000)]
    produce(node, "theirs", wanted, batch_num_messages=20)
    node.kill()
    log = adopt(node, "theirs", keeper).open(clean=False)
    assert values(log) == wanted
    assert keeper.file(0, ".index").stat().st_size < 100_000  # not preallocated any more
    assert not keeper.reported("DATA WAS LOST")


def _write_our_log(keeper: Keeper) -> tuple[list[bytes | None], Keeper]:
    """Write a log with rolled segments, all codecs, a producer, epochs, unordered timestamps and large batches."""
    log = keeper.open(segment_bytes=30_000, index_interval_bytes=500)
    chance = random.Random(2)
    for number in range(150):
        codec = CODECS[number % 5]
        records = [b"%d.%d" % (number, part) + b"y" * chance.randrange(300) for part in range(1 + number % 4)]
        times = [NOW + number * 10 - chance.randrange(200) for _ in records]
        append(log, *records, times_ms=times, compression=codec, leader_epoch=number // 60)
    for number in range(3):
        append(log, b"p%d" % number, producer_id=7, producer_epoch=0, base_sequence=number, leader_epoch=3)
    fill(log, 200)
    found = values(log)
    assert len(log.segments) > 2
    log.close()
    return found, keeper


ERROR_WORDS = (
    "mismatch",
    "Mismatch",
    "corrupt",
    "Corrupt",
    "isvalid: false",
    "non-consecutive",
    "out of order",
    "Found",
)


@pytest.fixture
def kafka_tools(kafka_jars: Path) -> Kafka:
    return Kafka("", kafka_jars)


@pytest.mark.real_kafka
def test_dump_log_reads_our_segments_and_indexes_without_errors(kafka_tools: Kafka, keeper: Keeper) -> None:
    found, _ = _write_our_log(keeper)
    files = sorted(str(path) for path in keeper.path.iterdir() if path.suffix in (".log", *INDEXES))
    done = kafka_tools.tool("DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", ",".join(files))
    assert [word for word in ERROR_WORDS if word in done.stdout + done.stderr] == [], done.stdout[-3000:]
    payloads = [line.split(" payload: ", 1)[1].encode() for line in done.stdout.splitlines() if " payload: " in line]
    assert payloads == found
    sane = kafka_tools.tool("DumpLogSegments", "--index-sanity-check", "--files", ",".join(files))
    assert sane.stdout.count("passed sanity check") == len(list(keeper.path.glob("*index")))


@pytest.mark.real_kafka
def test_dump_log_reads_our_producer_snapshots(kafka_tools: Kafka, keeper: Keeper) -> None:
    _write_our_log(keeper)
    newest = sorted(keeper.path.glob("*.snapshot"))[-1]
    done = kafka_tools.tool("DumpLogSegments", "--files", str(newest))
    assert "producerId: 7 producerEpoch: 0" in done.stdout
    assert "lastSequence: 2" in done.stdout


@pytest.mark.parametrize("stopped", ["cleanly", "by kill -9"])
def test_apache_kafka_serves_our_directory_and_we_serve_it_again(
    own_kafka: Callable[..., KafkaNode], keeper: Keeper, stopped: str
) -> None:
    found, _ = _write_our_log(keeper)
    if stopped == "by kill -9":
        log = keeper.open(segment_bytes=30_000, index_interval_bytes=500)
        found += fill(log, 20, start=1000)
        log.close(clean=False)
    newest = sorted(keeper.path.glob("*.log"))[-1]
    before = newest.read_bytes()
    node = own_kafka()
    node.create_topic("ours", retention_ms=-1)  # the records are old
    node.stop()
    data = node.folder / "data"
    place = data / "ours-0"
    for path in place.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in keeper.path.iterdir():
        shutil.copy(path, place)
    if stopped == "by kill -9":
        (data / ".kafka_cleanshutdown").unlink()
    node.start()
    assert consume(node, "ours", len(found)) == found
    assert offsets_for_times(node, "ours", [NOW + 700])[0] == _first_at_or_after(keeper, NOW + 700)
    produce(node, "ours", [b"from Java"])
    server_log = node.log_file.read_text(errors="replace")
    assert "Corrupt" not in server_log
    assert "corrupted" not in server_log
    node.stop()
    assert (place / newest.name).read_bytes().startswith(before)

    back = Keeper(str(keeper.path.parent / "back-0"))
    shutil.copytree(place, back.directory)
    log = back.open(clean=True)
    assert back.reports == []
    assert values(log) == [*found, b"from Java"]
    assert append(log, b"and ours").base_offset == len(found) + 1


def _first_at_or_after(keeper: Keeper, time_ms: int) -> int:
    return next(record.offset for record in scan(keeper.open(clean=False)) if record.timestamp_ms >= time_ms)
