"""`kcli spark` before Spark starts: options, the dry run, missing requirements. No JVM, and PySpark is not imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.cli.spark.export import ExportOptions, _stream, parse_export
from kcli.cli.spark.options import end_options, start_options
from kcli.clock import ManualClock
from kcli.errors import ConfigError
from kcli.spark.deploy.java import check_java, major_version
from kcli.spark.pipelines.files.export import ExportResult
from kcli.text import format_time
from tests.cli.fake import FakeEnvironment, Result, run_kcli
from tests.fake_registry import fake_registry
from tests.real_kafka import Kafka
from tests.test_startup import heavy, imported_by

NOW_MS = 1_700_000_000_000


def test_a_dry_run_shows_ranges_tasks_and_options_without_importing_pyspark(our_kafka: Kafka) -> None:
    topic = our_kafka.new_topic(partitions=2)
    words = ["spark", "export", topic, "--to", "x", "--dry-run", "-b", our_kafka.bootstrap_servers]
    words += ["-X", "my.password=y"]
    assert not heavy(imported_by(*words)) & {"pyspark", "pyarrow", "rich", "concurrent", "multiprocessing"}
    started = time.process_time()
    done = run_kcli(*words)
    assert time.process_time() - started < 1
    assert done.status == 0
    assert done.text.splitlines()[0].split() == ["TOPIC", "PARTITION", "START", "END", "RECORDS-AT-MOST", "TASKS"]
    assert [line.split() for line in done.text.splitlines()[1:]] == [[topic, str(p), *"0000"] for p in (0, 1)]
    assert "0 tasks, at most 0 records; nothing was read" in done.err
    assert "my.password=[hidden]" in done.err
    assert "startingOffsets=earliest" in done.err


@pytest.mark.parametrize("how", [[], ["--once"]])
def test_a_dry_run_needs_the_schema_of_the_values(our_kafka: Kafka, tmp_path: Path, how: list[str]) -> None:
    topic = our_kafka.new_topic()
    words = ["spark", "export", topic, "--to", str(tmp_path / "x"), *how, "-b", our_kafka.bootstrap_servers]
    file, bad = tmp_path / "s.avsc", tmp_path / "bad.avsc"
    bad.write_text('{"type": "record"}')
    with fake_registry() as registry:
        url = ["--schema-registry", registry.url]
        for more, status, message in (
            ([], 2, "value.decode=avro requires schema.registry.url, or value.schema.file"),
            (["--option", f"value.schema.file={file}"], 2, f"cannot read schema file {file}: No such file"),
            (["--option", f"value.schema.file={bad}"], 2, f"value.schema.file {bad} is not valid: a type record has"),
            (url, 3, f"value.decode=avro: the registry has no subject '{topic}-value'; use value.subject"),
        ):
            done = run_kcli(*words, "--value", "avro", *more, "--dry-run")
            assert message in done.err
            assert (done.status, done.text, done.err.count("\n")) == (status, "", 1)
        registry.register(f"{topic}-value", {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]})
        done = run_kcli(*words, "--value", "avro", *url, "--dry-run")
        assert done.status == 0, done.err


@pytest.mark.parametrize("how", ["--once", "--follow"])
def test_a_dry_run_of_a_stream_plans_the_first_run(our_kafka: Kafka, how: str) -> None:
    topic = our_kafka.new_topic()
    producer = our_kafka.ordered_producer()
    producer.produce(topic, b"one")
    assert producer.flush(120) == 0
    words = ["spark", "export", topic, "--to", "x", how, "--dry-run", "-b", our_kafka.bootstrap_servers]
    done = run_kcli(*words, "-O", "json")
    assert done.status == 0, done.err
    (item,) = done.document["items"]
    assert (item["start"], item["end"], item["tasks"]) == (0, 1, 1)


def test_a_dry_run_of_a_resumed_stream_starts_at_its_checkpoint(our_kafka: Kafka, tmp_path: Path) -> None:
    """--from is for the first start; its group may have been deleted by now."""
    topic = our_kafka.new_topic()
    producer = our_kafka.ordered_producer()
    for _ in range(3):
        producer.produce(topic, b"one")
    assert producer.flush(120) == 0
    checkpoint = tmp_path / "_checkpoint"
    for name, text in {
        "metadata": '{"id":"a"}',
        "commits/1": "v1\n{}",
        "../_spark_metadata/1": "v1",
        "offsets/1": "v1\n{}\n" + json.dumps({topic: {"0": 2}}),
    }.items():
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(text)
    words = ["spark", "export", topic, "--to", str(tmp_path), "--once", "--dry-run", "--from", "group:forgotten"]
    done = run_kcli(*words, "-b", our_kafka.bootstrap_servers, "-O", "json")
    assert done.status == 0, done.err
    (item,) = done.document["items"]
    assert (item["start"], item["end"]) == (2, 3)


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--once", "--checkpoint", "other"], "was written with another checkpoint than"),
        (["--mode", "append"], "was written by --once or --follow"),
        ([], "exists already"),
    ],
)
def test_targets_from_which_spark_would_lose_records_are_refused(
    tmp_path: Path, more: list[str], message: str, dry: list[str]
) -> None:
    """Spark's file sink skips batches that are in its log; readers of its files use that log alone."""
    for name in ("_spark_metadata/9.compact", "_spark_metadata/10", "_checkpoint/offsets/10", "other/offsets/9"):
        put(tmp_path / name)
    more = [str(tmp_path / word) if word == "other" else word for word in more]
    done = run_kcli("spark", "export", "orders", "--to", str(tmp_path), *more, *dry, "-b", "127.0.0.1:1")
    assert message in done.err
    assert (done.status, done.err.count("\n"), done.text) == (4, 1, "")


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize("more", [[], ["--once"], ["--mode", "append"], ["--mode", "overwrite"]])
def test_a_target_that_cannot_be_a_folder_is_a_usage_error(tmp_path: Path, more: list[str], dry: list[str]) -> None:
    put(tmp_path / "file")
    for to, message in (
        (f"{tmp_path}/file/x/y", f"--to: {tmp_path}/file/x/y cannot be made: {tmp_path}/file is not a folder"),
        (f"{tmp_path}/file", f"--to: {tmp_path}/file is not a folder"),
        ("/dev/null/x", "--to: /dev/null/x cannot be made: /dev/null is not a folder"),
    ):
        done = run_kcli("spark", "export", "orders", "--to", to, *more, *dry, "-b", "127.0.0.1:1")
        assert (done.status, done.err) == (2, f"kcli: {message}\n")


