"""Throughput, skew and profile of the known topic agree with plain loops over its records.

The commands run with real command lines, but in the shared session of the tests.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kcli.spark.pipelines import profile, skew, throughput
from kcli.spark.pipelines.profile_tasks import is_chosen
from kcli.spark.pipelines.source import KafkaSource
from kcli.spark.pipelines.throughput import ThroughputOptions
from kcli.text import format_time
from tests.cli.fake import Result
from tests.real_kafka import Kafka
from tests.spark.browser import Dom, rendered
from tests.spark.groups import topic_with
from tests.spark.known_topic import COMPACTED, DELETED_BEFORE, Known, KnownTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEN_MINUTES = 600_000
Run = Callable[..., Result]


def iso(ms: int) -> str:
    return format_time(ms)


def source_of(known: KnownTopic, **more: str) -> KafkaSource:
    return KafkaSource(kafka={"bootstrap.servers": known.kafka.bootstrap_servers}, topics={known.name: None}, more=more)


# --- throughput


def varint_size(number: int) -> int:
    """Return the size of a zigzag varint in bytes."""
    return max(1, -(-(number << 1 ^ number >> 63).bit_length() // 7))


def batch_size(records: list[Known], base_offset: int) -> int:
    """Return the size in the log by "Record Batch" in Kafka's documentation; no headers, not compressed."""
    size = 61
    for it in records:
        key, value = (-1 if data is None else len(data) for data in (it.key, it.value))
        body = 1 + varint_size(it.timestamp_ms - records[0].timestamp_ms) + varint_size(it.offset - base_offset)
        body += varint_size(key) + max(key, 0) + varint_size(value) + max(value, 0) + varint_size(0)
        size += varint_size(body) + body
    return size


def batches_of(known: KnownTopic) -> Iterator[tuple[int, list[Known], int]]:
    """Return partition, remaining records and first offset of each batch that is not a control batch."""
    for (partition, _), group in groupby(known.written, key=lambda it: (it.partition, it.batch)):
        batch = list(group)
        left = [it for it in batch if it.fate != COMPACTED]
        if left and not (partition == 2 and batch[-1].offset < DELETED_BEFORE):
            yield partition, left, batch[0].offset


def test_throughput_from_batch_headers(here: Run, known_topic: KnownTopic) -> None:
    expected: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for partition, batch, base in batches_of(known_topic):
        newest = max(it.timestamp_ms for it in batch)
        for place, more in enumerate((len(batch), batch_size(batch, base), 1)):
            expected[iso(newest - newest % TEN_MINUTES), partition][place] += more
    result = here("throughput", "--window", "10m", "--by", "partition", "--output", "json")
    found = {
        (it["window"], it["partition"]): [it[name] for name in ("records", "bytes", "batches")] for it in result.rows
    }
    assert found == expected
    astride = sum(
        it[0].timestamp_ms // TEN_MINUTES != max(r.timestamp_ms for r in it) // TEN_MINUTES
        for _, it, _ in batches_of(known_topic)
    )
    assert (f"{astride} batches span several windows" in result.err) == (astride > 0)


