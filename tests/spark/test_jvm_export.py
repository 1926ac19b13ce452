"""`kcli spark export` in the session of the tests: the whole command except the start of a JVM."""

from __future__ import annotations

import csv
import functools
import json
import random
import threading
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.spark.pipelines.source import PUSHDOWN
from tests.cli.fake import Result
from tests.real_kafka import Kafka
from tests.spark.export_topics import RECORDS, START_MS, expected, fill, fill_again, read_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Kcli = Callable[..., Result]
NOT_UTF8 = "records with invalid UTF-8: {}; written as U+FFFD, --value raw keeps the bytes\n"


def test_exported_parquet_equals_the_topic(kcli: Kcli, any_kafka: Kafka, tmp_path: Path) -> None:
    topic = fill(any_kafka, RECORDS)
    address, out = any_kafka.bootstrap_servers, tmp_path / "out"
    done = kcli("spark", "export", topic, "--to", str(out), "-b", address, "-O", "json")
    assert (done.status, done.err) == (0, "")
    assert read_back(out) == expected(topic, RECORDS)
    (item,) = json.loads(done.text)["items"]
    assert (item["records"], item["format"]) == (len(RECORDS), "parquet")

    again = kcli("spark", "export", topic, "--to", str(out), "-b", address)
    assert again.status == 4
    assert again.err == f"kcli: {out} exists already; use another --to, or --mode append or overwrite\n"
    assert kcli("spark", "export", topic, "--to", str(out), "-b", address, "--mode", "append").status == 0
    assert len(read_back(out)) == 2 * len(RECORDS)


def test_once_continues_at_its_checkpoint_and_commits_to_a_group(kcli: Kcli, our_kafka: Kafka, tmp_path: Path) -> None:
    topic, group = fill(our_kafka, RECORDS), our_kafka.new_name("export")
    words = ["spark", "export", topic, "--to", str(tmp_path), "-b", our_kafka.bootstrap_servers, "-O", "json"]
    words += ["--once", "--commit-group", group, "--max-offsets-per-trigger", "4"]
    done = kcli(*words)
    assert (done.status, done.err) == (0, "")
    (first,) = json.loads(done.text)["items"]
    assert first["records"] == len(RECORDS)
    assert first["ends"] == {topic: {"0": 3, "1": 3}}
    fill_again(our_kafka, topic, RECORDS[:2])
    (second,) = json.loads(kcli(*words).text)["items"]
    assert second["records"] == 2
    places = [(row["partition"], row["offset"]) for row in read_back(tmp_path)]
    assert places == [(partition, offset) for partition in (0, 1) for offset in range(4)]
    shown = kcli("group", "lag", group, "-b", our_kafka.bootstrap_servers, "--output", "json")
    assert json.loads(shown.text)["items"][0]["lag"] == 0

    idle = kcli(*words)
    assert json.loads(idle.text)["items"][0]["records"] == 0


def test_json_values_become_columns_and_others_keep_their_text(kcli: Kcli, our_kafka: Kafka, tmp_path: Path) -> None:
    values = [b'{"id": 1, "name": "one", "tags": ["a"]}', b"no json", b'{"id": "x"}', None, b'{"id": 2, "more": true}']
    more = [b'{"id": 3} {"id": 4}', b'{"id": 5}, {"id": 6}', b'{"id": 7}]', b"", b'{"id": 8, "name": "\xff", "x": {}} ']
    values += more
    topic = fill(our_kafka, [{"key": b"k", "value": value} for value in values], partitions=1)
    words = ["spark", "export", topic, "-b", our_kafka.bootstrap_servers, "--columns", "value,partition,offset"]
    result = kcli(*words, "--to", str(tmp_path / "result"), "--value", "json:id BIGINT, name STRING")
    assert result.status == 0, result.err
    rows = read_back(tmp_path / "result")
    assert [row["value"] for row in rows] == [
        {"id": 1, "name": "one"},
        None,
        None,
        None,
        {"id": 2, "name": None},
        *[None] * 4,
        {"id": 8, "name": "\ufffd"},
    ]
    errors = [None, "no json", '{"id": "x"}', None, None, *(text.decode() for text in more[:-1]), None]
    assert [row["value_error"] for row in rows] == errors

    found = kcli(*words, "--to", str(tmp_path / "found"), "--value", "json")
    assert found.status == 0, found.err
    assert "inferred schema of the values: json:STRUCT<" in found.err
    (first, *_) = read_back(tmp_path / "found")
    assert first["value"] == {
        "id": "1",
        "more": None,
        "name": "one",
        "tags": ["a"],
        "x": None,
    }


