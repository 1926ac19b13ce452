"""Gaps, duplicates and compare without Spark: the view `gaps`, sources, refused options."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from kcli.consumer.offset_gaps import ABORTED, BETWEEN, COMPACTION, CONTROL, LOST, Gaps
from kcli.errors import ConfigError
from kcli.spark.options import parse_options
from kcli.spark.pipelines.compare import parse_by as parse_compared
from kcli.spark.pipelines.duplicates import parse_by
from kcli.spark.pipelines.gaps import deleted_heads, gap_source
from kcli.spark.pipelines.source import KafkaSource
from kcli.spark.task_ranges import TaskRange
from kcli.spark.views.gaps import _GapBatcher, is_compacted
from kcli.spark.views.registry import read_task
from tests.cli.fake import run_kcli
from tests.real_kafka import Kafka
from tests.spark.views.test_views import options_for, produce, view

NOBODY = "127.0.0.1:1"


# --- the view


def test_a_topic_without_gaps_has_no_rows(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    produce(any_kafka, topic, 0, 35)
    assert view(any_kafka, "gaps", subscribe=topic) == []


def test_records_deleted_before_a_task_reads_are_retention(
    any_kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = any_kafka.new_topic()
    produce(any_kafka, topic, 0, 35)
    delete_before(any_kafka, topic, 23)
    options = options_for(any_kafka, "gaps", subscribe=topic, failOnDataLoss="false")
    [batch] = read_task(options, [TaskRange(topic, 0, 4, 30)])
    assert batch.to_pylist() == [
        {"topic": topic, "partition": 0, "first_offset": 4, "last_offset": 22, "offsets": 19, "kind": "retention"}
    ]
    assert "19 offsets are lost" in capsys.readouterr().err


def delete_before(kafka: Kafka, topic: str, offset: int) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    [deleted] = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    assert deleted.result(30).low_watermark == offset


def test_missing_batches_are_explained_in_compacted_topics_only(
    any_kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    for policy, compacted in (("compact", True), ("compact,delete", True), ("delete", False)):
        topic = any_kafka.create_topic(any_kafka.new_name(policy.replace(",", "-")), 1, **{"cleanup.policy": policy})
        assert is_compacted(options_for(any_kafka, "gaps", subscribe=topic), topic) == compacted
    assert not capsys.readouterr().err
    options = options_for(any_kafka, "gaps", subscribe="not-there")
    assert not is_compacted(options, "not-there")
    assert "not-there: cannot read cleanup.policy" in capsys.readouterr().err


def test_gap_rows_have_the_selected_columns() -> None:
    options = parse_options(
        {"kafka.bootstrap.servers": NOBODY, "subscribe": "t", "view": "gaps", "columns": "offsets,kind"}
    )
    kinds = [CONTROL, ABORTED, COMPACTION, LOST, BETWEEN]
    gaps = Gaps(np.arange(0, 50, 10), np.arange(0, 55, 11), np.array(kinds))
    [batch] = _GapBatcher(options, TaskRange("t", 0, 0, 100)).batches(gaps)
    names = ["control", "aborted", "compaction", "retention", "unexplained"]
    assert batch.to_pylist() == [{"offsets": n + 1, "kind": name} for n, name in enumerate(names)]


# --- gaps


def test_deleted_heads_count_from_the_requested_start() -> None:
    def heads(text: str, until: str = "latest", **more: str) -> list[tuple[int, int, int]]:
        bounds = {"start": {"startingOffsets": text}, "until": {"endingOffsets": until}}
        source = KafkaSource({"bootstrap.servers": NOBODY}, {"t": None}, **bounds, more=more)
        options = parse_options(source.options("gaps"), stream=None)
        starts = {("t", 0): 0, ("t", 1): 40, ("t", 2): 7, ("t", 3): None}
        heads = deleted_heads(options.starting.at, options.ending.at, starts)
        return [(head["partition"], head["first_offset"], head["last_offset"]) for head in heads]

    assert heads("earliest") == [(1, 0, 39), (2, 0, 6)]
    assert heads('{"t": {"0": 0, "1": 30, "2": 90, "3": -2}}') == [(1, 30, 39)]
    assert heads('{"t": {"0": -2, "1": -2, "2": -1, "3": 0}}') == [(1, 0, 39)]
    assert heads("group:g") == []
    assert heads('{"t": {"0": 0, "1": 10, "2": 0}}', '{"t": {"0": 0, "1": 15, "2": -1}}') == [(1, 10, 14), (2, 0, 6)]
    assert heads("earliest", '{"t": {"0": 5, "1": 90, "2": 5}}') == [(1, 0, 39), (2, 0, 4)]
    # The user's own options take precedence, in any case, and by their own precedence.
    assert heads("earliest", startingoffsets='{"t": {"1": 38, "2": 7}}') == [(1, 38, 39)]
    assert heads("earliest", STARTINGTIMESTAMP="1700000000000") == []
    assert heads("earliest", endingOffsets='{"t": {"1": 3, "2": 0}}') == [(1, 0, 2)]


def test_gaps_default_to_read_committed() -> None:
    def level(kafka: dict[str, str], **more: str) -> Any:
        options = gap_source(KafkaSource({"bootstrap.servers": NOBODY, **kafka}, {"t": None}, more=more)).options(
            "gaps"
        )
        return parse_options(options).kafka["isolation.level"]

    assert level({}) == "read_committed"
    assert level({"isolation.level": "read_uncommitted"}) == "read_uncommitted"
    assert level({}, **{"Kafka.Isolation.Level": "read_uncommitted"}) == "read_uncommitted"


def test_log_starts_are_read_without_ignored_options() -> None:
    more = {"StartingOffsets": "earliest", "minPartitions": "3", "failOnDataLoss": "false"}
    source = KafkaSource({"bootstrap.servers": NOBODY}, {"t": None}, more=more)
    assert source.options("offsets") == {"kafka.bootstrap.servers": NOBODY, "view": "offsets", "subscribe": "t"}
    assert parse_options(source.options("offsets")).notes == ()
    assert source.options("gaps").items() >= more.items()


# --- what can be compared


def test_fields_of_a_comparison() -> None:
    assert (parse_by("value, key"), parse_by("sequence")) == ("key,value", "sequence")
    assert parse_compared("value,key,") == ("key", "value")
    for parse in (parse_by, parse_compared):
        for wrong in ("", "offset", "key,offset"):
            with pytest.raises(ConfigError, match="--by"):
                parse(wrong)
    with pytest.raises(ConfigError, match="'value' is not valid"):
        parse_by("value")


# --- as they are typed


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("gaps",), "no topic given"),
        (("gaps", "t", "--by", "kind"), "--by: 'kind' is not valid; use partition or gap"),
        (("gaps", "t", "--top", "3"), "--top requires --by gap"),
        (("gaps", "t", "--fail-if", "missing"), "'missing' is unknown; use one of"),
        (("duplicates", "t", "--by", "value"), "--by: 'value' is not valid; use key or key,value or sequence"),
        (
            ("duplicates", "t", "--within", "soon"),
            "--within: 'soon' is not valid; use a duration, such as 30s or 1m30s",
        ),
        (("duplicates", "t", "--fail-if", "share>1"), "'share' is unknown; use one of"),
        (("compare", "t"), "both topics are the same; give a second topic, or --bootstrap2"),
        (("compare", "t:0", "u", "--topic-partition", "v:1"), "instead of --topic-partition"),
        (("compare", "t", "u", "--by", "offset"), "use some of key, value, headers, timestamp, partition"),
        (("compare", "t", "--command-config2", "/no/such/file"), "cannot read properties file /no/such/file"),
        (("compare", "t:0", "u", "--fail-if", "different>some"), "different takes a number such as"),
    ],
)
def test_usage_errors_are_one_line(words: tuple[str, ...], expected: str) -> None:
    result = run_kcli("spark", *words, "-b", NOBODY)
    assert (result.status, result.out) == (2, b"")
    assert expected in result.err
    assert result.err.count("\n") == 1


def test_dry_runs(our_kafka: Kafka) -> None:
    topics = [our_kafka.new_topic(2), our_kafka.new_topic()]
    for topic in topics:
        produce(our_kafka, topic, 0, 20)
    common = ("-b", our_kafka.bootstrap_servers, "--dry-run", "-O", "json")
    for name in ("gaps", "duplicates"):
        result = run_kcli("spark", name, topics[0], *common)
        assert (result.status, [it["end"] for it in json.loads(result.out)["items"]]) == (0, [20, 0])
    assert run_kcli("spark", "gaps", "not-there", *common).status == 3
    offsets = json.dumps({topics[0]: {"0": 5, "1": 0}, topics[1]: {"0": 7}})
    result = run_kcli("spark", "compare", *topics, "--from", offsets, *common)
    assert result.status == 0, result.err
    rows = json.loads(result.out)["items"]
    assert sorted((it["topic"], it["start"], it["end"]) for it in rows) == sorted(
        [(topics[0], 5, 20), (topics[0], 0, 0), (topics[1], 7, 20)]
    )


def test_a_dry_run_of_one_topic_on_two_clusters(our_kafka: Kafka, tmp_path: Any) -> None:
    topic = our_kafka.new_topic()
    produce(our_kafka, topic, 0, 20)
    there = our_kafka.bootstrap_servers.replace("127.0.0.1", "localhost")
    (tmp_path / "second").write_text(f"bootstrap.servers={there}\n")
    words = ("spark", "compare", f"{topic}:0", "-b", our_kafka.bootstrap_servers, "--dry-run")
    for option in (("--bootstrap2", there), ("--command-config2", str(tmp_path / "second"))):
        result = run_kcli(*words, *option)
        assert result.status == 0, result.err
        assert f"{topic} on {there}" in result.text
        assert f"second kafka.bootstrap.servers={there}" in result.err
        assert "2 tasks, at most 40 records" in result.err