def test_a_checkpoint_that_cannot_be_a_folder_is_a_usage_error(tmp_path: Path) -> None:
    words = ("spark", "export", "orders", "--to", str(tmp_path), "--once", "--checkpoint", "/dev/null/c", "--dry-run")
    done = run_kcli(*words, "-b", "127.0.0.1:1")
    assert (done.status, done.err) == (
        2,
        "kcli: --checkpoint: /dev/null/c cannot be made: /dev/null is not a folder\n",
    )


@pytest.mark.usefixtures("without_java")
@pytest.mark.parametrize("name", ["part-0.parquet", "dt=2026-01-01/part-0.parquet"])
def test_a_stream_is_refused_in_a_folder_with_files_of_batches(our_kafka: Kafka, tmp_path: Path, name: str) -> None:
    """Once Spark's list of a stream's files exists, readers ignore all other files."""

    def outcome(*more: str) -> tuple[int, str]:
        words = ("spark", "export", "no-such-topic", "--to", str(tmp_path), "--once", *more)
        done = run_kcli(*words, "-b", our_kafka.bootstrap_servers)
        return done.status, done.err

    for name_of_no_data in ("_temporary/0", ".hidden"):
        put(tmp_path / name_of_no_data)
    assert outcome()[0] == 3, "nothing stands in the way but the topic"
    put(tmp_path / name)
    status, words = outcome()
    assert (status, words.count("\n")) == (4, 1)
    assert "has other files" in words
    assert outcome("--format", "delta")[0] == 3, "tables have lists of their own"
    put(tmp_path / "_checkpoint/offsets/0")
    assert outcome()[0] == 3, "files of a batch that was not finished"


