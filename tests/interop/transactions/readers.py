"""The same topics read by four clients: kcli, kcat, Java's consumer and Spark, each record with its offset."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcli.structs import TopicPartition
from tests.cli.fake import run_kcli
from tests.interop.transactions.histories import PARTITIONS, Read
from tests.java_driver import compiled
from tests.real_kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA = Path(__file__).parent / "CommittedReader.java"


def by_kcli(kafka: Kafka, topics: list[str], committed: bool) -> Read:
    """Read with `kcli consume`."""
    found: Read = defaultdict(list)
    for topic in topics:
        level = "read_committed" if committed else "read_uncommitted"
        options = ("-o", "start", "-e", "-q", "--output", "jsonl", "--isolation-level", level)
        run = run_kcli("consume", topic, "-b", kafka.bootstrap_servers, *options)
        assert (run.status, run.err) == (0, ""), run.err
        for line in run.text.splitlines():
            row = json.loads(line)
            _add(found, topic, row["partition"], row["offset"], row["key"], row["value"])
    return _sorted(found)


def by_kcat(kafka: Kafka, topics: list[str], committed: bool) -> Read:
    """Read with kcat: librdkafka, and Fetch up to v11."""
    found: Read = defaultdict(list)
    level = "read_committed" if committed else "read_uncommitted"
    for topic in topics:
        words = ["kcat", "-C", "-b", kafka.bootstrap_servers, "-t", topic, "-o", "beginning", "-e", "-q", "-J"]
        run = subprocess.run(
            [*words, "-X", f"isolation.level={level}"], capture_output=True, text=True, timeout=60, check=True
        )
        for line in run.stdout.splitlines():
            row = json.loads(line)
            _add(found, topic, row["partition"], row["offset"], row["key"], row["payload"])
    return _sorted(found)


def by_java(kafka: Kafka, topics: list[str], committed: bool) -> Read:
    """Read with Java's consumer, all topics in one process."""
    folder = compiled(_JAVA, kafka.jars)
    command = kafka.java("CommittedReader")[:-1]
    command[command.index("-cp") + 1] += f":{folder}"
    level = "read_committed" if committed else "read_uncommitted"
    words = [*command, _JAVA.stem, kafka.bootstrap_servers, level, *topics]
    run = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    found: Read = defaultdict(list)
    for line in run.stdout.splitlines():
        topic, partition, offset, key, value = line.split("\t")
        _add(found, topic, int(partition), int(offset), key, None if value == "null" else value)
    return _sorted(found)


class BySpark:
    """Read with `format("kcli")`, all topics in one job."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def __call__(self, kafka: Kafka, topics: list[str], committed: bool) -> Read:
        options = {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "kafka.isolation.level": "read_committed" if committed else "read_uncommitted",
            "subscribe": ",".join(topics),
            "startingOffsets": "earliest",
            "endingOffsets": "latest",
        }
        frame = self._session.read.format("kcli").options(**options).load()
        rows: Iterable[Any] = frame.select("topic", "partition", "offset", "key", "value").collect()
        found: Read = defaultdict(list)
        for row in rows:
            value = None if row.value is None else bytes(row.value)
            found[TopicPartition(row.topic, row.partition)].append((row.offset, bytes(row.key), value))
        return _sorted(found)


def _add(found: Read, topic: str, partition: int, offset: int, key: str, value: str | None) -> None:
    found[TopicPartition(topic, partition)].append((offset, key.encode(), None if value is None else value.encode()))


def _sorted(found: Read) -> Read:
    """Return the rows by offset; a reader must have given them in this order within each partition."""
    for tp, rows in found.items():
        offsets = [offset for offset, _, _ in rows]
        assert offsets == sorted(set(offsets)), f"{tp}: records are doubled or out of order"
        assert tp.partition < PARTITIONS
    return dict(found)
