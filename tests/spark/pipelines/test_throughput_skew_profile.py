"""Throughput, skew and profile without Spark: joined counts, pages, thresholds; refused options."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from kcli.cli.spark.charts import bars, binned, largest, lines, series_of, with_zeros
from kcli.cli.spark.findings import TEXTS, parse_threshold, span_of
from kcli.cli.spark.page import Section, as_html, check_page
from kcli.cli.spark.profile import profile_sections
from kcli.cli.spark.results import rounded
from kcli.cli.spark.skew import skew_sections
from kcli.cli.spark.throughput import _findings, throughput_sections
from kcli.errors import ConfigError
from kcli.spark.deploy.ship import by_value
from kcli.spark.pipelines import duplicates, group_offsets, profile, profile_tasks, skew
from kcli.spark.pipelines.lag_grid import SERIES
from kcli.spark.pipelines.lag_history import row_columns
from kcli.spark.pipelines.profile import _task, check_sample, drift_note, drifts, join_profile, percentile
from kcli.spark.pipelines.profile_tasks import MOST_FIELDS, is_chosen, profile_batches
from kcli.spark.pipelines.result import Result, ms_of
from kcli.spark.pipelines.skew import gini
from kcli.spark.pipelines.source import KafkaSource
from kcli.spark.pipelines.throughput import (
    ThroughputOptions,
    _to_result,
    complete_windows,
    median,
    parse_by,
    summarize,
    summary_columns,
    window_columns,
)
from tests.cli.fake import run_kcli
from tests.real_kafka import Kafka
from tests.spark.browser import rendered

EVIL = "</script><script>document.title='broken'</script><img src=http://example.invalid/x>"


# --- throughput


def test_the_median_counts_empty_windows() -> None:
    for values, zeros in (([5.0, 1, 3], 0), ([5.0, 1, 3], 1), ([5.0, 1, 3], 2), ([5.0, 1, 3], 3), ([2.0], 9), ([], 0)):
        expected = statistics.median([*values, *[0.0] * zeros]) if values or zeros else 0
        assert median(values, zeros=zeros) == expected


def window(minute: int, records: int) -> dict[str, Any]:
    return {
        "window": f"2026-01-01T00:{minute:02}:00.000Z",
        "topic": "t",
        "records": records,
        "bytes": 10 * records,
        "records_per_s": records / 60,
        "bytes_per_s": records / 6,
    }


def test_a_summary_is_over_all_windows_from_the_first_to_the_last() -> None:
    rows = [window(0, 600), window(1, 60), window(4, 120)]
    [row] = summarize(Result(["window"], [*rows, {**window(0, 7), "window": None}]), ThroughputOptions()).rows
    assert row["windows"] == 5
    assert (row["records"], row["bytes"]) == (780, 7800)
    assert (row["mean_records_per_s"], row["median_records_per_s"], row["peak_records_per_s"]) == (2.6, 1.0, 10.0)
    assert (row["peak_at"], row["last_window"]) == (rows[0]["window"], rows[2]["window"])


def test_records_without_a_timestamp_have_no_rate_and_count_once() -> None:
    counts = {"topic": "t", "records": 6000, "bytes": 600, "batches": 4, "astride": 0, "uncounted": 4}
    timed = [{**counts, "window": start, "uncounted": 2, "astride": 1} for start in range(0, 60_000, 12_000)]
    found = _to_result([{**counts, "window": None}, *timed], ThroughputOptions(60_000, 12_000))
    assert (found.uncounted, found.astride) == (4 + 2, 1)
    [timeless, first, *_] = found.windows.rows
    assert (timeless["window"], timeless["records"]) == (None, 6000)
    assert (timeless["records_per_s"], timeless["bytes_per_s"]) == (None, None)
    assert (first["records_per_s"], first["bytes_per_s"]) == (100, 10)
    output = _findings(found, ThroughputOptions(60_000, 12_000), summary=True).notes
    assert "6,000 records without a timestamp are in no window and not in the summary" in output
    assert parse_threshold("records_per_s>50", found.windows.columns).matches([timeless]) == []


def test_a_window_outside_the_calendar_is_counted_and_not_drawn() -> None:
    """Producers that send microseconds for milliseconds."""
    far = {**window(0, 6), "window": "1700000000000000"}
    windows = Result(["window"], [window(0, 600), window(1, 60), far])
    totals = summarize(windows, ThroughputOptions())
    [row] = totals.rows
    assert (row["records"], row["last_window"]) == (666, far["window"])
    assert row["windows"] == (1_700_000_000_000_000 - ms_of(window(0, 1)["window"])) // 60_000 + 1
    [records, *_] = throughput_sections(windows, totals, ThroughputOptions())
    assert list(records.figure.data[0].x) == [it["window"] for it in windows.rows[:2]]
    assert records.text == "1 window outside the calendar left out."


def test_partly_covered_windows_at_both_ends_are_not_drawn() -> None:
    rows = [window(minute, 60) for minute in (0, 1, 2, 5, 9)]
    assert complete_windows(rows, ThroughputOptions()) == rows[1:4]
    assert complete_windows(rows[:3], ThroughputOptions()) == rows[:3], "a line needs two points"
    sliding = ThroughputOptions(window_ms=120_000, slide_ms=60_000)
    assert complete_windows(rows, sliding) == rows[2:4]
    assert complete_windows([], sliding) == []
    totals = summarize(windows := Result(["window"], rows), ThroughputOptions())
    [records, *_] = throughput_sections(windows, totals, ThroughputOptions())
    assert records.figure.data[0].x[0] == rows[1]["window"]
    assert records.text == "Windows at both ends of the range, which may be covered in part, are not drawn."


def test_summary_rows_are_sorted() -> None:
    rows = [
        {**window(n, 60), "topic": topic, "partition": p}
        for n, (topic, p) in enumerate([("b", 2), ("a", 10), ("a", 9)])
    ]
    by = ("topic", "partition")
    totals = summarize(Result([], rows), ThroughputOptions(by=by)).rows
    assert [(row["topic"], row["partition"]) for row in totals] == [("a", 9), ("a", 10), ("b", 2)]
    nulls = [{**window(0, 60), "producer_id": producer} for producer in (7, None, 3)]
    totals = summarize(Result([], nulls), ThroughputOptions(by=("producer_id",))).rows
    assert [row["producer_id"] for row in totals] == [None, 3, 7]


def test_groupings() -> None:
    assert parse_by("partition,topic") == ("topic", "partition")
    assert parse_by("topic, producer") == ("topic", "producer_id")
    assert parse_by("total") == ()
    for wrong in ("", "broker", "topic,total"):
        with pytest.raises(ConfigError, match="use total, or some of topic, partition, producer"):
            parse_by(wrong)


# --- skew


def test_gini_is_half_the_mean_difference_over_the_mean() -> None:
    assert gini([7, 7, 7]) == 0
    assert gini([0, 0, 0, 9]) == 0.75
    assert gini([0, 0]) is None
    assert gini([3] * 7) == 0, "no noise on which --fail-if 'gini>0' would act"
    chance = random.Random(1)
    for _ in range(20):
        amounts = [chance.randrange(100) for _ in range(chance.randrange(1, 30))] + [1]
        apart = sum(abs(a - b) for a in amounts for b in amounts)
        assert gini(amounts) == pytest.approx(apart / (2 * len(amounts) * sum(amounts)), abs=1e-4)


# --- profile


def records(rows: list[tuple[int, int, Any]], partition: int = 0) -> pa.RecordBatch:
    """Return (offset, time in ms, value); the key is as long as the offset is even."""
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array(["t"] * len(rows), pa.string()),
            "partition": pa.array([partition] * len(rows), pa.int32()),
            "offset": pa.array([it[0] for it in rows], pa.int64()),
            "timestamp": pa.array([it[1] * 1000 for it in rows], pa.timestamp("us", "UTC")),
            "key_size": pa.array([None if it[0] % 2 else it[0] for it in rows], pa.int32()),
            "value_size": pa.array([None if it[2] is None else len(it[2]) for it in rows], pa.int32()),
            "value": pa.array([it[2] for it in rows], pa.binary()),
        }
    )


def pieces(rows: list[Any], chance: random.Random) -> Iterator[list[Any]]:
    while rows:
        count = chance.randrange(1, 8)
        yield rows[:count]
        rows = rows[count:]


def test_a_profile_does_not_depend_on_tasks_and_batches() -> None:
    chance = random.Random(2)
    rows = [
        (n * 3 + n % 3, chance.randrange(-1, 50), chance.choice([None, b"", b'{"a": 1}', b'{"a": "x"}', b"no"]))
        for n in range(100)
    ]
    whole = join_profile(profile_batches([records(rows)], 1))
    for _ in range(10):
        tasks = [[records(it) for it in pieces(task, chance)] for task in pieces(rows, chance)]
        chance.shuffle(tasks)
        assert join_profile(part for task in tasks for part in profile_batches(task, 1)) == whole
    times = [at for _, at, _ in rows if at >= 0]
    [row] = whole.topics.rows
    assert row["out_of_order"] == sum(times[n] < times[n - 1] for n in range(1, len(times)))
    assert row["most_back_ms"] == max(max(times[: n + 1]) - at for n, at in enumerate(times))
    assert row["timeless"] == 100 - len(times)


def test_partitions_in_one_batch_are_kept_apart() -> None:
    both = pa.Table.from_batches([records([(0, 5, b"a")]), records([(0, 3, b"bc")], 1)]).combine_chunks().to_batches()
    [row] = join_profile(profile_batches(both, None)).topics.rows
    assert (row["records"], row["out_of_order"], row["value_bytes"]) == (2, 0, 3)


def test_sizes_above_255_are_less_than_one_percent_too_small() -> None:
    sizes = [*range(250, 300), 1000, 4095, 4096, 100_001]
    found = join_profile(profile_batches([records([(n, 0, b"x" * size) for n, size in enumerate(sizes)])], None))
    output = [size for size, count in found.sizes["t", "value"].items() for _ in range(count)]
    assert all(size * 0.99 < it <= size for size, it in zip(sizes, output, strict=True))
    assert output[:6] == sizes[:6]
    assert found.topics.rows[0]["value_max"] == 100_001


def test_json_types_and_drift() -> None:
    values = [
        *(b'{"a.b": 1, "c": [{"d": null}, {"d": 2}]}', b'{"a.b": 1.5, "c": []}', b"[1]", b"NaN", b'{"a": NaN}'),
        *(b"\xff", b"{" * 5000, b'"text"', b"null", b"true", '{"ä": true}'.encode("utf-16")),
    ]
    found = join_profile(profile_batches([records([(n, n, value) for n, value in enumerate(values)])], 1))
    [row] = found.topics.rows
    assert row["json_types"] == {"object": 2, "array": 1, "string": 1, "null": 1, "boolean": 1, "not JSON": 5}
    assert {it["field"]: (it["types"], it["share"]) for it in found.fields.rows} == {
        '"a.b"': ({"integer": 1, "number": 1}, 1.0),
        "c": ({"array": 2}, 1.0),
        "c[]": ({"object": 1}, 0.5),
        "c[].d": ({"integer": 1, "null": 1}, 0.5),
    }
    assert not drifts(["integer", "number", "null"])
    assert drifts(["integer", "string"])


def test_a_drifting_field_has_the_first_place_of_each_type() -> None:
    early = [(0, 60_000, b'{"a": null, "b": 1}'), (1, 90_000, b'{"a": 1, "b": 1.5}'), (2, 30_000, b'{"a": "x"}')]
    late = [(7, 40_000, b'{"a": 2.5}'), (8, 20_000, b'{"b": null}')]
    parts = [*profile_batches([records(late, 1)], 1), *profile_batches([records(early)], 1)]
    rows = {row["field"]: row for row in join_profile(parts).fields.rows}
    assert {name: (it["partition"], it["offset"]) for name, it in rows["a"]["first_of_types"].items()} == {
        "string": (0, 2),
        "number": (1, 7),
        "null": (0, 0),
        "integer": (0, 1),
    }
    assert drift_note(rows["a"]) == "t: a was string, number since 1970-01-01T00:00:40.000Z (1:7)"
    assert drift_note(rows["b"]) is None, "integers are numbers"


def test_the_number_of_fields_is_limited() -> None:
    values = [b'{"id-%d": 1}' % n for n in range(MOST_FIELDS + 5)]
    found = join_profile(profile_batches([records([(n, n, value) for n, value in enumerate(values)])], 1))
    assert len(found.fields.rows) == MOST_FIELDS
    assert found.partial == ["t"]


def test_task_functions_run_without_kcli(tmp_path: Path) -> None:
    with by_value(profile_tasks):
        (tmp_path / "task").write_bytes(cloudpickle.dumps(_task(1)))
    with pa.OSFile(str(tmp_path / "batch"), "wb") as file, pa.ipc.new_file(file, records([]).schema) as writer:
        writer.write_batch(records([(4, 5, b'{"a": 1}')]))
    there = """