@pytest.mark.usefixtures("without_java")
@pytest.mark.parametrize("there", [(), ("part-0.parquet",), ("_spark_metadata/8", "part-0.parquet")])
def test_a_stream_is_refused_in_a_folder_without_its_earlier_batches(tmp_path: Path, there: tuple[str, ...]) -> None:
    """A batch has overwritten them, or it is another folder: Spark's list of files would miss batches, and readers
    ignore the others; at every tenth batch it reads all earlier ones, and fails (BATCH_METADATA_NOT_FOUND).
    """
    for name in ("offsets/9", "offsets/10", "commits/9"):
        put(tmp_path / "checkpoint" / name)
    for name in there:
        put(tmp_path / "to" / name)
    words = ["spark", "export", "orders", "--to", str(tmp_path / "to"), "--checkpoint", str(tmp_path / "checkpoint")]
    done = run_kcli(*words, "--once", "-b", "127.0.0.1:1")
    assert "does not have the batches of" in done.err
    assert (done.status, done.err.count("\n"), done.text) == (4, 1, "")
    put(tmp_path / "to" / "_spark_metadata/9.compact")
    assert run_kcli(*words, "--once", "-b", "127.0.0.1:1").status != 4
    assert run_kcli(*words, "--once", "-b", "127.0.0.1:1", "--format", "delta").status != 4


@pytest.mark.usefixtures("without_java")
@pytest.mark.parametrize("way", [["--once"], ["--mode", "append"]])
@pytest.mark.parametrize(
    ("there", "more", "message"),
    [
        (
            "part-0-c000.snappy.parquet",
            ["--format", "json"],
            "of the format parquet, beside which json could not be read",
        ),
        ("part-0-c000.json.gz", [], "use --format json, or another --to"),
        ("part-0-c000.txt", [], "use --format text, or another --to"),
        ("dt=2026-01-01/hour=00/part-0.parquet", ["--partition-by", "dt"], "an export with --partition-by dt,hour"),
        ("part-0.parquet", ["--partition-by", "dt"], "an export with no --partition-by"),
        ("dt=2026-01-01/hour=00/part-0.parquet", ["--partition-by", "dt,hour"], None),
        ("notes.txt", [], None),
    ],
)
def test_files_that_no_reader_could_read_together_are_refused(
    tmp_path: Path, way: list[str], there: str, more: list[str], message: str | None
) -> None:
    """The files would have been written: Spark's sinks look neither at the format nor at the folders of others."""
    put(tmp_path / there)
    if way == ["--once"]:
        for name in ("_checkpoint/offsets/1", "_checkpoint/commits/1", "_spark_metadata/1"):
            put(tmp_path / name)
    words = ("spark", "export", "orders", "--to", str(tmp_path), *way, *more, "-b", "127.0.0.1:1", "--timeout", "0.1")
    done = run_kcli(*words)
    if message is None:
        assert done.status != 4
    else:
        assert message in done.err
        assert (done.status, done.err.count("\n"), done.text) == (4, 1, "")


def put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("v1")


@pytest.mark.usefixtures("without_java")
def test_an_unknown_topic_is_reported_before_spark_starts(our_kafka: Kafka) -> None:
    done = run_kcli("spark", "export", "no-such-topic", "--to", "x", "-b", our_kafka.bootstrap_servers)
    assert (done.status, done.err.count("\n")) == (3, 1)
    assert "no-such-topic" in done.err


