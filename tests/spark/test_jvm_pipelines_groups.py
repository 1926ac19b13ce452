"""Lag history, offset snapshots and SQL agree with plain loops over the same commits and records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kcli.errors import NotFound
from kcli.spark.deploy.spark_errors import translate_error
from kcli.spark.pipelines import group_offsets, sql
from kcli.spark.pipelines.source import KafkaSource
from kcli.spark.pipelines.sql_text import split_statements
from kcli.text import format_time
from tests.cli.fake import Result, run_kcli
from tests.real_kafka import Kafka
from tests.spark.browser import rendered
from tests.spark.commit_history import BASE_MS, MINUTE_MS, CommitHistory, make_commit_history
from tests.spark.groups import committed, topic_with
from tests.spark.known_topic import KnownTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., Result]


@pytest.fixture
def here(spark: SparkSession, real_kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`kcli spark NAME ...` in the session of the tests."""

    @contextmanager
    def ours(*_: object, preflight: Callable[[], object], **__: object) -> Iterator[SparkSession]:
        preflight()
        try:
            yield spark
        except Exception as error:
            raise translate_error(error) from error

    monkeypatch.setattr("kcli.cli.spark.session.spark_session", ours)
    address = real_kafka.bootstrap_servers
    return lambda *words, **more: run_kcli("spark", *words, "-b", address, **more)


# --- lag-history


@pytest.fixture(scope="module")
def history(real_kafka: Kafka, known_topic: KnownTopic) -> CommitHistory:
    """Created after the known topic, whose group has created the commit log."""
    return make_commit_history(real_kafka)


TIMES = [BASE_MS + minutes * MINUTE_MS for minutes in range(0, 121, 4)]
SPAN = ("--since", format_time(TIMES[0]), "--until", format_time(TIMES[-1]), "--every", "4m", "-O", "json")


def plain_lags(history: CommitHistory) -> Iterator[dict[str, Any]]:
    """Return the lag by time, group, topic and partition."""
    for group in history.groups:
        for topic, partition in ((history.topic, 0), (history.topic, 1), (history.topic, 2), (history.gone, 0)):
            for at in TIMES:
                offset = history.committed(group, topic, partition, at)
                if offset is not None:
                    end = None if topic == history.gone else history.end(partition, at)
                    row = {"time": format_time(at), "group": group, "topic": topic, "partition": partition}
                    lag = None if end is None or offset > end else end - offset
                    yield {**row, "lag": lag, "committed": offset, "end": end}


def test_lag_history_of_each_partition(here: Run, history: CommitHistory) -> None:
    result = here("lag-history", "--groups", ",".join(history.groups), "--by", "partition", *SPAN)
    found = [{name: row[name] for name in row if name != "committed_at"} for row in result.rows]
    expected = list(plain_lags(history))
    order = ("group", "topic", "partition", "time")
    assert found == sorted(expected, key=lambda row: tuple(row[name] for name in order))
    lags = [row["lag"] for row in expected if row["topic"] == history.topic]
    assert None in lags
    assert max(lag or 0 for lag in lags) > 50
    assert f"topic {history.gone} does not exist" in result.err


def test_lag_history_of_groups_with_threshold_and_page(here: Run, history: CommitHistory, tmp_path: Path) -> None:
    sums: dict[tuple[str, str], list[int]] = {}
    for row in plain_lags(history):
        total = sums.setdefault((row["group"], row["time"]), [0, 0, 0])
        for place, more in enumerate((row["lag"] or 0, 1, row["lag"] is None)):
            total[place] += more
    page = tmp_path / "lag.html"
    words = ("--groups", ",".join([*history.groups, "nobody"]), *SPAN, "--report", str(page), "--fail-if", "lag>9000")
    result = here("lag-history", *words)
    assert here("lag-history", "--groups", "nobody", *SPAN).status == 3
    assert here("lag-history", "no-such", *SPAN).status == 3
    found = {(it["group"], it["time"]): [it["lag"] or 0, it["partitions"], it["unknown"]] for it in result.rows}
    assert found == sums
    assert f"group nobody has no remaining commit before {format_time(TIMES[-1])}" in result.err
    assert f'<p class="of">groups {", ".join(history.groups)}, nobody; {format_time(TIMES[0])} to ' in page.read_text()
    dom = rendered(page)
    assert (dom.charts, dom.lines, dom.failures) == (1, 2, [])
    limited = here("lag-history", history.topic + ":0", *words[:-4], "--where", "lag > 30", "--fail-if", "max_lag>30")
    assert limited.status == 6
    expected = {
        (it["group"], it["time"]) for it in plain_lags(history) if it["partition"] == 0 and (it["lag"] or 0) > 30
    }
    assert {(it["group"], it["time"]) for it in json.loads(limited.out)["items"]} == {
        it for it in expected if it[0] in history.groups
    }


