"""Gaps, duplicates and comparisons of the known topic agree with plain loops over its records.

The commands run with real command lines, but in the shared session of the tests.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kcli.spark.pipelines import compare, duplicates, throughput
from kcli.spark.pipelines.duplicates import DuplicateOptions
from kcli.spark.pipelines.result import collect
from kcli.spark.pipelines.source import KafkaSource, load
from kcli.text import format_time
from tests.cli.fake import Result
from tests.real_kafka import Kafka
from tests.spark.known_topic import ABORTED, COMPACTED, DELETED_BEFORE, MINUTE_MS, Known, KnownTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., Result]


# --- gaps


def kinds_of(known: KnownTopic, partition: int, *, committed: bool = True) -> dict[int, str]:
    """Return the kind of each offset without a record."""
    kinds = dict.fromkeys(known.markers[partition], "control")
    for it in known.written:
        if it.partition == partition and it.fate == COMPACTED:
            kinds[it.offset] = "compaction"
        if it.partition == partition and it.fate == ABORTED and committed:
            kinds[it.offset] = "aborted"
    if partition == 2:
        kinds |= dict.fromkeys(range(DELETED_BEFORE), "retention")
    return kinds


def gaps_of(kinds: dict[int, str]) -> list[tuple[int, int, str]]:
    runs = groupby(enumerate(sorted(kinds.items())), key=lambda it: (it[1][1], it[1][0] - it[0]))
    found = [(kind, [offset for _, (offset, _) in run]) for (kind, _), run in runs]
    return [(offsets[0], offsets[-1], kind) for kind, offsets in found]


def test_gaps_and_kinds_are_independent_of_the_ranges(here: Run, known_topic: KnownTopic) -> None:
    expected = [(p, *gap) for p in range(3) for gap in gaps_of(kinds_of(known_topic, p))]
    assert {kind for *_, kind in expected} == {"compaction", "control", "aborted", "retention"}
    result = here("gaps", "--by", "gap", "-O", "json", "--option", "minPartitions=11")
    rows = result.rows
    assert [(it["partition"], it["first_offset"], it["last_offset"], it["kind"]) for it in rows] == expected
    assert all(it["offsets"] == it["last_offset"] - it["first_offset"] + 1 for it in rows)
    total = sum(last - first + 1 for _, first, last, _ in expected)
    assert f"{total:,} offsets without a record in 3 partitions" in result.err
    largest = sorted(expected, key=lambda it: (it[1] - it[2], it))[:3]
    top = here("gaps", "--by", "gap", "--top", "3", "-O", "json", "--where", "kind <> 'nothing'").rows
    assert [(it["partition"], it["first_offset"], it["last_offset"], it["kind"]) for it in top] == sorted(largest)


def test_gaps_of_each_partition(here: Run, known_topic: KnownTopic) -> None:
    words = ("-X", "isolation.level=read_uncommitted", "--min", "2", "-O", "json", "--fail-if", "unexplained")
    rows = here("gaps", *words).rows
    for partition, row in enumerate(rows):
        gaps = gaps_of(kinds_of(known_topic, partition, committed=False))
        large = [(last - first + 1, kind) for first, last, kind in gaps if last > first]
        amounts = Counter[str]()
        for size, kind in large:
            amounts[kind] += size
        assert (row["partition"], row["gaps"], row["offsets"]) == (partition, len(large), amounts.total())
        assert row["largest"] == max((size for size, _ in large), default=0)
        assert {kind: row[kind] for kind in amounts} == amounts
        assert row["aborted"] == row["control"] == row["unexplained"] == 0
    failed = here("gaps", "--fail-if", "aborted>1", "--from", json.dumps({known_topic.name: {"0": 0, "1": 0, "2": 30}}))
    assert failed.status == 6, failed.err
    assert f"where topic is {known_topic.name}, partition is 2" in failed.err
    retained = [line.split() for line in failed.text.splitlines() if line.startswith(known_topic.name)][2]
    assert str(DELETED_BEFORE - 30) in retained


# --- duplicates


class Copies(NamedTuple):
    """A group of equal records, in time order."""

    records: list[Known]

    def repeats(self, within_ms: float = float("inf")) -> int:
        return sum(b.timestamp_ms - a.timestamp_ms <= within_ms for a, b in pairwise(self.records))


def copies_of(known: KnownTopic, same: Callable[[Known], Hashable], *, committed: bool = False) -> dict[Any, Copies]:
    groups: dict[Any, list[Known]] = defaultdict(list)
    for it in sorted(known.seen(committed=committed), key=lambda it: (it.timestamp_ms, it.partition, it.offset)):
        groups[same(it)].append(it)
    return {key: Copies(records) for key, records in groups.items()}


def test_duplicates_by_key_within_a_time(here: Run, known_topic: KnownTopic) -> None:
    groups = copies_of(known_topic, lambda it: it.key)
    keyless = len(groups.pop(None).records)
    for within in (None, 2 * MINUTE_MS):
        repeats = {key: group.repeats(within or float("inf")) for key, group in groups.items()}
        expected = sorted(((-count, key) for key, count in repeats.items() if count))[:30]
        words = () if within is None else ("--within", "2m")
        result = here("duplicates", "--top", "30", "-O", "json", *words)
        rows = result.rows
        assert [(-it["repeats"], it["key"].encode()) for it in rows] == expected
        for row in rows:
            records = groups[row["key"].encode()].records
            assert (row["copies"], row["partitions"]) == (len(records), len({it.partition for it in records}))
            places = [f"{it.partition}:{it.offset}" for it in (records[0], records[-1])]
            assert [row["first_at"], row["last_at"]] == places
        assert f"{sum(repeats.values())} of {len(known_topic.seen())} records are repeats" in result.err
        assert f"{keyless} records left out" in result.err


def test_duplicates_by_key_and_value_under_read_committed(here: Run, known_topic: KnownTopic) -> None:
    groups = copies_of(known_topic, lambda it: (it.key, it.value), committed=True)
    repeats = {same: group.repeats() for same, group in groups.items()}
    assert any(repeats.values())
    words = ("--by", "value,key", "-X", "isolation.level=read_committed", "-O", "json")
    [row] = here("duplicates", *words, "--summary", "--fail-if", "repeats>100000").rows
    records = len(known_topic.seen(committed=True))
    assert row == {
        "topic": known_topic.name,
        "records": records,
        "left_out": 0,
        "distinct": len(groups),
        "repeated": sum(count > 0 for count in repeats.values()),
        "repeats": sum(repeats.values()),
        "share": round(sum(repeats.values()) / records, 4),
    }
    result = here("duplicates", *words, "--fail-if", "repeats>0")
    assert result.status == 6
    found = Counter((it["key"], it["value_size"], it["repeats"]) for it in json.loads(result.out)["items"])
    sizes = [(key, value, count) for (key, value), count in repeats.items()]
    worst = sorted((count for *_, count in sizes), reverse=True)[:20]
    assert sorted((count for *_, count in found.elements()), reverse=True) == [count for count in worst if count]
    possible = Counter((key and key.decode(), None if value is None else len(value), n) for key, value, n in sizes)
    assert not found - possible


def test_duplicates_by_sequence(
    spark: SparkSession, known_topic: KnownTopic, here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    [row] = here("duplicates", "--by", "sequence", "--summary", "-O", "json").rows
    numbered = sum(it.transactional for it in known_topic.seen())
    assert (row["left_out"], row["distinct"], row["repeats"]) == (row["records"] - numbered, numbered, 0)
    # Brokers reject a repeated sequence number, so the data is synthetic.
    rng = random.Random(3)
    wish = DuplicateOptions("sequence")
    rows = [("t", rng.randrange(2), 7, 0, rng.randrange(40), offset, None) for offset in range(90)]
    rows += [("t", 0, None, None, None, offset, None) for offset in range(90, 100)]
    types = "topic string, partition int, producer_id bigint, producer_epoch int, sequence int, offset bigint"
    frame = spark.createDataFrame(rows, f"{types}, timestamp timestamp")
    assert set(frame.columns) == set(wish.columns)
    monkeypatch.setattr(duplicates, "load", lambda *_: frame)
    found = duplicates.run(spark, KafkaSource({}, {"t": None}), wish, 1000)
    counts = Counter(row[:5] for row in rows if row[4] is not None)
    names = ("topic", "partition", "producer_id", "producer_epoch", "sequence")
    assert {tuple(it[name] for name in names): it["repeats"] for it in found.groups.rows} == {
        same: count - 1 for same, count in counts.items() if count > 1
    }
    assert (found.topics.rows[0]["left_out"], found.topics.rows[0]["distinct"]) == (10, len(counts))


# --- comparisons


class Mirror(NamedTuple):
    kafka: Kafka
    name: str
    records: list[Known]


@pytest.fixture(scope="module")
def mirror(our_kafka: Kafka, known_topic: KnownTopic) -> Mirror:
    """An incomplete mirror on another cluster, in other partitions: records are missing, repeated, or extra."""
    rng = random.Random(5)
    records = []
    for it in known_topic.seen(committed=True):
        fate = rng.randrange(30)
        records += [] if fate == 0 else [it, it] if fate == 1 else [it._replace(value=b"x" * 60)] if fate == 2 else [it]
    rng.shuffle(records)
    topic = our_kafka.create_topic(known_topic.name, 2)
    producer = our_kafka.ordered_producer()
    for it in records:
        producer.produce(topic, it.value, it.key, it.partition % 2, timestamp=it.timestamp_ms)
    assert producer.flush(60) == 0
    return Mirror(our_kafka, topic, records)


def totals(one: Iterable[Hashable], two: Iterable[Hashable]) -> dict[str, int]:
    first, second = Counter(one), Counter(two)
    return {
        "first": first.total(),
        "second": second.total(),
        "same": sum(first[it] == second[it] for it in first | second),
        "different": sum(first[it] != second[it] for it in first | second),
        "only_first": len(first.keys() - second.keys()),
        "only_second": len(second.keys() - first.keys()),
        "lacking": (first - second).total(),
        "extra": (second - first).total(),
    }


def test_compare_a_mirror_on_another_cluster(here: Run, known_topic: KnownTopic, mirror: Mirror) -> None:
    seen = known_topic.seen(committed=True)
    common = ("--bootstrap2", mirror.kafka.bootstrap_servers, "-X", "isolation.level=read_committed", "-O", "json")
    kinds = [[(it.timestamp_ms, it.key, it.value) for it in its] for its in (seen, mirror.records)]
    [row] = here("compare", *common, "--by", "key,value,timestamp", "--summary").rows
    assert row == totals(*kinds)
    assert all(row.values()), "there should be some of everything"
    first, second = Counter(it.key for it in seen), Counter(it.key for it in mirror.records)
    apart = {key: second[key] - first[key] for key in first | second if first[key] != second[key]}
    rows = here("compare", *common, "--by", "key", "--top", "1000").rows
    assert {it["key"] and it["key"].encode(): it["difference"] for it in rows} == apart
    assert [abs(it["difference"]) for it in rows] == sorted(map(abs, apart.values()), reverse=True)
    places: dict[bytes | None, str] = {}
    for record in seen:  # in order of partition and offset
        places.setdefault(record.key, f"{record.partition}:{record.offset}")
    assert all(it["first_at"] == places.get(it["key"] and it["key"].encode()) for it in rows)
    assert all((it["second_at"] is None) == (it["second"] == 0) for it in rows)
    cold = [sum(it.key is not None and it.key.startswith(b"cold") for it in its) for its in (seen, mirror.records)]
    failed = here("compare", *common, "--where", "key like 'cold%'", "--summary", "--fail-if", "different")
    [row] = json.loads(failed.out)["items"]
    assert (failed.status, row["first"], row["second"]) == (6, *cold)


def test_a_mirror_without_aborted_records_differs_by_these_only(
    here: Run, known_topic: KnownTopic, mirror: Mirror
) -> None:
    """The mirror was copied by another client, so only aborted records are missing."""
    kafka = known_topic.kafka
    copy = kafka.create_topic(kafka.new_name("copy"), 1)
    producer = kafka.ordered_producer()
    for it in known_topic.seen(committed=True):
        producer.produce(copy, it.value, it.key, 0, timestamp=it.timestamp_ms)
    assert producer.flush(60) == 0
    words = (copy, "--by", "key,value,headers,timestamp", "--fail-if", "different", "-O", "json")
    assert here("compare", *words, "-X", "isolation.level=read_committed").status == 0
    failed = here("compare", *words)
    aborted = [it for it in known_topic.seen() if it.fate == ABORTED]
    assert failed.status == 6
    assert f"{len(aborted)} lacking, 0 extra" in failed.err


# --- times that no calendar has


def test_timestamps_outside_the_calendar_do_not_fail_reports(spark: SparkSession, our_kafka: Kafka) -> None:
    topic = our_kafka.create_topic(our_kafka.new_name("far"), 1, **{"message.timestamp.after.max.ms": str(2**63 - 1)})
    producer = our_kafka.ordered_producer()
    now_ms = 1_767_225_600_000
    for at in (now_ms, now_ms * 1000, now_ms * 1000):
        producer.produce(topic, b"value", b"key", timestamp=at)
        assert producer.flush(60) == 0
    there = {"bootstrap.servers": our_kafka.bootstrap_servers}
    source, nothing = (KafkaSource(there, {it: None}) for it in (topic, our_kafka.new_topic()))
    far = str(now_ms * 1000)
    assert [row["timestamp"] for row in collect(load(spark, source, "records", ["timestamp"])).rows[1:]] == [far, far]
    assert [row["last_seen"] for row in duplicates.run(spark, source, DuplicateOptions()).groups.rows] == [far]
    apart = compare.run(spark, source, nothing, ("timestamp",)).differences
    assert [(row["timestamp"], row["difference"]) for row in apart.rows] == [(far, -2), (format_time(now_ms), -1)]
    windows = throughput.run(spark, source, throughput.ThroughputOptions()).windows
    assert [(row["window"], row["records"]) for row in windows.rows] == [(format_time(now_ms), 1), (far, 2)]