def test_fields_become_columns_and_folders_and_others_are_dead_letters(
    kcli: Kcli, our_kafka: Kafka, tmp_path: Path
) -> None:
    documents = [
        {"id": 1, "customer": {"country": "DE", "city": "Köln"}, "offset": 7, "tags": ["a"]},
        {"id": 2, "customer": {"country": "FR/x"}, "tags": []},
        {"id": 3},
    ]
    bad: dict[str, object] = {"key": b"\xff", "value": b'{"id": "\xff"', "headers": [("h", None)]}
    records = [{"key": b"k", "value": json.dumps(it).encode()} for it in documents] + [bad]
    topic = fill(our_kafka, records, partitions=1)
    ddl = "json:id BIGINT, customer STRUCT<country: STRING, city: STRING>, offset INT, tags ARRAY<STRING>"
    words = ["spark", "export", topic, "-b", our_kafka.bootstrap_servers, "--partition-by", "value.customer.country"]
    out, dead = tmp_path / "out", tmp_path / "dead"
    done = kcli(*words, "--value", ddl, "--flatten", "--to", str(out), "--dead-letter", str(dead), "-O", "json")
    assert done.status == 0, done.err
    assert done.err == f"values that did not decode: 1; written to {dead}\n"
    (item,) = json.loads(done.text)["items"]
    assert (item["records"], item["errors"]) == (3, 1)
    assert sorted(path.parent.name for path in out.rglob("*.parquet")) == [
        "customer_country=DE",
        "customer_country=FR%2Fx",
        "customer_country=__HIVE_DEFAULT_PARTITION__",
    ]
    rows = read_back(out)
    assert [row["id"] for row in rows] == [1, 2, 3]
    flat = ("customer_country", "customer_city", "value_offset", "tags", "offset", "key")
    assert tuple(rows[0][name] for name in flat) == ("DE", "Köln", 7, ["a"], 0, "k")
    assert not rows[0].keys() & {"value", "value_error"}
    (letter,) = read_back(dead)
    assert letter.pop("error") == "the value does not match the columns"
    assert [letter] == expected(topic, records, partitions=1)[3:]
    restored = our_kafka.new_topic(1, retention_ms=-1)
    loaded = kcli("spark", "load", str(dead), "--topic", restored, "-b", our_kafka.bootstrap_servers)
    assert loaded.status == 0, loaded.err
    again = kcli("spark", "export", restored, "--to", str(tmp_path / "x"), "-b", our_kafka.bootstrap_servers)
    assert again.status == 0, again.err
    (row,) = read_back(tmp_path / "x")
    same = ("key", "value", "timestamp", "headers")
    assert [row[name] for name in same] == [letter[name] for name in same]

    stream = [*words[:-1], "value.id", "--value", ddl, "--fields", "customer.country=land,id", "--once"]
    streamed, more_dead = tmp_path / "stream", tmp_path / "more_dead"
    done = kcli(*stream, "--to", str(streamed), "--dead-letter", str(more_dead), "--target-file-size", "1MB")
    assert done.status == 0, done.err
    assert [(row["id"], row["land"]) for row in read_back(streamed)] == [(1, "DE"), (2, "FR/x"), (3, None)]
    assert [(row["offset"], row["value"]) for row in read_back(more_dead)] == [(3, bad["value"])]


def test_fields_with_names_of_the_pipelines_own_columns(kcli: Kcli, our_kafka: Kafka, tmp_path: Path) -> None:
    document = {"_unread": "u", "_kcli_unread": "v", "_not_utf8": True, "_kcli_not_utf8": True, "_dedup_key": "d"}
    document |= {"_unshaped_value": "s", "_kcli_dedup_rank": 2, "_kcli_unshaped_key": "k"}
    records = [{"key": b"k", "value": json.dumps(document).encode()}, {"key": b"l", "value": b"no json"}]
    topic = fill(our_kafka, records, partitions=1)
    ddl = ", ".join(
        f"{name} {'STRING' if isinstance(value, str) else 'BOOLEAN' if isinstance(value, bool) else 'INT'}"
        for name, value in document.items()
    )
    words = ["spark", "export", topic, "-b", our_kafka.bootstrap_servers, "--value", f"json:{ddl}", "--dedup", "key"]
    nested = kcli(*words, "--to", str(tmp_path / "nested"))
    assert nested.status == 0, nested.err
    values = {row["key"]: row["value"] for row in read_back(tmp_path / "nested")}
    assert values == {"k": document, "l": None}

    flat = kcli(*words, "--to", str(tmp_path / "flat"), "--flatten", "--dead-letter", str(tmp_path / "dead"))
    assert flat.status == 0, flat.err
    (row,) = read_back(tmp_path / "flat")
    names = {name: f"value_{name}" if name.startswith("_kcli_") else name for name in document}
    assert {name: row[names[name]] for name in document} == document
    (letter,) = read_back(tmp_path / "dead")
    assert (letter["key"], letter["value"]) == (b"l", b"no json")