def test_throughput_of_each_record_in_sliding_windows(spark: SparkSession, known_topic: KnownTopic) -> None:
    expected: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for it in known_topic.seen(committed=True):
        last = it.timestamp_ms - it.timestamp_ms % (TEN_MINUTES // 2)
        for start in (last, last - TEN_MINUTES // 2):
            expected[iso(start)][0] += 1
            expected[iso(start)][1] += len(it.key or b"") + len(it.value or b"")
    wish = ThroughputOptions(TEN_MINUTES, TEN_MINUTES // 2, (), exact=True)
    source = source_of(known_topic, **{"kafka.isolation.level": "read_committed"})
    windows = throughput.run(spark, source, wish).windows
    assert {row["window"]: [row["records"], row["bytes"]] for row in windows.rows} == expected
    [total] = throughput.summarize(windows, wish).rows
    assert total["records"] == len(known_topic.seen(committed=True))
    first, last = min(expected), max(expected)
    assert (total["first_window"], total["last_window"]) == (first, last)
    assert total["peak_records_per_s"] == max(count for count, _ in expected.values()) / 600


def test_throughput_summary_and_threshold_by_producer(here: Run, known_topic: KnownTopic) -> None:
    result = here(
        "throughput", "--by", "producer", "--summary", "--output", "json", "--fail-if", "peak_records_per_s>1000"
    )
    by_producer = {it["producer_id"] is None: it["records"] for it in result.rows}
    batches = [batch for _, batch, _ in batches_of(known_topic)]
    transactional = sum(len(batch) for batch in batches if batch[0].transactional)
    assert by_producer == {True: sum(map(len, batches)) - transactional, False: transactional}


# --- skew


def sized(it: Known) -> int:
    return len(it.key or b"") + len(it.value or b"")


def test_hot_keys(here: Run, known_topic: KnownTopic) -> None:
    seen = known_topic.seen()
    amounts = Counter[bytes]()
    for it in seen:
        if it.key is not None:
            amounts[it.key] += sized(it)
    total = sum(map(sized, seen))
    expected = [
        (key.decode(), amount, round(amount / total, 4), len({it.partition for it in seen if it.key == key}))
        for key, amount in sorted(amounts.items(), key=lambda it: (-it[1], it[0]))[:25]
    ]
    result = here("skew", "--metric", "bytes", "--top", "25", "--output", "json", "--fail-if", "share>99%")
    assert [(it["key"], it["bytes"], it["share"], it["partitions"]) for it in result.rows] == expected
    assert f"{sum(it.key is None for it in seen)} records without one" in result.err
    assert here("skew", "--fail-if", "share>20%", "--top", "3").status == 6


def test_skew_of_partitions_and_topics(spark: SparkSession, known_topic: KnownTopic) -> None:
    found = skew.run(spark, source_of(known_topic), 1, as_hex=True)
    assert found.keys.rows[0]["key"] == "0x" + b"hot".hex()
    seen = [known_topic.seen(partition) for partition in range(3)]
    keys = [Counter(it.key for it in records if it.key is not None) for records in seen]
    hottest = [max((count, key) for key, count in counts.items()) for counts in keys]
    assert [
        (row["partition"], row["records"], row["bytes"], row["keys"], row["hottest_key"], row["hottest_share"])
        for row in found.partitions.rows
    ] == [
        (n, len(it), sum(map(sized, it)), len(keys[n]), "0x" + key.hex(), count / len(it))
        for n, (it, (count, key)) in enumerate(zip(seen, hottest, strict=True))
    ]
    [topic] = found.topics.rows
    counts = [len(it) for it in seen]
    apart = sum(abs(a - b) for a in counts for b in counts)
    assert topic["gini"] == pytest.approx(apart / (2 * 3 * sum(counts)), abs=1e-4)
    everywhere = Counter(key for counts in keys for key in counts)
    assert (topic["keys"], topic["spread_keys"]) == (len(everywhere), sum(n > 1 for n in everywhere.values()))
    assert topic["keyless"] == sum(it.key is None for records in seen for it in records)
    assert topic["max_over_mean"] == max(counts) * 3 / sum(counts)


def test_skew_of_a_topic_without_keys(spark: SparkSession, our_kafka: Kafka) -> None:
    topic = topic_with(our_kafka, 3, 1)
    found = skew.run(spark, KafkaSource({"bootstrap.servers": our_kafka.bootstrap_servers}, {topic: None}))
    assert found.keys.rows == []
    assert [(row["records"], row["keys"], row["hottest_key"]) for row in found.partitions.rows] == [
        (3, 0, None),
        (1, 0, None),
    ]
    assert found.topics.rows[0]["keyless"] == 4


# --- profile


def percentile(sizes: Iterable[int], percent: int) -> int:
    ordered = sorted(sizes)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def test_a_profile_is_independent_of_the_ranges(spark: SparkSession, known_topic: KnownTopic) -> None:
    found = profile.run(spark, source_of(known_topic, minPartitions="7"))
    seen = known_topic.seen()
    keys = [len(it.key) for it in seen if it.key is not None]
    values = [len(it.value) for it in seen if it.value is not None]
    times = [[it.timestamp_ms for it in known_topic.seen(partition)] for partition in range(3)]
    back = max(max(ms[: place + 1]) - now for ms in times for place, now in enumerate(ms))
    [row] = found.topics.rows
    assert row == {
        "topic": known_topic.name,
        "records": len(seen),
        "null_keys": sum(it.key is None for it in seen),
        "null_values": sum(it.value is None for it in seen),
        "tombstones": sum(it.value is None and it.key is not None for it in seen),
        "empty_values": sum(it.value == b"" for it in seen),
        "key_bytes": sum(keys),
        "key_min": min(keys),
        "key_max": max(keys),
        "key_avg": sum(keys) / len(keys),
        **{f"key_p{n}": percentile(keys, n) for n in (50, 90, 99)},
        "value_bytes": sum(values),
        "value_min": min(values),
        "value_max": max(values),
        "value_avg": sum(values) / len(values),
        **{f"value_p{n}": percentile(values, n) for n in (50, 90, 99)},
        "out_of_order": sum(after < before for ms in times for before, after in pairwise(ms)),
        "most_back_ms": back,
        "timeless": 0,
        "oldest": iso(min(map(min, times))),
        "newest": iso(max(map(max, times))),
    }
    assert row["out_of_order"] > 50
    assert row["most_back_ms"] > 0


def documents(known: KnownTopic) -> Iterator[tuple[Known, Any]]:
    for it in known.seen():
        try:
            yield it, json.loads((it.value or b"\xff").decode())
        except ValueError:
            continue


def test_profile_of_json_fields(here: Run, known_topic: KnownTopic) -> None:
    objects = [(it.timestamp_ms, document) for it, document in documents(known_topic) if isinstance(document, dict)]
    result = here("profile", "--fields", "--output", "json")
    rows = {row["field"]: row for row in result.rows}
    assert set(rows) == {"id", "amount", "currency", "note", "note.by", "note.tags", "note.tags[]", "paid"}
    assert rows["amount"]["types"] == Counter(
        "number" if isinstance(document["amount"], float) else "string"
        for _, document in objects
        if "amount" in document
    )
    assert {name for name, row in rows.items() if row["drift"]} == {"amount"}
    turned = min(
        (it.timestamp_ms, it.partition, it.offset)
        for it, document in documents(known_topic)
        if isinstance(document, dict) and isinstance(document.get("amount"), str)
    )
    since = f"string since {iso(turned[0])} ({turned[1]}:{turned[2]})"
    assert f"{known_topic.name}: amount was number, {since}" in result.err
    for name in ("id", "amount", "currency", "note", "paid"):
        having = [(at, document) for at, document in objects if name in document]
        row = rows[name]
        assert row["share"] == round(len(having) / len(objects), 4)
        assert row["nulls"] == sum(document[name] is None for _, document in having)
        assert (row["first_seen"], row["last_seen"]) == (iso(min(having)[0]), iso(max(at for at, _ in having)))
    assert rows["note.tags[]"]["records"] == sum(bool(it.get("note", {}).get("tags")) for _, it in objects)
    values = [it for it in known_topic.seen() if it.value is not None]
    broken = len(values) - sum(it.value is not None for it, _ in documents(known_topic))
    assert f"{len(values):,} values parsed: " in result.err
    assert f"{broken:,} not JSON" in result.err


def test_a_sample_of_values_does_not_change_other_counts(spark: SparkSession, known_topic: KnownTopic) -> None:
    found = profile.run(spark, source_of(known_topic), fields=True, sample=0.25)
    [row] = found.topics.rows
    seen = known_topic.seen()
    assert row["records"] == len(seen)
    valued = [it for it in seen if it.value is not None]
    assert row["looked_at"] == sum(
        bool(is_chosen(known_topic.name, it.partition, np.array(it.offset), 0.25)) for it in valued
    )
    assert 0.15 < row["looked_at"] / len(valued) < 0.35


# --- the page, in a browser


def test_pages_are_drawn_in_a_browser_without_a_network(here: Run, known_topic: KnownTopic, tmp_path: Path) -> None:
    for name, words, charts in (
        ("throughput", ("--by", "partition"), 2),
        ("skew", (), 2),
        ("profile", ("--fields",), 3),
    ):
        page = tmp_path / f"{name}.html"
        result = here(name, *words, "--report", str(page))
        assert result.status == 0, result.err
        assert f"page written to {page}" in result.err
        dom: Dom = rendered(page)
        assert dom.title == f"kcli spark {name}: {known_topic.name}"
        assert dom.charts == charts
        assert not dom.failures
        if name == "skew":
            assert "hot" in dom.chart_texts
            assert dom.bars == 20 + 3
        if name == "throughput":
            assert dom.lines == 2 * 3
