"""An operator's day with kcli, at a prompt and in scripts, on both brokers."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.interop.process import KCLI, ROOT, Finished, kcli, kcli_running, wait_for_lines
from tests.interop.shapes import head_deleted, produce
from tests.limits import killed_after, read_line
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

Header = tuple[str, bytes | None]
BINARY = b"\x00\xff\xfe\x1b[31mred\x1b[0m\nsecond line\ttab"
NASTY = [
    b"plain",
    None,
    b"",
    BINARY,
    b"\x1b]0;title\x07",
    "\u2603 \u00e9 \U0001f600 \u202eevil \u009b31m".encode(),
    b'quote " comma, back\\slash \r\n crlf',
    b"\x1e separated \x1f",
]

IN_HEADERS = [b"\xff\xfe" if value == BINARY else value for value in NASTY]  # kcat ends a header at a zero byte


def at(kafka: Kafka) -> tuple[str, str]:
    return "-b", kafka.bootstrap_servers


def done(run: Finished) -> Finished:
    assert run.status == 0, run.err
    return run


def nasty_topic(kafka: Kafka, count: int = 400) -> str:
    """Records with any mixture of keys, values, headers and times, all in one partition."""
    topic, chance = kafka.new_topic(prefix="nasty", retention_ms=-1), random.Random(7)
    producer = kafka.ordered_producer()
    for n in range(count):
        names = ["a", "a", "\u00fc", "h\x1b[5m", ""]
        headers: list[Any] = [
            (chance.choice(names), chance.choice(IN_HEADERS)) for _ in range(chance.choice([0, 0, 1, 3]))
        ]
        key, value = NASTY[n % len(NASTY)], NASTY[n // len(NASTY) % len(NASTY)]
        producer.produce(topic, value, key, headers=headers, timestamp=chance.choice([1, 1_700_000_000_000 + n]))
    assert producer.flush(60) == 0
    return topic


def seen_by_kcat(kcat: str, kafka: Kafka, topic: str, form: str = "%o|%T|%K|%k|%S|%s|%h\n") -> bytes:
    command = [kcat, "-b", kafka.bootstrap_servers, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", form]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout


def test_json_lines_carry_a_topic_over_exactly(any_kafka: Kafka, kcat: str) -> None:
    source, copy = nasty_topic(any_kafka), any_kafka.new_topic(retention_ms=-1)
    read = done(kcli("consume", source, "-o", "start", "-e", "--output", "jsonl", *at(any_kafka)))
    done(kcli("produce", copy, "--input", "jsonl", "-z", "zstd", *at(any_kafka), stdin=read.out))
    assert seen_by_kcat(kcat, any_kafka, copy) == seen_by_kcat(kcat, any_kafka, source)


@pytest.mark.parametrize("form", [r"%t %p %o %T %K %k %S %s %h %%\n", r"%R|%s\n", r"%h\t%k\r\n", r"no verb\x21\n"])
def test_formats_equal_those_of_kcat(form: str, any_kafka: Kafka, kcat: str) -> None:
    topic = nasty_topic(any_kafka)
    run = done(kcli("consume", topic, "-o", "start", "-e", "-f", form, *at(any_kafka)))
    assert run.out == seen_by_kcat(kcat, any_kafka, topic, form)


def coverage_of(run: Finished) -> dict[int, dict[str, Any]]:
    return {one["partition"]: one for one in json.loads(run.out)["coverage"]}


def test_continuing_after_n_records_returns_every_record_once(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(partitions=3)
    produce(any_kafka, topic, [b"%d" % n for n in range(600)], **{"sticky.partitioning.linger.ms": 0})
    first = kcli("consume", topic, "-o", "start", "-e", "-n", "250", "--output", "json", *at(any_kafka))
    assert first.status == 0
    assert "--max-messages reached" in first.err
    covered = coverage_of(first)
    assert not all(one["complete"] for one in covered.values())
    rest_of = [word for number, one in covered.items() for word in ("-o", f"{number}={one['position']}:end")]
    rest = done(kcli("consume", topic, *rest_of, "--output", "json", *at(any_kafka)))
    values = [item["value"] for run in (first, rest) for item in json.loads(run.out)["items"]]
    assert sorted(map(int, values)) == list(range(600))


def test_a_follower_reports_that_its_start_offset_was_deleted(any_kafka: Kafka) -> None:
    topic = head_deleted(any_kafka).topic
    run = kcli("consume", topic, "-o", "0", "--idle-timeout", "1", *at(any_kafka))
    assert (run.status, len(run.lines)) == (5, 40)
    assert "offsets 0 to 59 were deleted: the log starts at 60" in run.err


def test_no_property_creates_a_mistyped_topic(any_kafka: Kafka) -> None:
    name, allowed = any_kafka.new_name("typo"), ("-X", "allow.auto.create.topics=true")
    for command in (("consume", name, "-e"), ("produce", name), ("topic", "describe", name, "--configs")):
        assert kcli(*command, *allowed, *at(any_kafka), stdin=b"x\n").status == 3
    assert name.encode() not in done(kcli("topic", "list", *at(any_kafka))).lines


def test_invalid_topic_names_are_refused(any_kafka: Kafka) -> None:
    for command in (("consume", "a/b", "-e"), ("produce", "a/b"), ("topic", "describe", "a/b")):
        run = kcli(*command, *at(any_kafka))
        assert run.status == 3, run.err
        assert run.err.count("\n") == 1
    assert kcli("topic", "delete", "a/b", "--yes", *at(any_kafka)).status == 3
    assert kcli("topic", "create", "a/b", *at(any_kafka)).status == 1


def test_a_follower_ends_at_once_when_its_pipe_is_closed(any_kafka: Kafka) -> None:
    """`kcli consume orders -o start | head -1` must not wait for a second record that never comes."""
    topic = any_kafka.new_topic()
    produce(any_kafka, topic, [b"only"])
    command = [*KCLI, "consume", topic, "-o", "start", *at(any_kafka)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stderr:
        assert read_line(process, "the only record") == b"only\n"
        process.stdout.close()
        assert process.wait(20) == 0
        assert process.stderr.read() in (
            b"",
            b"kcli: reached the end of %s 0; waiting for new records\n" % topic.encode(),
        )


def test_a_deleted_topic_is_reported_while_others_are_followed(any_kafka: Kafka, tmp_path: Path) -> None:
    doomed, kept = any_kafka.new_topic(prefix="doomed"), any_kafka.new_topic()
    for topic in (doomed, kept):
        produce(any_kafka, topic, [b"before"])
    out = tmp_path / "out"
    with kcli_running("consume", doomed, kept, "-o", "start", *at(any_kafka), stdout=out) as follower:
        wait_for_lines(out, 2, follower)
        done(kcli("topic", "delete", doomed, "--yes", *at(any_kafka)))
        reached, deleted = wait_for_lines(out.with_suffix(".stderr"), 2, follower)
        assert b"reached the end" in reached
        assert f"topic {doomed} was deleted".encode() in deleted
        produce(any_kafka, kept, [b"after"])
        assert wait_for_lines(out, 3, follower)[2] == b"after"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(20) == 130
    assert len(out.with_suffix(".stderr").read_text().splitlines()) == 2


def test_an_interrupted_json_document_is_complete_and_gives_the_reason(any_kafka: Kafka, tmp_path: Path) -> None:
    topic, out = any_kafka.new_topic(), tmp_path / "out"
    produce(any_kafka, topic, [b"one", b"two"])
    command = ("consume", topic, "-o", "start", "--output", "json", *at(any_kafka))
    with kcli_running(*command, stdout=out) as follower:
        wait_for_lines(out, 3, follower)
        follower.send_signal(signal.SIGINT)
        assert follower.wait(20) == 130
    document = json.loads(out.read_bytes())
    assert [item["value"] for item in document["items"]] == ["one", "two"]
    assert [one["stopped"] for one in document["coverage"]] == ["interrupted"]


def on_a_terminal(*arguments: str) -> tuple[int, bytes]:
    """Return the status and all output of kcli with all its streams on a terminal."""
    leader, follower = pty.openpty()
    process = subprocess.Popen([*KCLI, *arguments], stdin=follower, stdout=follower, stderr=follower, cwd=ROOT)
    os.close(follower)
    shown = b""
    with killed_after(process, "the end of the command"):
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # Linux's end of file, when the last process has let go of the terminal
                break
            shown += piece
            if not piece:
                break
    os.close(leader)
    return process.wait(10), shown


@pytest.mark.parametrize("output", ["raw", "-f", "json", "jsonl", "csv", "tsv", "table"])
def test_control_characters_in_records_are_escaped_on_a_terminal(output: str, any_kafka: Kafka) -> None:
    how = {"raw": ("-K", "|"), "-f": ("-f", r"%k|%s|%h\n")}.get(output, ("--output", output))
    status, shown = on_a_terminal("consume", nasty_topic(any_kafka), "-o", "start", "-e", *how, *at(any_kafka))
    assert status == 0
    text = shown.decode()
    assert "second line" in text or b64encode(BINARY).decode() in text
    assert not set(text) & {"\x1b", "\x07", "\x00", "\x1e", "\u009b", "\u202e"}
    assert text.count("\r") == text.count("\r\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("options", [(), ("--output", "json"), ("--output", "table", "-q"), ("--stats",)])
def test_a_full_disk_ends_a_read_with_one_line(options: tuple[str, ...], any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    produce(any_kafka, topic, [b"x" * 100] * 1000)
    command = [*KCLI, "consume", topic, "-o", "start", "-e", *options, *at(any_kafka)]
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, timeout=60)
    assert (run.returncode, run.stderr) == (1, "kcli: standard output: No space left on device\n")
