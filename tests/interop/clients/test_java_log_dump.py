"""Kafka's log dump tool reads the broker's files: segments, indexes, snapshots, committed offsets."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.real_kafka import Kafka, OwnBroker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BATCH = re.compile(r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* compresscodec: (\w+) .* isvalid: (\w+)", re.M)


def dump(kafka: Kafka, *arguments: str) -> str:
    done = kafka.tool("DumpLogSegments", *arguments)
    # It complains about every segment that does not begin with offset 0: "-1 is followed by 2000".
    followed = [line.split() for line in done.stderr.splitlines() if "is followed by" in line]
    assert all(first == "-1" for first, *_ in followed), done.stderr
    assert len(done.stderr.splitlines()) == 2 * len(followed), done.stderr
    return done.stdout


def files(folder: Path, suffix: str) -> str:
    found = sorted(map(str, folder.glob(f"*{suffix}")))
    assert found, f"no {suffix} in {folder}"
    return ",".join(found)


@pytest.fixture
def stopped(any_own_kafka: Callable[..., OwnBroker]) -> tuple[OwnBroker, list[bytes]]:
    """Return a cleanly stopped broker; topic `t` has several segments in every codec, and one group has read half of
    it.
    """
    kafka = any_own_kafka(log_index_interval_bytes="256")
    kafka.create_topic("t", segment_bytes=1 << 20)
    chance = random.Random(7)
    values = [b"value %d " % n + chance.randbytes(300).hex().encode() for n in range(6_000)]
    for number, codec in enumerate(CODECS):
        settings: dict[str, Any] = {"compression_type": codec, "batch_num_messages": 50, "enable_idempotence": True}
        producer = kafka.ordered_producer(**settings)
        for value in values[number::5]:
            producer.produce("t", value, b"key")
        assert producer.flush(60) == 0
    reader = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "readers", "log_level": 0})
    reader.commit(offsets=[TopicPartition("t", 0, 3_000, metadata="half")], asynchronous=False)
    reader.close()
    assert kafka.stop() in (0, 143)  # Java ends with the status of the signal
    return kafka, [value for number in range(5) for value in values[number::5]]


def test_the_dump_tool_reports_no_error(stopped: tuple[OwnBroker, list[bytes]]) -> None:
    kafka, values = stopped
    partition = kafka.data / "t-0"
    assert len(list(partition.glob("*.log"))) > 1
    shown = dump(kafka, "--deep-iteration", "--print-data-log", "--files", files(partition, ".log"))
    batches = [(int(base), int(last), int(count)) for base, last, count, _, _ in BATCH.findall(shown)]
    assert [last - base + 1 for base, last, _ in batches] == [count for _, _, count in batches]
    assert [base for base, _, _ in batches] == [0, *(last + 1 for _, last, _ in batches[:-1])]
    assert {codec for *_, codec, _ in BATCH.findall(shown)} == set(CODECS)
    assert {valid for *_, valid in BATCH.findall(shown)} == {"true"}
    assert re.findall(r"^\| offset: (\d+) .* key: key payload: (.*)$", shown, re.M) == [
        (str(offset), value.decode()) for offset, value in enumerate(values)
    ]

    indexes = files(partition, ".index") + "," + files(partition, ".timeindex")
    sane = dump(kafka, "--index-sanity-check", "--files", indexes)
    assert sane.count("passed sanity check") == len(indexes.split(","))
    entries = dump(kafka, "--files", files(partition, ".index"))
    assert "Mismatches" not in entries
    assert len(re.findall(r"^offset: \d+ position: \d+", entries, re.M)) > 50
    times = dump(kafka, "--files", files(partition, ".timeindex"))
    assert not re.search("mismatch|out of order|not found|Missing", times, re.IGNORECASE)
    states = dump(kafka, "--files", files(partition, ".snapshot"))
    assert "producerId: " in states

    [committed] = [log for log in kafka.data.glob(f"__consumer_offsets-*/{0:020}.log") if log.stat().st_size]
    result = dump(kafka, "--offsets-decoder", "--files", str(committed))
    assert '{"type":"1","data":{"group":"readers","topic":"t","partition":0}}' in result
    # librdkafka's Python client ends the metadata with a zero byte.
    assert '"offset":3000,"leaderEpoch":-1,"metadata":"half' in result
