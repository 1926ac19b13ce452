"""`kcli consume topic` on both brokers: selection, output, and how it stops."""

from __future__ import annotations

import base64
import json
import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.interop.process import KCLI, ROOT, Finished, kcli, kcli_running, wait_for_lines
from tests.limits import killed_after, read_line
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

NOON = 1_706_702_400_000  # 2024-01-31T12:00:00Z
HOUR = 3_600_000


@pytest.fixture(scope="module")
def mixed(any_kafka: Kafka) -> str:
    """One partition with six records: keys, headers, nulls, empty values, and bytes that are not text."""
    topic = any_kafka.new_topic(prefix="mixed", retention_ms=-1)
    producer = any_kafka.ordered_producer()
    records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (b"k1", b"first", [("a", b"1"), ("b", None), ("a", b"\xff"), ("e", b"")]),
        (b"k2", None, []),
        (None, b"third", [("only", b"one")]),
        (b"", b"", []),
        (b"\x01k", b"\xc3\xbc\xff\x1b[2J", []),
        (b"last", b"two\nlines", []),
    ]
    for n, (key, value, headers) in enumerate(records):
        producer.produce(topic, value, key, headers=headers, timestamp=NOON + n)
    assert producer.flush(30) == 0
    return topic


@pytest.fixture(scope="module")
def hourly(any_kafka: Kafka) -> str:
    """Three partitions; partition p has the values `p-0` to `p-9`, one per hour from noon."""
    topic = any_kafka.new_topic(3, prefix="hourly", retention_ms=-1)
    producer = any_kafka.ordered_producer()
    for n in range(30):
        partition, hour = n % 3, n // 3
        producer.produce(topic, b"%d-%d" % (partition, hour), partition=partition, timestamp=NOON + hour * HOUR)
    assert producer.flush(30) == 0
    return topic


def consume(kafka: Kafka, topic: str, *options: str) -> Finished:
    run = kcli("consume", "topic", topic, "-b", kafka.bootstrap_servers, *options, timeout_s=60)
    assert "Traceback" not in run.err
    return run


def kcat_says(kcat: str, kafka: Kafka, topic: str, *options: str) -> bytes:
    command = [kcat, "-b", kafka.bootstrap_servers, "-C", "-t", topic, "-o", "beginning", "-e", "-q", *options]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["-K", r"\t"],
        ["-D", r"<\n>"],
        ["-K", ":", "-D", r"\x3b"],
        ["-f", r"%t|%p|%o|%k|%s|%h|%T|%S|%K|%%\n"],
        ["-f", r"%R%s"],
        ["-f", r"%s\t%k\r\n\x41"],
        ["-f", "%o "],
    ],
)
def test_formats_print_what_kcat_prints(options: list[str], mixed: str, any_kafka: Kafka, kcat: str) -> None:
    ours = consume(any_kafka, mixed, "-o", "start", "-e", *options)
    assert (ours.status, ours.out) == (0, kcat_says(kcat, any_kafka, mixed, *options))


def test_the_null_text_distinguishes_nulls_from_empty_values(mixed: str, any_kafka: Kafka) -> None:
    """kcat's -Z prints NULL for empty keys and values too."""
    run = consume(any_kafka, mixed, "-o", "1:4", "-Z", "NULL", "-K", ":")
    assert run.lines == [b"k2:NULL", b"NULL:third", b":"]


def test_json_lines_keep_every_byte(mixed: str, any_kafka: Kafka) -> None:
    run = consume(any_kafka, mixed, "-o", "start", "-e", "--output", "jsonl")
    records = [json.loads(line) for line in run.out.decode().split("\n")[:-1]]
    assert [record["offset"] for record in records] == list(range(6))
    assert records[0]["headers"][2] == {"name": "a", "value": "/w==", "value_encoding": "base64"}
    assert [record["value"] is None for record in records] == [False, True, False, False, False, False]
    assert base64.b64decode(records[4]["value"]) == b"\xc3\xbc\xff\x1b[2J"
    assert (records[5]["timestamp"], records[5]["timestamp_type"]) == (NOON + 5, "create")
    document = json.loads(consume(any_kafka, mixed, "-o", "start", "-e", "--output", "json").out)
    assert (document["kcli"], document["kind"], document["items"]) == (1, "consume.topic", records)
    [covered] = document["coverage"]
    assert (covered["position"], covered["complete"]) == (6, True)