# --- group-offsets


def commit(kafka: Kafka, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "enable.auto.commit": False})
    places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    for place in consumer.commit(offsets=places, asynchronous=False):
        assert place.error is None
    consumer.close()


def test_a_snapshot_is_accepted_by_offsets_apply(here: Run, known_topic: KnownTopic, tmp_path: Path) -> None:
    kafka, ends = known_topic.kafka, known_topic.ends
    group, saved, later = kafka.new_name("snapshot"), tmp_path / "then.json", tmp_path / "then.csv"
    first = {0: 17, 1: ends[1], 2: 50}
    commit(kafka, group, known_topic.name, first)
    [row] = here("group-offsets", "--groups", group, "--to", str(saved), "-O", "json").rows
    lag = sum(ends[partition] - offset for partition, offset in first.items())
    assert (row["group"], row["state"], row["partitions"], row["lag"]) == (group, "Empty", 3, lag)

    commit(kafka, group, known_topic.name, {0: 400, 2: 45})
    words = ("--groups", group, "--diff", str(saved), "--to", str(later), "-O", "json")
    result = here("group-offsets", *words)
    assert [(it["partition"], it["change"], it["moved"], it["lag"]) for it in result.rows] == [
        (0, "forward", 383, ends[0] - 400),
        (2, "back", -5, ends[2] - 45),
    ]
    assert all(it["per_s"] * it["moved"] > 0 for it in result.rows)
    assert "1 of 3 positions have not moved" in result.err
    assert here("group-offsets", *words, "--fail-if", "moved=0").status == 6

    document = json.loads(saved.read_text())
    document["items"].append({**document["items"][0], "partition": 7})
    more = tmp_path / "more.json"
    more.write_text(json.dumps(document))
    result = here("group-offsets", *words[:2], "--diff", str(more), "--where", "partition <> 0", "-O", "json")
    assert [(it["partition"], it["change"]) for it in result.rows] == [(2, "back"), (7, "gone")]
    result = here("group-offsets", *words[:2], "--diff", str(more), "--where", "lag >= 0", "-O", "json")
    assert [(it["partition"], it["change"]) for it in result.rows] == [(0, "forward"), (2, "back")]

    address = known_topic.kafka.bootstrap_servers
    for file, expected in ((saved, first), (later, {0: 400, 1: ends[1], 2: 45})):
        applied = run_kcli("offsets", "apply", str(file), "--execute", "-b", address, environ={"HOME": str(tmp_path)})
        assert applied.status == 0, applied.err
        assert {partition: offset for partition, (offset, _) in committed(kafka, group).items()} == expected


def test_a_misspelled_topic_is_not_found(spark: SparkSession, known_topic: KnownTopic) -> None:
    """With a remote server, nothing is checked before Spark runs."""
    kafka, name = {"bootstrap.servers": known_topic.kafka.bootstrap_servers}, known_topic.name
    for topics, words in (({name: None, "no-such": None}, "topic no-such does"), ({name: [0, 99]}, f"{name}-99")):
        with pytest.raises(Exception, match=words) as raised:
            group_offsets.run(spark, KafkaSource(kafka, topics), [known_topic.group])
        assert isinstance(translate_error(raised.value), NotFound)


def test_lag_of_the_known_group(here: Run, known_topic: KnownTopic) -> None:
    only = ("--where", "lag > 0", "--groups", known_topic.group)
    rows = here("group-offsets", known_topic.name, *only, "-O", "json").rows
    assert {row["partition"]: row["lag"] for row in rows} == {
        partition: known_topic.ends[partition] - offset
        for partition, offset in known_topic.committed.items()
        if known_topic.ends[partition] > offset
    }