import pickle, sys
import numpy as np
import pyarrow as pa
sys.modules["kcli"] = None
from pyspark import cloudpickle
[found] = pickle.load(open("task", "rb"))(iter([pa.ipc.open_file("batch").get_batch(0)]))
print(found.column(0)[0].as_py())
"""
    ran = subprocess.run([sys.executable, "-c", there], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert join_profile([json.loads(ran.stdout)]) == join_profile(profile_batches([records([(4, 5, b'{"a": 1}')])], 1))


def test_a_topic_without_records_has_a_row_of_zeros() -> None:
    [row] = join_profile([], ["t"]).topics.rows
    assert (row["topic"], row["records"], row["value_max"], row["value_p50"], row["oldest"]) == ("t", 0, *[None] * 3)


@pytest.mark.parametrize("share", [0.01, 0.25, 0.5, 0.7, 0.9, 1.0])
@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_sample_has_the_requested_share_for_any_offset_pattern(share: float, step: int) -> None:
    """With transactions of one record each, every second offset is a control record."""
    for first in (0, 1):
        offsets = np.arange(first, 20_000 * step, step)
        assert is_chosen("t", 0, offsets, share).mean() == pytest.approx(share, abs=0.015)
    ones = np.array([bool(is_chosen("t", partition, np.array([0]), share)) for partition in range(500)])
    assert ones.mean() == pytest.approx(share, abs=0.08), "partitions with one record each"
    assert is_chosen("t", 3, offsets[7:8], share) == is_chosen("t", 3, offsets, share)[7]


def test_a_lone_surrogate_in_a_field_name_is_escaped(tmp_path: Path) -> None:
    names = [b"\\ud800", b"\\ud83d\\ude00", b"a b"]
    parts = profile_batches([records([(0, 0, b'{"' + b'": 1, "'.join(names) + b'": 1}')])], 1)
    found = join_profile(json.loads(json.dumps(part)) for part in parts)
    assert [row["field"] for row in found.fields.rows] == ['"\\ud800"', '"a b"', '"😀"']
    (tmp_path / "x.html").write_text(as_html("t", "of", 0, profile_sections(found)), encoding="utf-8")


def test_percentiles_and_samples() -> None:
    assert [percentile({1: 1, 2: 2, 9: 1}, n) for n in (25, 26, 75, 76, 100)] == [1, 2, 2, 9, 9]
    assert percentile({}, 50) is None
    with pytest.raises(ConfigError, match="above 0 and at most 1"):
        check_sample(0)


# --- thresholds


def test_a_threshold_describes_the_rows_for_which_it_is_true() -> None:
    rows = [{"topic": "t", "share": 0.5}, {"topic": "u", "share": 0.1}, {"topic": "v", "share": None}]
    assert parse_threshold("share > 20%", ["topic", "share"]).matches(rows) == ["share is 0.5 where topic is t"]
    assert parse_threshold("share<=0.5", ["share"]).matches(rows[1:]) == ["share is 0.1 where topic is u"]
    assert parse_threshold("drift=1", ["drift"]).matches([{"drift": True}, {"drift": False}]) == ["drift is True"]
    rows = [{"topic": "t", "repeats": 1, "share": 1 / 100_000}]
    assert parse_threshold("share>0", ["share"]).matches(rows) == ["share is 1e-05 where topic is t"]
    assert rounded(Result(["share"], rows)).rows == [{"topic": "t", "repeats": 1, "share": 0.0}]
    assert parse_threshold("share>33.3%", ["share"]).matches([{"share": 333 / 1000}]) == []
    for wrong, words in (("share", "a comparison"), ("shore>1", "'shore' is unknown"), ("share>x", "a number")):
        with pytest.raises(ConfigError, match=words):
            parse_threshold(wrong, ["share"])


def test_a_threshold_on_a_text_column_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'topic' is text and cannot be compared; use one of share"):
        parse_threshold("topic>1", ["topic", "share"])
    numbers = {"drift", "share", "nulls", "gini", "max_over_mean", "producer_id", "partition", "value_size", "moved"}
    shown = [
        *(column for by in ((), ("topic",), ("producer_id",)) for column in window_columns(ThroughputOptions(by=by))),
        *summary_columns(ThroughputOptions()),
        *(*skew.KEY_COLUMNS, *skew.PARTITION_COLUMNS, *skew.TOPIC_COLUMNS),
        *(*profile.TOPIC_COLUMNS, *profile.MORE_COLUMNS, *profile.FIELD_COLUMNS),
        *(column for by in duplicates.FIELDS for column in duplicates.group_columns(by)),
        *(*group_offsets.COLUMNS, *group_offsets.DIFF_COLUMNS),
        *(column for by in SERIES for column in row_columns(by)),
    ]
    assert numbers <= set(shown) - TEXTS
    assert {"topic", "key", "window", "oldest", "types", "change", "time", "first_at", "peak_at"} <= TEXTS <= set(shown)


# --- pages


def test_lines_drop_to_zero_in_gaps() -> None:
    rows = [window(0, 6), window(1, 6), window(5, 6)]
    points = with_zeros(series_of(rows, ["topic"], "window", "records")["t"], 60_000)
    assert [(x[14:16], y) for x, y in points] == [("00", 6), ("01", 6), ("02", 0), ("04", 0), ("05", 6)]
    assert list(largest({"a": [("x", 1)], "b": [("x", 3)], "c": [("x", 2)]}, 2)) == ["b", "c"]
    assert list(series_of([{"w": "x", "p": None, "n": 1}], ["p"], "w", "n")) == ["none"]


def test_histogram_bins_of_sizes() -> None:
    assert binned({3: 1, 5: 2}, 60) == (["3", "4", "5"], [1, 0, 2])
    names, counts = binned({0: 1, 63: 1, 64: 5, 1000: 2}, 20)
    assert names[0] == "0–63"
    assert names[-1] == "960–1023"
    assert (counts[0], counts[1], counts[-1], sum(counts)) == (2, 5, 2, 9)
    assert binned({}, 10) == (["0"], [0])


@pytest.mark.slow  # it starts Chromium
def test_a_page_escapes_data_and_loads_nothing(tmp_path: Path) -> None:
    series = {EVIL: [("2026-01-01T00:00:00.000Z", 1.0), ("2026-01-01T00:01:00.000Z", 2.0)]}
    sections = [
        Section(EVIL, EVIL, bars([EVIL, "second"], [1, 2], "records"), Result(["key"], [{"key": EVIL}, {"key": 1}])),
        Section("Lines", "", lines({**series, "b": series[EVIL]}, "records/s")),
    ]
    page = tmp_path / "page.html"
    page.write_text(as_html(EVIL, "of", 0, sections), encoding="utf-8")
    found = rendered(page)
    assert found.title == f"{EVIL}: of"
    assert (found.charts, found.bars, found.lines) == (2, 2, 2)
    assert found.failures == []
    assert EVIL in found.chart_texts
    assert "second" in found.chart_texts


def test_lines_with_the_same_colour_have_another_dash() -> None:
    series = {str(n): [("2026-01-01T00:00:00.000Z", 1.0), ("2026-01-01T00:01:00.000Z", 2.0)] for n in range(20)}
    figure = lines(series, "records/s")
    assert [trace.line.dash for trace in figure.data] == ["solid"] * 10 + ["dot"] * 10
    assert figure.layout.xaxis.title.text == "UTC"


def test_a_page_names_brokers_range_and_time_zone() -> None:
    source = KafkaSource({"bootstrap.servers": "kafka:9092"}, {"t": None}, where="partition < 3")
    assert span_of(source) == "from earliest until latest, where partition < 3"
    timed = source._replace(
        start={"startingTimestamp": "1970-01-01T00:00:00.000Z"}, until={"endingOffsets": '{"t":{"0":1}}'}, where=None
    )
    assert span_of(timed) == "from 1970-01-01T00:00:00.000Z until given offsets"
    html = as_html("kcli spark skew", "t", 0, (), ["Brokers: kafka:9092", "Records: from <x>"])
    assert '<p class="of">Brokers: kafka:9092</p>' in html
    assert "from &lt;x&gt;" in html
    assert "Made at 1970-01-01T00:00:00.000Z; all times are in UTC." in html


def test_the_page_of_partitions_has_no_keys() -> None:
    keys = Result(skew.KEY_COLUMNS, [])
    partitions = Result(skew.PARTITION_COLUMNS, [{"topic": "t", "partition": 0, "records": 3, "bytes": 4}])
    topics = Result(skew.TOPIC_COLUMNS, [{"topic": "t"}])
    found = skew.Skew(keys, partitions, topics)
    titles = {by: [section.title for section in skew_sections(found, by, "records")] for by in ("key", "partition")}
    assert titles["key"] == ["Hottest keys", *titles["partition"]]
    assert titles["partition"] == ["Partitions of t", "Partitions", "Topics"]


@pytest.mark.slow  # it starts Chromium
def test_wide_tables_fit_the_window(tmp_path: Path) -> None:
    columns = summary_columns(ThroughputOptions(by=("topic", "partition")))
    time, number = "2026-01-01T00:00:00.000Z", 12_345_678_901
    texts = {
        "topic": "a-topic-with-a-rather-long-name.of-a-team",
        **dict.fromkeys(TEXTS & {*columns} - {"topic"}, time),
    }
    rows = [{name: texts.get(name, number) for name in columns}]
    html = as_html("kcli spark throughput", "t", 0, [Section("Summary", table=Result(columns, rows))])
    page = tmp_path / "page.html"
    measure = (
        "document.title = [...document.querySelectorAll('table')].map(it => it.getBoundingClientRect().right) + ' '"
    )
    page.write_text(html.replace("</body>", f"<script>{measure} + innerWidth</script></body>"), encoding="utf-8")
    right, width = map(float, rendered(page, 1280).title.split())
    assert right <= width


# --- as it is typed, without a JVM


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("throughput", "t", "--window", "soon"), "--window: 'soon' is not valid; use a duration"),
        (("throughput", "t", "--window", "1m", "--slide", "7s"), "--slide: 7s must divide --window 1m"),
        (("throughput", "t", "--from", ""), "use one of earliest, latest, group:GROUP, 100, +100, -100, a time"),
        (("throughput", "t", "--from", " "), "use one of earliest, latest, group:GROUP, 100, +100, -100, a time"),
        (("throughput", "t", "--until", ""), "use one of latest, 100, +100, -100, a time"),
        (("throughput", "t", "--by", "broker"), "use total, or some of"),
        (("throughput", "t", "--fail-if", "peak_records_per_s>1"), "'peak_records_per_s' is unknown; use one of"),
        (("throughput",), "no topic given"),
        (("skew", "t", "--by", "value"), "--by: 'value' is not valid; use key, partition or topic"),
        (("skew", "t", "--metric", "hits"), "--metric: 'hits' is not valid; use records or bytes"),
        (("skew", "t", "--key-as", "json"), "--key-as: 'json' is not valid; use string or hex"),
        (("skew", "t", "--report", "/nowhere/at/all.html"), "folder /nowhere/at does not exist"),
        (("profile", "t", "--sample", "0.1"), "--sample requires --fields"),
        (("profile", "t", "--fields", "--sample", "2"), "above 0 and at most 1"),
        (
            ("profile", "t", "--fail-if", "tombstones"),
            "'tombstones' is not a valid condition: expected a comparison after 'tombstones'",
        ),
    ],
)
def test_usage_errors_are_one_line(words: tuple[str, ...], output: str) -> None:
    result = run_kcli("spark", *words, "-b", "127.0.0.1:1")
    assert result.status == 2
    assert output in result.err
    assert result.err.count("\n") <= 2
    assert not result.out


def test_missing_plotly_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(ConfigError, match=r"--report needs plotly .*pip install 'kcli-kafka\[spark\]'"):
        check_page(str(tmp_path / "page.html"))


def test_a_source_option_takes_precedence_in_any_case(our_kafka: Kafka) -> None:
    topic = our_kafka.new_topic()
    offsets = f"startingoffsets={json.dumps({topic: {'0': 0}})}"
    brokers = f"Kafka.Bootstrap.Servers={our_kafka.bootstrap_servers}"
    words = (topic, "-b", "127.0.0.1:1", "--dry-run", "--option", offsets, "--option", brokers)
    for name in (("skew",), ("gaps", "--option", "failondataloss=true")):
        result = run_kcli("spark", *name, *words)
        assert result.status == 0, result.err
        assert "startingOffsets={" in result.err
        assert "startingoffsets" not in result.err


def test_dry_runs(our_kafka: Kafka) -> None:
    topic = our_kafka.new_topic(2)
    for name, view, columns in (
        ("throughput", "batches", "topic,count,bytes"),
        ("skew", "records", "topic,partition,key,key_size,value_size"),
        ("profile", "records", "topic,partition,offset,timestamp,key_size,value_size"),
    ):
        result = run_kcli("spark", name, topic, "-b", our_kafka.bootstrap_servers, "--dry-run")
        assert result.status == 0, result.err
        assert f"view={view}" in result.err
        assert f"columns={columns}" in result.err
    assert run_kcli("spark", "skew", "no-such-topic", "-b", our_kafka.bootstrap_servers, "--dry-run").status == 3