def sorted_lines(run: Finished) -> list[bytes]:
    return sorted(run.lines)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-o", "start", "-p", "1", "-e"], {1: range(10)}),
        (["-o", "8:", "-e"], {0: range(8, 10), 1: range(8, 10), 2: range(8, 10)}),
        (["-o", "2:4"], {0: range(2, 4), 1: range(2, 4), 2: range(2, 4)}),
        (["-o", "-1:end"], {0: [9], 1: [9], 2: [9]}),
        (["-o", "+9:end"], {0: [9], 1: [9], 2: [9]}),
        (["-o", ":1"], {0: [0], 1: [0], 2: [0]}),
        (["-o", "start:end", "-o", "0=9:,2=5:6", "-e"], {0: [9], 1: range(10), 2: [5]}),
        (["-o", "1=3:5"], {1: range(3, 5)}),
        (["-o", f"@{NOON + 8 * HOUR}", "-e"], {0: [8, 9], 1: [8, 9], 2: [8, 9]}),
        (["-o", "@2024-01-31T20:30:2024-01-31T21:00:00.001Z"], {0: [9], 1: [9], 2: [9]}),
        (["-o", "@2024-01-31T13:00+01:00:2024-01-31T13:00"], {0: [0], 1: [0], 2: [0]}),
        (["-o", "start", "-e", "--grep", "^[02]-7$"], {0: [7], 2: [7]}),
        (["--from-beginning", "-e", "--grep", "-7"], {0: [7], 1: [7], 2: [7]}),
        (["-o", "start", "-e", "--invert", "--grep", "-[0-8]"], {0: [9], 1: [9], 2: [9]}),
        (["-e"], {}),
    ],
)
def test_ranges_and_filters(options: list[str], expected: dict[int, list[int]], hourly: str, any_kafka: Kafka) -> None:
    run = consume(any_kafka, hourly, *options)
    assert run.status == 0, run.err
    assert sorted_lines(run) == [b"%d-%d" % (p, hour) for p, hours in expected.items() for hour in hours]


def test_topic_arguments_can_name_partitions(hourly: str, mixed: str, any_kafka: Kafka) -> None:
    run = kcli("consume", f"{hourly}:0,2", mixed, "-o", "-1:end", "-b", any_kafka.bootstrap_servers)
    assert sorted_lines(run) == sorted([b"0-9", b"2-9", b"two", b"lines"])


def test_the_coverage_report_shows_what_was_read(hourly: str, any_kafka: Kafka) -> None:
    run = consume(any_kafka, hourly, "-o", "2:4")
    assert [line.split() for line in run.err.splitlines()] == [
        ["TOPIC", "PARTITION", "ASKED", "COVERED", "PRINTED", "STATE", "STOPPED"],
        *([hourly, str(p), "2:4", "2:4", "2", "complete", "reached", "its", "end"] for p in range(3)),
    ]
    assert consume(any_kafka, hourly, "-o", "2:4", "-q").err == ""


def test_deleted_offsets_are_not_covered(hourly: str, any_kafka: Kafka) -> None:
    run = consume(any_kafka, hourly, "-o", "0=8:20")
    assert (run.status, run.lines) == (5, [b"0-8", b"0-9"])
    assert "offsets 10 to 19 do not exist: the log ends at 10" in run.err