# --- sql


def test_sql_joins_topics_batches_and_lag(here: Run, known_topic: KnownTopic) -> None:
    name = known_topic.name
    text = f"""
        -- topic('not this one')
        SELECT r.partition, r.records, r.bytes, b.records AS counted, l.lag, 'topic(''no'')' AS words,
            l.partition
        FROM (SELECT partition, count(*) AS records, sum(value_size) AS bytes FROM topic('{name}') GROUP BY 1) r
        JOIN (SELECT partition, sum(count) AS records FROM batches('{name}') WHERE NOT is_control GROUP BY 1) b
            USING (partition)
        JOIN lag l ON l.partition = r.partition AND l.topic = '{name}' AND l.group = '{known_topic.group}'
        ORDER BY 1"""
    rows = here("sql", text, "-O", "json").rows
    seen = [known_topic.seen(partition) for partition in range(3)]
    # The batch with deleted records is still complete.
    assert [(it["partition"], it["records"], it["bytes"], it["lag"]) for it in rows] == [
        (n, len(it), sum(len(r.value or b"") for r in it), known_topic.ends[n] - known_topic.committed[n])
        for n, it in enumerate(seen)
    ]
    assert [it["counted"] - it["records"] for it in rows] == [0, 0, 15]
    assert rows[0]["words"] == "topic('no')"
    assert [it["partition_2"] for it in rows] == [0, 1, 2]


def test_sql_from_a_file_with_a_row_limit(here: Run, known_topic: KnownTopic, tmp_path: Path) -> None:
    name, script = known_topic.name, tmp_path / "script.sql"
    script.write_text(
        f"CREATE TEMP VIEW pipe3_keys AS SELECT key, offset FROM topic('{name}:1', from => 'earliest');\n"
        "SELECT CAST(key AS STRING) AS k, count(*) AS n FROM pipe3_keys GROUP BY 1 ORDER BY n DESC, k;\n"
        "DROP VIEW pipe3_keys; SELECT count(*) AS groups FROM groups\n"
    )
    result = here("sql", "-f", str(script), "--show", "3", "-O", "jsonl")
    assert result.status == 0, result.err
    *keys, groups = [json.loads(line) for line in result.text.splitlines()]
    counts = Counter(it.key for it in known_topic.seen(1) if it.key is not None)
    assert [(it["k"], it["n"]) for it in keys] == [
        (key.decode(), n) for key, n in sorted(counts.items(), key=lambda it: (-it[1], it[0]))[:3]
    ]
    assert "first 3 rows shown" in result.err
    assert groups["groups"] >= 1


def test_each_statement_plans_anew(spark: SparkSession, real_kafka: Kafka) -> None:
    topic = topic_with(real_kafka, 5, 2)
    source = KafkaSource({"bootstrap.servers": real_kafka.bootstrap_servers}, {topic: None})
    script = f"""CREATE TEMP VIEW pipe3_then AS SELECT offset FROM topic('{topic}');
        SELECT count(*) AS n FROM pipe3_then; SELECT count(*) AS n FROM topic('{topic}');
        SELECT count(*) AS n FROM pipe3_then; DROP VIEW pipe3_then"""
    found = []
    for answer in sql.run(spark, split_statements(script), lambda _: source):
        found.append(answer.result.rows[0]["n"])
        if len(found) == 1:
            producer = real_kafka.ordered_producer()
            producer.produce(topic, b"one more")
            assert producer.flush(30) == 0
    assert found == [7, 8, 7]


def test_sql_errors_are_one_line_with_the_usage_status(here: Run, known_topic: KnownTopic) -> None:
    for text, words in (
        (f"SELECT nothing FROM topic('{known_topic.name}')", "nothing"),
        ("SELEC 1", "SELEC"),
        ("SELECT * FROM no_such_table", "no_such_table"),
    ):
        result = here("sql", text)
        assert result.status == 2, result.err
        assert words in result.err
        assert len(result.err.strip().splitlines()) == 1