def test_files_have_the_wanted_size_and_repeats_are_written_once(kcli: Kcli, our_kafka: Kafka, tmp_path: Path) -> None:
    chance = random.Random(5)
    records = [{"key": b"%d" % (n % 100), "value": chance.randbytes(400)} for n in range(3000)]
    records += [{"key": None, "value": records[1]["value"]}] * 2
    records += records[2990:3000]
    topic = fill(our_kafka, records, partitions=3)
    words = ["spark", "export", topic, "-b", our_kafka.bootstrap_servers, "--columns", "key,value,partition,offset"]
    sized = kcli(*words, "--to", str(tmp_path / "sized"), "--target-file-size", "200KB")
    assert sized.status == 0, sized.err
    sizes = [path.stat().st_size for path in (tmp_path / "sized").glob("*.parquet")]
    assert len(read_back(tmp_path / "sized")) == len(records)
    assert 5 <= len(sizes) <= 9
    assert 100_000 < max(sizes) < 300_000

    folders = ("--partition-by", "partition", "--target-file-size", "10MB", "--dedup")
    newest = {record["key"]: number for number, record in enumerate(records)}
    for way in ("key", "key,value"):
        out = tmp_path / way
        done = kcli(*words, "--to", str(out), *folders, way)
        assert done.status == 0, done.err
        assert len(list(out.rglob("*.parquet"))) == 3, "one file in each folder"
        places = [row["offset"] * 3 + int(row["partition"]) for row in read_back(out)]
        if way == "key":
            without_key = [3000, 3001]
            assert sorted(places) == sorted({*newest.values(), *without_key})
        else:
            assert sorted(places) == list(range(3001)), "the first of equal records"


def test_small_files_of_a_stream_are_compacted_while_spark_reads_each_record_once(
    kcli: Kcli, spark: SparkSession, our_kafka: Kafka, tmp_path: Path
) -> None:
    records = [{"key": b"%d" % n, "value": None if n == 5 else b"%d" % n, "headers": [("h", b"x")]} for n in range(24)]
    topic = fill(our_kafka, records, partitions=1)
    words = ["spark", "export", topic, "--to", str(tmp_path), "-b", our_kafka.bootstrap_servers, "--once"]
    words += ["--partition-by", "dt", "--compression", "zstd", "--max-offsets-per-trigger", "2"]
    assert kcli(*words).status == 0
    before = len(list(tmp_path.rglob("*.parquet")))
    assert before >= 12
    planned = kcli("spark", "compact", str(tmp_path), "--dry-run", "-O", "json")
    assert planned.err == "nothing was changed\n"
    done = kcli("spark", "compact", str(tmp_path), "-O", "json")
    assert done.status == 0, done.err
    assert done.text == planned.text
    (item,) = json.loads(done.text)["items"]
    after = list(tmp_path.rglob("*.parquet"))
    assert len(after) == before - item["replaced"] + item["new_files"]
    assert (item["replaced"], item["new_files"]) == (8, 1), "batches 1 to 9; one file is alone in its folder"
    assert all(path.name.endswith(".zstd.parquet") for path in after)

    fill_again(our_kafka, topic, records[:2], partitions=1)
    assert kcli(*words).status == 0
    frame = spark.read.parquet(str(tmp_path))
    rows = frame.select("offset", "key", "value", "headers.value", "timestamp").orderBy("offset").collect()
    assert [row.offset for row in rows] == list(range(26))
    assert [row.key for row in rows[:24]] == [record["key"] for record in records]
    assert rows[5].value is None
    assert [row["offset"] for row in read_back(tmp_path)] == list(range(26)), "readers that ignore the list"
    assert dict(frame.dtypes)["timestamp"] == "timestamp"
    assert kcli("spark", "compact", str(tmp_path), "--master", "spark://x:1").status == 2