def test_a_start_time_after_the_last_record_reads_nothing_and_reports_it(hourly: str, any_kafka: Kafka) -> None:
    run = consume(any_kafka, hourly, "-o", "@2024-02-10", "-e")
    assert (run.status, run.out) == (0, b"")
    assert f"kcli: {hourly} 0-2: no record at or after 2024-02-10T00:00:00.000Z" in run.err


def test_max_messages_is_exact_across_partitions(hourly: str, any_kafka: Kafka) -> None:
    for options in (["-o", "start"], ["-o", "start", "-e"]):
        run = consume(any_kafka, hourly, *options, "-n", "13")
        assert (run.status, len(run.lines)) == (0, 13)
        assert len(set(run.lines)) == 13


def test_stats_go_to_stderr(hourly: str, any_kafka: Kafka) -> None:
    run = consume(any_kafka, hourly, "-o", "start", "-e", "-q", "--stats")
    rows = [line.split() for line in run.err.splitlines()]
    assert [row[:4] for row in rows[1:5]] == [
        *([hourly, str(p), "10", "30"] for p in range(3)),
        ["total", "-", "30", "90"],
    ]


def test_a_mistyped_topic_is_reported_and_not_created(mixed: str, any_kafka: Kafka) -> None:
    mistyped = mixed + "x"
    run = consume(any_kafka, mistyped, "-o", "start", "-e")
    assert (run.status, run.out) == (3, b"")
    assert f"there is no topic {mistyped}" in run.err
    assert mixed in run.err
    assert len(run.err.splitlines()) == 1
    admin = AdminClient({"bootstrap.servers": any_kafka.bootstrap_servers})
    assert mistyped not in admin.list_topics(timeout=30).topics


def test_an_unknown_partition_is_reported(mixed: str, any_kafka: Kafka) -> None:
    run = consume(any_kafka, f"{mixed}:0,7", "-e")
    assert run.status == 3
    assert "not 7" in run.err


@pytest.mark.parametrize(
    "options",
    [["-o", "yesterday"], ["-o", "5:3"], ["-f", "%q"], ["--grep", "("], ["--idle-timeout", "0"], ["-p", "x"],
     ["--output", "jsonl", "-K", ":"], ["-X", "isolation.level=x"], ["-n", "0"]],
)  # fmt: skip
def test_usage_errors_are_one_line_and_send_no_request(options: list[str]) -> None:
    run = kcli("consume", "topic", "t", "-b", "127.0.0.1:1", *options, timeout_s=20)
    assert run.status == 2
    assert len(run.err.splitlines()) == 1, run.err