@pytest.mark.usefixtures("without_java")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["orders"], "--to DIR"),
        (["--to", "x"], "no topic given"),
        (["orders", "--to", "x", "--once", "--follow"], "cannot be combined"),
        (["orders", "--to", "x", "--checkpoint", "y"], "--checkpoint requires --once or --follow"),
        (["orders", "--to", "x", "--commit-group", "g"], "--commit-group requires --once or --follow"),
        (["orders", "--to", "x", "--every", "5s"], "--every requires --follow"),
        (["orders", "--to", "x", "--follow", "--every", "soon"], "--every: 'soon' is not valid; use a duration"),
        (["orders", "--to", "x", "--once", "--mode", "append"], "--mode cannot be combined with --once or --follow"),
        (["orders", "--to", "x", "--once", "--until", "-1h"], "--until cannot be used with a stream"),
        (["orders", "--to", "x", "--mode", "mad"], "--mode: 'mad' is not valid"),
        (["orders", "--to", "x", "--columns", "kye"], "did you mean key?"),
        (["orders", "--to", "x", "--partition-by", "day"], "day"),
        (["orders", "--to", "x", "--value", "avr"], "use raw, string, json"),
        (["orders", "--to", "x", "--files", "2", "--target-file-size", "1MB"], "--target-file-size cannot be combined"),
        (["orders", "--to", "x", "--target-file-size", "big"], "use a size from 1KB to 1024GB"),
        (["orders", "--to", "x", "--dedup", "value"], "--dedup: 'value' is not valid; use key or key,value"),
        (["orders", "--to", "x", "--dedup", "key", "--once"], "a later batch may repeat a record"),
        (["orders", "--to", "x", "--value", "json", "--dead-letter", "x/bad"], "is in --to"),
        (["orders", "--to", "x", "--value", "json:id BIGNUM"], "'BIGNUM' is not a type; did you mean BIGINT?"),
        (["orders", "--to", "x", "--value", "json", "--once"], "require --value json:DDL"),
        (["orders", "--to", "x", "--value", "json:a INT", "--format", "csv"], "no nested columns"),
        (["orders", "--to", "x", "--from", "yesterday"], "use one of earliest"),
        (["orders", "--to", "x", "--until", "earliest"], "is not valid; use latest, a time or JSON"),
        (["orders", "--to", "x", "-O", "yaml"], "--output: 'yaml' is not valid"),
        (["orders", "--to", "x", "-O", "parquet"], "requires a file"),
        (["orders", "--to", "x", "-O", "minPartitions=3"], "of the data source, use --option minPartitions=3"),
        (["orders", "--to", "x", "-o", "json"], "use --output FORMAT or -O FORMAT"),
        (["orders", "--to", "x", "--ship", "boat"], "--ship: 'boat' is not valid; use auto"),
        (["orders", "--to", "x", "--option", "minPartition=3"], "minPartitions"),
        (["orders", "pays:0", "--to", "x"], "topic orders: add its partitions"),
    ],
)
def test_usage_errors_are_one_line_with_exit_status_2(words: list[str], message: str) -> None:
    done = run_kcli("spark", "export", *words, "-b", "127.0.0.1:1")
    assert message in done.err
    assert (done.status, done.err.count("\n"), done.text) == (2, 1, "")


@pytest.mark.parametrize(
    ("error", "status", "lines"),
    [
        (KeyboardInterrupt(), 130, ["kcli: interrupted; the unfinished {to} was removed"]),
        (
            OSError(28, "No space left on device"),
            1,
            [
                "the unfinished {to} was removed",
                "kcli: [Errno 28] No space left on device; free disk space for the result and for Spark's temporary "
                "files (spark.local.dir)",
            ],
        ),
    ],
)
def test_an_unfinished_export_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException, status: int, lines: list[str]
) -> None:
    to = tmp_path / "lake"

    def export_batch(*_: object) -> None:
        put(to / "_temporary" / "0" / "part-0")
        raise error

    done = export_without_spark(monkeypatch, export_batch, to)
    assert (done.status, done.err.splitlines()) == (status, [line.format(to=to) for line in lines])
    assert not to.exists()


