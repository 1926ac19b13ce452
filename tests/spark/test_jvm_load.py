"""`kcli spark load` in the session of the tests: a topic that is exported and loaded equals the first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.producer.partitioner import partition_for_key
from tests.cli.fake import Result
from tests.real_kafka import Kafka, OwnBroker
from tests.spark.export_topics import RECORDS, fill
from tests.spark.reading import rows_of_topic

if TYPE_CHECKING:
    pass

Kcli = Callable[..., Result]
MANY = [
    *RECORDS,
    {"key": b"all", "value": bytes(range(256)), "headers": [("größe", b'\xff\n,"'), ("", b""), ("n", None)]},
    {"key": b' \r\n"\\,', "value": b" spaces "},
    *({"key": b"k%d" % (number % 7), "value": b"%d" % number} for number in range(60)),
]


@pytest.mark.parametrize(
    ("export", "load"),
    [
        ([], []),
        (["--format", "orc", "--partition-by", "dt,partition", "--files", "3"], ["--format", "orc"]),
        (["--format", "json", "--value", "raw"], ["--format", "json", "--value", "raw"]),
        (["--format", "csv", "--value", "raw"], ["--format", "csv", "--value", "raw"]),
    ],
    ids=["parquet", "orc", "json", "csv"],
)
def test_a_topic_exported_and_loaded_equals_the_first(
    kcli: Kcli, our_kafka: OwnBroker, tmp_path: Path, export: list[str], load: list[str]
) -> None:
    first = fill(our_kafka, MANY, partitions=3)
    second = our_kafka.new_topic(partitions=3, retention_ms=-1)
    address, out = our_kafka.bootstrap_servers, str(tmp_path / "out")
    done = kcli("spark", "export", first, "--to", out, "-b", address, *export)
    assert (done.status, done.err) == (0, "")
    done = kcli("spark", "load", out, "--topic", second, "-b", address, "--output", "json", *load)
    assert (done.status, done.err) == (0, "")
    items = json.loads(done.text)["items"]
    assert [(it["partition"], it["start"], it["status"]) for it in items] == [(n, 0, "written") for n in range(3)]
    assert sum(it["records"] for it in items) == len(MANY)
    assert rows_of_topic(our_kafka, second) == rows_of_topic(our_kafka, first)


def test_a_stream_of_files_is_loaded_into_apache_kafka(kcli: Kcli, real_kafka: Kafka, tmp_path: Path) -> None:
    first = fill(real_kafka, MANY, partitions=2)
    second = real_kafka.new_topic(partitions=2, retention_ms=-1)
    address, out = real_kafka.bootstrap_servers, str(tmp_path / "out")
    exported = kcli("spark", "export", first, "--to", out, "-b", address, "--once", "--max-offsets-per-trigger", "20")
    assert (exported.status, exported.err) == (0, "")
    done = kcli("spark", "load", out, "--topic", second, "-b", address)
    assert (done.status, done.err) == (0, "")
    assert rows_of_topic(real_kafka, second) == rows_of_topic(real_kafka, first)


def test_refusals_resume_and_keys(kcli: Kcli, our_kafka: OwnBroker, tmp_path: Path) -> None:
    first = fill(our_kafka, MANY, partitions=3)
    second = our_kafka.new_topic(partitions=3, retention_ms=-1)
    address, out = our_kafka.bootstrap_servers, str(tmp_path / "out")
    metrics = tmp_path / "kcli.prom"
    assert kcli("spark", "export", first, "--to", out, "-b", address, "--metrics", str(metrics)).status == 0
    assert f'kcli_spark_records{{command="export"}} {len(MANY)}.0' in metrics.read_text().splitlines()
    words = ["spark", "load", out, "-b", address, "--topic"]

    plan = kcli(*words, second, "--dry-run")
    assert (plan.status, plan.err) == (0, f"{len(MANY)} records would be written to {second}; nothing was written\n")
    assert rows_of_topic(our_kafka, second) == []

    rows = rows_of_topic(our_kafka, first)
    producer = our_kafka.ordered_producer()
    for partition, timestamp, key, value, headers in [row for row in rows if row[0] == 0][:5]:
        producer.produce(second, value, key, partition, timestamp=timestamp, headers=headers)
    assert producer.flush(120) == 0
    refused = kcli(*words, second)
    assert refused.status == 4
    assert refused.err.startswith(f"kcli: topic {second} has 5 records already; use an empty topic, --append, or")
    assert kcli(*words, second, "--resume", "--metrics", str(metrics)).status == 0
    assert f'kcli_spark_records{{command="load"}} {len(MANY) - 5}.0' in metrics.read_text().splitlines()
    assert 'kcli_spark_last_success_timestamp_seconds{command="load"}' in metrics.read_text()
    assert rows_of_topic(our_kafka, second) == rows
    assert kcli(*words, second, "--resume").status == 0
    assert rows_of_topic(our_kafka, second) == rows

    other = our_kafka.new_topic(partitions=2, retention_ms=-1)
    assert kcli(*words, other).status == 4
    assert kcli(*words, other, "--partitions", "by-key").status == 0
    loaded = rows_of_topic(our_kafka, other)
    for key in {row[2] for row in rows if row[2] is not None}:
        ours = [row[1:] for row in loaded if row[2] == key]
        assert {row[0] for row in loaded if row[2] == key} == {partition_for_key(key, 2)}
        if key.startswith(b"k"):  # such a key is in several partitions of the first topic
            assert sorted(ours) == sorted(row[1:] for row in rows if row[2] == key)
        else:
            assert ours == [row[1:] for row in rows if row[2] == key]
    noted = kcli(*words, our_kafka.new_topic(partitions=3), "--dry-run")
    assert noted.err.splitlines()[0].endswith(
        "deletes records after 7d00h, and the oldest of the files is of 2023-11-14T22:13:20.000Z; to keep it, set "
        "retention.ms=-1"
    )
    absent = kcli(*words, "absent")
    assert absent.status == 3