def test_a_follower_prints_at_once_and_stops_quietly_at_ctrl_c(any_kafka: Kafka, tmp_path: Path) -> None:
    topic = any_kafka.new_topic(2, prefix="followed")
    producer = any_kafka.ordered_producer(linger_ms=0)
    producer.produce(topic, b"old")
    producer.flush(30)
    out = tmp_path / "out"
    with kcli_running("consume", topic, "-b", any_kafka.bootstrap_servers, stdout=out) as process:
        lines: list[bytes] = []
        deadline = time.monotonic() + 60
        while not lines:  # it starts from the end, whenever it has found that
            assert time.monotonic() < deadline
            producer.produce(topic, b"new", partition=1)
            producer.flush(30)
            lines = out.read_bytes().splitlines()
            time.sleep(0.05)
        for n in range(3):
            producer.produce(topic, b"%d" % n, partition=0)
            producer.flush(30)
        stderr = out.with_suffix(".stderr")
        while not (out.read_bytes().endswith(b"2\n") and stderr.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    assert b"old" not in out.read_bytes()
    assert stderr.read_text() == f"kcli: reached the end of {topic} 0-1; waiting for new records\n"


def test_a_follower_reads_partitions_that_are_added(any_kafka: Kafka, tmp_path: Path) -> None:
    topic = any_kafka.new_topic(1, prefix="growing")
    out = tmp_path / "out"
    options = ["-o", "start", "-f", r"%p %s\n", "-X", "metadata.max.age.ms=200", "-b", any_kafka.bootstrap_servers]
    producer = any_kafka.ordered_producer(linger_ms=0)
    producer.produce(topic, b"old")
    assert producer.flush(30) == 0
    with kcli_running("consume", topic, *options, stdout=out) as process:
        wait_for_lines(out, 1, process)
        any_kafka.add_partitions(topic, 2)
        producer = any_kafka.ordered_producer()
        producer.produce(topic, b"new", partition=1)
        assert producer.flush(30) == 0
        assert wait_for_lines(out, 2, process) == [b"0 old", b"1 new"]
        stderr = out.with_suffix(".stderr").read_text()
        assert f"kcli: {topic} 1: added while the topic was read; read from the log start\n" in stderr


def test_an_idle_follower_ends_with_success(mixed: str, any_kafka: Kafka) -> None:
    run = consume(any_kafka, mixed, "-o", "start", "--idle-timeout", "0.5", "-f", "%o ")
    at_end = f"kcli: reached the end of {mixed} 0; waiting for new records\n"
    assert (run.status, run.out, run.err) == (0, b"0 1 2 3 4 5 ", at_end)


def test_exit_without_an_offset_is_reported_because_it_reads_nothing(mixed: str, any_kafka: Kafka) -> None:
    run = consume(any_kafka, mixed, "-e")
    assert (run.status, run.out) == (0, b"")
    note = "kcli: -e without -o reads nothing: the read starts at the log end; use -o start to start at the log start\n"
    assert run.err.startswith(note)
    assert note not in consume(any_kafka, mixed, "-e", "-o", "end").err


def test_a_closed_pipe_is_a_quiet_success(hourly: str, any_kafka: Kafka) -> None:
    command = [*KCLI, "consume", hourly, "-o", "start", "-q", "-b", any_kafka.bootstrap_servers]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    assert process.stderr is not None
    assert read_line(process, "the first record").endswith(b"-0\n")
    process.stdout.close()
    producer = any_kafka.ordered_producer()
    deadline = time.monotonic() + 30
    while process.poll() is None:  # the next record finds nobody who reads
        assert time.monotonic() < deadline
        producer.produce(hourly, b"after", partition=0, timestamp=NOON + 20 * HOUR)
        producer.flush(30)
        time.sleep(0.05)
    assert (process.returncode, process.stderr.read()) == (0, b"")
    process.stderr.close()


def on_terminal(kafka: Kafka, topic: str, *options: str, until: bytes, **environ: str) -> bytes:
    """Return what a run of kcli shows on a terminal."""
    primary, secondary = pty.openpty()
    command = [*KCLI, "consume", topic, *options, "-q", "-b", kafka.bootstrap_servers]
    variables = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(
        command, stdout=secondary, stderr=subprocess.PIPE, cwd=ROOT, env={**variables, "TERM": "xterm", **environ}
    ) as process:
        os.close(secondary)
        shown = b""
        with killed_after(process, f"{until!r} on the terminal, and the end of the command"):
            while until not in shown:
                shown += os.read(primary, 1000)
            assert process.wait() == 0
    os.close(primary)
    return shown


def test_a_terminal_sees_no_control_characters(mixed: str, any_kafka: Kafka) -> None:
    shown = on_terminal(any_kafka, mixed, "-o", "4:6", until=b"lines")
    assert shown == "ü\\xff\\x1b[2J\r\ntwo\\nlines\r\n".encode()


def test_matches_are_coloured_on_a_terminal(mixed: str, any_kafka: Kafka) -> None:
    options = ("-o", "start:end", "--grep", "wo\\nlin")
    assert on_terminal(any_kafka, mixed, *options, until=b"es") == b"t\x1b[1;31mwo\\nlin\x1b[0mes\r\n"
    assert on_terminal(any_kafka, mixed, *options, until=b"es", NO_COLOR="1") == b"two\\nlines\r\n"
    assert consume(any_kafka, mixed, *options).out == b"two\nlines\n"