def test_directories_by_time_and_rows_by_condition(
    kcli: Kcli, spark: SparkSession, our_kafka: Kafka, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """With any session `--conf`: days are in UTC, and conditions apply without pushdown."""
    for key, value in {"spark.sql.session.timeZone": "America/New_York", PUSHDOWN: "false"}.items():
        request.addfinalizer(functools.partial(spark.conf.set, key, spark.conf.get(key)))
        spark.conf.set(key, value)
    topic = fill(our_kafka, RECORDS, partitions=2)
    words = ["spark", "export", topic, "-b", our_kafka.bootstrap_servers, "--to", str(tmp_path / "out")]
    words += ["--partition-by", "dt,hour", "--where", "partition = 0 and value is not null", "--columns"]
    done = kcli(*words, "key,offset,partition", "--compression", "zstd", "--files", "1")
    assert done.status == 0, done.err
    files = sorted(
        str(path.relative_to(tmp_path / "out").parent) for path in (tmp_path / "out").rglob("*.zstd.parquet")
    )
    assert files == ["dt=2023-11-14/hour=22", "dt=2023-11-15/hour=02"]
    assert [(row["key"], row["offset"]) for row in read_back(tmp_path / "out")] == [(b"plain", 0), (b"h", 2)]


def test_text_formats_write_keys_and_values_as_text(kcli: Kcli, our_kafka: Kafka, tmp_path: Path) -> None:
    topic = fill(our_kafka, RECORDS[4:5], partitions=1)
    words = ["spark", "export", topic, "-b", our_kafka.bootstrap_servers, "--format"]
    assert kcli(*words, "json", "--to", str(tmp_path / "json")).status == 0
    (line,) = [
        json.loads(text) for file in (tmp_path / "json").glob("*.json") for text in file.read_text().splitlines()
    ]
    assert (line["key"], line["value"], line["timestamp"]) == ("h", "v", "2023-11-14T22:13:20.000Z")
    done = kcli(*words, "csv", "--to", str(tmp_path / "csv"), "--columns", "key,value,headers", "--value", "raw")
    assert done.status == 0, done.err
    (text,) = [file.read_text() for file in (tmp_path / "csv").glob("*.csv")]
    assert text.splitlines()[0] == "key,value,headers"
    assert text.splitlines()[1].startswith('aA==,dg==,"[{')


def test_csv_follows_rfc_4180(kcli: Kcli, our_kafka: Kafka, tmp_path: Path) -> None:
    """RFC 4180: spaces are not trimmed, quotes are doubled, and a backslash has no meaning."""
    keys = [b"  k\t", b'"', b'a\\"b\\', b"one\ntwo\r\n", b"x,y", b"", None, b"\xff\x00", b"long" * 20]
    headers = [("h", b'"\\ \xfe')]
    topic = fill(our_kafka, [{"key": key, "value": b"v", "headers": headers} for key in keys], partitions=1)
    words = ["spark", "export", topic, "-b", our_kafka.bootstrap_servers, "--format", "csv", "--columns"]

    def rows(name: str, *more: str) -> list[list[str]]:
        done = kcli(*words, *more, "--to", str(tmp_path / name))
        assert done.status == 0, done.err
        (file,) = (tmp_path / name).glob("*.csv")
        assert done.err == ("" if "raw" in more else NOT_UTF8.format(len(keys) if "key,headers" in more else 1))
        with file.open(newline="") as lines:
            return list(csv.reader(lines))

    text = [(key or b"").decode(errors="replace") for key in keys]
    read = rows("text", "key,headers")
    assert [key for key, _ in read] == ["key", *text]
    assert [json.loads(column) for _, column in read[1:]] == [[{"key": "h", "value": '"\\ \ufffd'}]] * len(keys)
    assert rows("one", "key") == [["key"], *([key] for key in text)]
    raw = rows("raw", "key,headers", "--value", "raw")
    assert [key for key, _ in raw[1:]] == [b64encode(key or b"").decode() for key in keys]
    assert json.loads(raw[1][1]) == [{"key": "h", "value": b64encode(headers[0][1]).decode()}]


def test_a_stream_counts_written_records(kcli: Kcli, our_kafka: Kafka, tmp_path: Path) -> None:
    topic = fill(our_kafka, RECORDS)
    words = ["spark", "export", topic, "--to", str(tmp_path), "-b", our_kafka.bootstrap_servers, "-O", "json"]
    done = kcli(*words, "--once", "--where", "partition = 0", "--format", "json")
    assert (done.status, done.err) == (0, NOT_UTF8.format(1))
    (item,) = json.loads(done.text)["items"]
    assert (item["records"], item["not_utf8"], item["ends"]) == (3, 1, {topic: {"0": 3, "1": 3}})


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--where", "nonsense = 1"], 2, "nonsense"),
        (["--where", "partition ="], 2, "Syntax error"),
        (["--format", "delta"], 2, "spark.jars.packages"),
        (["--format", "csv", "--compression", "nonsense"], 2, "nonsense"),
    ],
)
def test_errors_of_spark_are_one_line(
    kcli: Kcli, our_kafka: Kafka, tmp_path: Path, words: list[str], status: int, message: str
) -> None:
    topic = fill(our_kafka, RECORDS[:1], partitions=1)
    done = kcli("spark", "export", topic, "-b", our_kafka.bootstrap_servers, "--to", str(tmp_path / "x"), *words)
    assert message in done.err
    assert (done.status, done.err.count("\n"), done.text) == (status, 1, "")