def test_data_is_never_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another process may write to the folder, and parts of this export may have been completed."""
    to = tmp_path / "lake"

    def export_batch(*_: object) -> None:
        put(to / "_temporary" / "0" / "part-1")
        put(to / "part-0")
        raise KeyboardInterrupt

    done = export_without_spark(monkeypatch, export_batch, to)
    assert done.err == f"kcli: interrupted; {to} is incomplete; remove it, or use --mode overwrite\n"
    assert os.listdir(to) == ["part-0"]
    done = export_without_spark(monkeypatch, export_batch, to, "--mode", "append")
    assert done.err == f"kcli: interrupted; the unfinished files in {to} were removed\n"
    assert os.listdir(to) == ["part-0"]
    put(to / "_temporary" / "0" / "of-another")
    assert export_without_spark(monkeypatch, export_batch, to, "--mode", "append").err == "kcli: interrupted\n"
    assert (to / "_temporary" / "0" / "of-another").exists()


def export_without_spark(
    monkeypatch: pytest.MonkeyPatch, export_batch: Callable[..., Any], to: Path, *words: str
) -> Result:
    @contextmanager
    def opened(*_: object) -> Iterator[Any]:
        yield lambda: None

    monkeypatch.setattr("kcli.cli.spark.session.session_factory", opened)
    monkeypatch.setattr("kcli.cli.spark.export._survey", lambda *_: None)
    monkeypatch.setattr("kcli.spark.deploy.java.check_java", lambda _: None)
    monkeypatch.setattr("kcli.spark.pipelines.files.export.export_batch", export_batch)
    return run_kcli("spark", "export", "orders", "--to", str(to), *words)


def test_brokers_that_do_not_answer_are_reported_within_the_common_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.cli.spark.session._LONG_WAIT_S", 0.1)
    done = run_kcli("spark", "skew", "orders", "-b", "127.0.0.1:1", "--timeout", "1")
    assert done.status == 5
    waiting, failed = done.err.splitlines()
    assert waiting == "no answer from 127.0.0.1:1 yet; waiting up to 1 s"
    assert "no broker answered at 127.0.0.1:1" in failed


def test_spark_commands_have_the_time_limit_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("spark", "skew", "orders", "--dry-run")
    limits: list[str] = []

    def survey(source: Any, *_: object) -> Any:
        limits.append(source.kafka["default.api.timeout.ms"])
        raise KeyboardInterrupt

    monkeypatch.setattr("kcli.spark.pipelines.survey.survey", survey)
    run_kcli(*words)
    run_kcli(*words, "--timeout", "2.5")
    run_kcli(*words, environ={"KCLI_TIMEOUT": "7"})
    run_kcli(*words, "-X", "default.api.timeout.ms=9000")
    assert limits == ["30000", "2500", "7000", "9000"]


def test_a_following_export_without_a_terminal_reports_a_line_each_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()

    def export_stream(*_: object, on_progress: Callable[[ExportResult], None], **__: object) -> ExportResult:
        for second in range(150):
            clock.advance(1000)
            on_progress(ExportResult(second + 1, 1))
        return ExportResult(150, 1)

    monkeypatch.setattr("kcli.spark.pipelines.files.export.export_stream", export_stream)
    target = parse_export(ExportOptions("lake"))
    for terminal in (False, True):
        env = FakeEnvironment(clock=clock, terminal=terminal)
        job: Any = SimpleNamespace(env=env)
        _stream(job, None, None, target, 5.0)  # type: ignore[arg-type]
        lines = env.result(0).err.splitlines()
        assert lines == ([] if terminal else ["60 records written to lake", "120 records written to lake"])


@pytest.mark.parametrize(("given", "meant"), [("JSON", ("json", "string")), ("Delta", ("Delta", "raw"))])
def test_file_formats_are_not_case_sensitive(given: str, meant: tuple[str, str]) -> None:
    shape = parse_export(ExportOptions("x", given)).shape
    assert (shape.format, shape.value) == meant


def test_from_and_until_become_source_options() -> None:
    hour_ago = format_time(NOW_MS - 3_600_000)
    by_time = {"startingTimestamp": hour_ago, "startingOffsetsByTimestampStrategy": "latest"}
    assert start_options(None, NOW_MS) == {"startingOffsets": "earliest"}
    assert start_options("-1h", NOW_MS) == start_options("@-1h", NOW_MS) == by_time
    assert start_options("group:billing", NOW_MS) == {"startingOffsets": "group:billing"}
    assert start_options('{"t":{"0":5}}', NOW_MS) == {"startingOffsets": '{"t":{"0":5}}'}
    assert start_options("-100", NOW_MS) == {"startingOffsets": "-100"}
    assert start_options("1700000000", NOW_MS)["startingTimestamp"] == "2023-11-14T22:13:20.000Z"
    assert end_options("end", NOW_MS) == {"endingOffsets": "latest"}
    assert end_options("+5", NOW_MS) == {"endingOffsets": "+5"}
    assert end_options(None, NOW_MS) == {}
    assert end_options("2023-11-14", NOW_MS) == {"endingTimestamp": "2023-11-14T00:00:00.000Z"}


@pytest.mark.parametrize(("text", "major"), [("17.0.15", 17), ("1.8.0_392", 8), ("21", 21), ("11.0.2+9", 11), ("?", 0)])
def test_both_forms_of_java_versions_are_parsed(text: str, major: int) -> None:
    assert major_version(text) == major


def test_an_old_or_missing_java_is_reported_with_the_cure(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    with pytest.raises(ConfigError, match=r"there is no `java` on the PATH: install a JRE 17"):
        check_java({"PATH": str(tmp_path)})
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    with pytest.raises(ConfigError, match=r"Spark needs Java 17 or newer, but .*bin/java is Java 11.0.2"):
        check_java({"JAVA_HOME": str(tmp_path)})
    (tmp_path / "release").write_text('JAVA_VERSION="21.0.1"\n')
    assert check_java({"JAVA_HOME": str(tmp_path)}).major == 21
    with pytest.raises(ConfigError, match=r"of JAVA_HOME cannot be run"):
        check_java({"JAVA_HOME": str(tmp_path / "nowhere")})


@pytest.mark.usefixtures("without_java")
def test_usage_and_topic_are_checked_before_java(our_kafka: Kafka) -> None:
    def outcome(topic: str, *more: str) -> tuple[int, str]:
        done = run_kcli("spark", "skew", topic, "-b", our_kafka.bootstrap_servers, *more)
        assert done.err.count("\n") == 1, done.err
        return done.status, done.err

    topic = our_kafka.new_topic()
    assert outcome("no-such-topic", "--top", "0")[0] == 2
    status, message = outcome("no-such-topic")
    assert status == 3
    assert "no-such-topic" in message
    status, message = outcome(topic)
    assert status == 2
    assert "Spark needs Java, but there is no `java` on the PATH: install a JRE 17 or newer" in message


@pytest.mark.parametrize(
    "words",
    [
        ("skew", "orders", "--option", "minPartition=3"),
        ("skew", "orders", "--from", '{"orders": {"x": 1}}'),
        ("compare", "orders", "other", "--until", "{"),
        ("sql", "SELECT * FROM batches('orders')", "--option", "minPartitions=none"),
        ("export", "orders", "--to", "x", "--once", "--option", "maxOffsetsPerTrigger=none"),
    ],
)
def test_source_options_are_checked_before_a_connection_to_a_server(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.spark.deploy.session.open_session", lambda **_: pytest.fail("a connection was made"))
    done = run_kcli("spark", *words, "--remote", "sc://127.0.0.1:1")
    assert (done.status, done.err.count("\n"), done.text) == (2, 1, "")


@pytest.mark.parametrize("package", ["pyspark", "pyarrow", "pandas"])
def test_a_missing_package_is_reported_with_the_cure(package: str, our_kafka: Kafka) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; from kcli.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "spark", "skew", our_kafka.new_topic()]
    command += ["-b", our_kafka.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "KCLI_DEBUG": ""}, timeout=120)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"kcli spark needs {package}" in done.stderr
    assert "pip install 'kcli-kafka[spark]'" in done.stderr
