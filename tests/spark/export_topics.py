"""A topic with all forms of records, and readers of exported files."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pyarrow import dataset

from tests.real_kafka import Kafka

START_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
HOUR_MS = 3_600_000
RECORDS: list[dict[str, Any]] = [
    {"key": b"plain", "value": b"text"},
    {"key": None, "value": b"\xff\x00\xfe no UTF-8"},
    {"key": b"\x80", "value": None},
    {"key": b"", "value": b""},
    {"key": b"h", "value": b"v", "headers": [("a", b"1"), ("a", b"2"), ("none", None), ("empty", b"")]},
    {"key": b"later", "value": b'{"id": 7, "name": "seven"}'},
]


def fill(kafka: Kafka, records: list[dict[str, Any]], partitions: int = 2) -> str:
    """Write these records to a topic, round-robin over its partitions, an hour apart; older than the default
    retention.
    """
    return fill_again(kafka, kafka.new_topic(partitions=partitions, retention_ms=-1), records, partitions)


def fill_again(kafka: Kafka, topic: str, records: list[dict[str, Any]], partitions: int = 2) -> str:
    producer = kafka.ordered_producer()
    for number, record in enumerate(records):
        at = START_MS + number * HOUR_MS
        producer.produce(topic, partition=number % partitions, timestamp=at, **record)
    assert producer.flush(120) == 0
    return topic


def expected(topic: str, records: list[dict[str, Any]], partitions: int = 2) -> list[dict[str, Any]]:
    """Return the rows that an export of `fill` has, by partition and offset."""
    rows = []
    for number, record in enumerate(records):
        headers = record.get("headers")
        moment = datetime.fromtimestamp((START_MS + number * HOUR_MS) / 1000, timezone.utc)
        rows.append(
            {
                "key": record["key"],
                "value": record["value"],
                "topic": topic,
                "partition": number % partitions,
                "offset": number // partitions,
                "timestamp": moment,
                "timestampType": 0,
                "headers": headers and [{"key": name, "value": value} for name, value in headers],
            }
        )
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def read_back(folder: Path, form: str = "parquet") -> list[dict[str, Any]]:
    """Read all rows of exported files without Spark; partition directories are read as text."""
    table = dataset.dataset(folder, format=form, partitioning="hive").to_table()
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        for name, value in row.items():
            if isinstance(value, datetime):
                row[name] = value.replace(tzinfo=timezone.utc)
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))