def test_a_task_failure_is_reported_as_a_kcli_error(kcli: Kcli, our_kafka: Kafka, tmp_path: Path) -> None:
    topic = fill(our_kafka, RECORDS, partitions=1)
    start = json.dumps({topic: {"0": 99}})
    done = kcli(
        "spark", "export", topic, "-b", our_kafka.bootstrap_servers, "--to", str(tmp_path / "x"), "--from", start
    )
    assert done.status in (1, 2)
    assert done.err.startswith("kcli: ")
    assert done.err.count("\n") == 1


TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


@pytest.mark.parametrize("how", [("--mode", "append"), ("--once",)], ids=["batch", "stream"])
def test_timestamps_of_parquet_have_statistics_and_every_year(
    kcli: Kcli, our_kafka: Kafka, tmp_path: Path, spark: SparkSession, how: tuple[str, str]
) -> None:
    """Spark's own default is INT96, which pyarrow wraps: 2286 becomes 1702."""
    from pyarrow import parquet

    def check() -> None:
        for path in tmp_path.glob("*.parquet"):
            file = parquet.ParquetFile(path)
            (number,) = [it for it in range(len(file.schema)) if file.schema.column(it).name == "timestamp"]
            assert file.schema.column(number).physical_type == "INT64"
            groups = [file.metadata.row_group(it).column(number) for it in range(file.num_row_groups)]
            assert all(it.statistics.has_min_max for it in groups)  # none in the file of an empty task
        assert {row["timestamp"].year for row in read_back(tmp_path)} == {2023, 2286}
        assert spark.conf.get(TIMESTAMPS, None) is None  # other writers of the session keep their own

    topic = our_kafka.new_topic(retention_ms=-1, message_timestamp_after_max_ms=2**63 - 1)
    producer = our_kafka.ordered_producer()
    for ms in (START_MS, 9_999_999_999_999):
        producer.produce(topic, value=b"{}", timestamp=ms)
        assert producer.flush(30) == 0
        done = kcli(*export(our_kafka, topic, tmp_path), *how)
        assert done.status == 0, done.err
    check()
    if how != ("--once",):  # a stream has not compacted its list yet
        compacted = kcli("spark", "compact", str(tmp_path))
        assert compacted.status == 0, compacted.err
        assert len(list(tmp_path.glob("*.parquet"))) == 1
        check()


def export(kafka: Kafka, topic: str, folder: Path) -> list[str]:
    return ["spark", "export", topic, "--to", str(folder), "-b", kafka.bootstrap_servers]


def test_a_stream_from_latest_loses_no_dead_letter_while_records_arrive(
    kcli: Kcli, our_kafka: Kafka, tmp_path: Path
) -> None:
    """Each of the two streams would find another end of the log: every second record here does not decode."""
    topic, out, dead = our_kafka.new_topic(partitions=1), tmp_path / "out", tmp_path / "dead"
    words = [*export(our_kafka, topic, out), "--once", "--from", "latest", "--value", "json:id BIGINT"]
    words += ["--dead-letter", str(dead)]
    stop = threading.Event()

    def produce() -> int:
        producer = our_kafka.ordered_producer()
        number = 0
        while not stop.wait(0.005):
            producer.produce(topic, value=b'{"id": 1}' if number % 2 else b"no json")
            producer.poll(0)
            number += 1
        assert producer.flush(60) == 0
        return number

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(produce)
        try:
            first = kcli(*words)
        finally:
            stop.set()
        count = writing.result(60)
    assert first.status == 0, first.err
    last = kcli(*words)
    assert last.status == 0, last.err
    decoded, letters = ([row["offset"] for row in read_back(folder)] for folder in (out, dead))
    assert ({it % 2 for it in decoded}, {it % 2 for it in letters}) == ({1}, {0})
    both = sorted([*decoded, *letters])
    assert both == list(range(both[0], count))
