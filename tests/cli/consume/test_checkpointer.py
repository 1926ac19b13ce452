"""`--checkpoint`: the file and its lock, the output that it cuts, and reads that go on."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.cli.consume.checkpointer import Checkpointer, CheckpointFile, OutputFile
from kcli.clock import ManualClock
from kcli.consumer.read_checkpoint import Checkpoint, Selection
from kcli.consumer.subscription import FetchPosition
from kcli.errors import ConfigError, KcliError, Refused
from kcli.structs import TopicPartition
from tests.cli.fake import Result, run_kcli

EMPTY = Checkpoint(None, Selection({}), {}, {})


# --- the file


def test_a_new_file_has_no_checkpoint_and_keeps_the_one_that_is_written(tmp_path: Path) -> None:
    path = tmp_path / "cp"
    file = CheckpointFile(str(path))
    assert file.load() is None
    written = EMPTY._replace(selection=Selection({"t": None}), topic_ids={"t": None})
    written = written._replace(positions={TopicPartition("t", 0): FetchPosition(7, 1)})
    file.write(EMPTY)
    file.write(written)
    assert file.load() == written
    file.close()
    assert CheckpointFile(str(path)).load() == written
    assert [it.name for it in tmp_path.iterdir()] == ["cp"]


def test_a_file_is_used_by_one_process_at_a_time_also_after_it_was_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "cp")
    file = CheckpointFile(path)
    for _ in range(2):
        with pytest.raises(Refused, match="cp is used by another process"):
            CheckpointFile(path)
        file.write(EMPTY)
    file.close()
    CheckpointFile(path).close()


def test_a_file_keeps_its_permissions_and_its_place_behind_a_link(tmp_path: Path) -> None:
    path = tmp_path / "cp"
    path.touch(0o600)
    (tmp_path / "link").symlink_to(path)
    file = CheckpointFile(str(tmp_path / "link"))
    file.write(EMPTY)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text()
    assert (tmp_path / "link").is_symlink()


def test_a_file_that_cannot_be_used_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("my notes\n")
    for name, reason in (
        ("absent/cp", "cp cannot be opened: No such file or directory"),
        (".", " cannot be opened: Is a directory"),
        ("other", "other is not a valid checkpoint"),
    ):
        with pytest.raises(ConfigError, match=reason):
            CheckpointFile(str(tmp_path / name)).load()
    assert (tmp_path / "other").read_text() == "my notes\n"


def test_a_file_that_cannot_be_replaced_is_an_error_and_unchanged(tmp_path: Path) -> None:
    file = CheckpointFile(str(tmp_path / "cp"))
    file.write(EMPTY)
    (tmp_path / "cp.part").mkdir()
    with pytest.raises(KcliError, match="cp cannot be written: Is a directory"):
        file.write(EMPTY._replace(closed=True))
    assert file.load() == EMPTY


# --- the output


def test_a_mark_tells_whether_the_beginning_of_a_file_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with path.open("ab") as stream:
        output = OutputFile.of(stream)
        assert output is not None
        stream.write(b"12345")
        stream.flush()
        before = output.mark(5)
        stream.write(b"6")
        stream.flush()
        assert (output.mark(5).digest, output.mark(5).length) == (before.digest, 6)
        assert output.mark(6).digest != before.digest
        output.cut(5)
        stream.write(b"7")
    assert path.read_bytes() == b"123457"


def test_a_pipe_is_not_an_output_file() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "wb") as stream:
        assert OutputFile.of(stream) is None


def test_the_output_is_not_the_checkpoint(tmp_path: Path) -> None:
    """Its records would be lost when the file is replaced."""
    path = tmp_path / "out"
    with path.open("ab") as stream, pytest.raises(ConfigError, match="the output must be another file"):
        Checkpointer(str(path), stream, ManualClock(), print)
    Checkpointer(str(path), io.BytesIO(), ManualClock(), print).close()  # the lock is released


# --- whole reads


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker


class Read:
    """Reads of one topic of three partitions with one checkpoint."""

    def __init__(self, broker: EmbeddedBroker, folder: Path, topic: str) -> None:
        self.broker = broker
        self.file = folder / "cp"
        self.topic = topic
        self.written = 0
        broker.create_topic(topic, 3)

    def write(self, count: int) -> None:
        lines = b"".join(b"%d\n" % (self.written + at) for at in range(count))
        assert run_kcli("produce", self.topic, "-b", self.broker.address, stdin=lines).status == 0
        self.written += count

    def __call__(self, *options: str) -> Result:
        where = ("-b", self.broker.address, "--checkpoint", str(self.file))
        return run_kcli("consume", self.topic, *where, "-q", *options)

    def numbers(self, *options: str) -> list[int]:
        result = self(*options)
        assert (result.status, result.err) == (0, "")
        return sorted(map(int, result.out.split()))


@pytest.fixture
def read(broker: EmbeddedBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Read:
    return Read(broker, tmp_path, f"t{abs(hash(request.node.name))}")


def test_each_read_prints_what_is_new(read: Read) -> None:
    read.write(10)
    assert read.numbers("-o", "start", "-e") == list(range(10))
    assert read.numbers("-o", "start", "-e") == []
    read.write(5)
    assert read.numbers("-e") == list(range(10, 15))


@pytest.mark.parametrize("merge", [[], ["--merge"]])
def test_a_read_that_ends_early_goes_on_at_the_first_record_that_was_not_printed(read: Read, merge: list[str]) -> None:
    read.write(30)
    parts = [read.numbers("-o", "start", "-e", "-n", "7", *merge) for _ in range(4)]
    parts.append(read.numbers("-e", *merge))
    assert [len(part) for part in parts] == [7, 7, 7, 7, 2]
    assert sorted(chain.from_iterable(parts)) == list(range(30))


def test_a_first_read_of_new_records_stores_where_it_starts(read: Read) -> None:
    read.write(10)
    assert read.numbers("-e") == []
    read.write(3)
    assert read.numbers("-e") == [10, 11, 12]


def test_records_that_a_filter_excludes_are_passed(read: Read) -> None:
    read.write(10)
    assert read.numbers("-o", "start", "-e", "--grep", "[02468]") == [0, 2, 4, 6, 8]
    assert read.numbers("-e") == []


def test_partitions_that_were_added_meanwhile_are_read_from_their_start(read: Read) -> None:
    read.write(6)
    read.numbers("-e")
    assert run_kcli("produce", read.topic, "-b", read.broker.address, "-p", "0", stdin=b"100\n").status == 0
    admin = AdminClient({"bootstrap.servers": read.broker.address})
    admin.create_partitions([NewPartitions(read.topic, 4)])[read.topic].result(30)
    assert run_kcli("produce", read.topic, "-b", read.broker.address, "-p", "3", stdin=b"101\n").status == 0
    assert read.numbers("-e") == [100, 101]


def test_other_topics_and_a_topic_that_was_created_again_are_refused(read: Read) -> None:
    read.write(1)
    read.numbers("-o", "start", "-e")
    refused = read("-e", "-p", "1")
    assert (refused.status, refused.out) == (4, b"")
    assert refused.err.endswith(f"is a checkpoint of {read.topic}, not of {read.topic}:1; use another file\n")
    where = ("-b", read.broker.address)
    assert run_kcli("topic", "delete", read.topic, "--execute", *where).status == 0
    read.broker.create_topic(read.topic, 3)
    refused = read("-e")
    assert (refused.status, refused.out) == (4, b"")
    assert "was deleted and created again after the checkpoint; remove the file" in refused.err


def test_after_a_kill_the_output_is_cut_and_read_again(read: Read, tmp_path: Path) -> None:
    read.write(10)
    out = tmp_path / "out.jsonl"

    def run(mode: str, *options: str) -> tuple[int, str]:
        argv = [sys.executable, "-m", "kcli", "consume", read.topic, "-b", read.broker.address]
        argv += ["--checkpoint", str(read.file), "--output", "jsonl", "-e", *options]
        with out.open(mode) as stream:
            process = subprocess.run(argv, stdout=stream, stderr=subprocess.PIPE, timeout=60, check=False)
        return process.returncode, process.stderr.decode()

    assert run("ab", "-o", "start", "-n", "4", "-q") == (0, "")
    kept = json.loads(read.file.read_text())
    assert kept["output"]["length"] == out.stat().st_size
    read.file.write_text(json.dumps({**kept, "closed": False}))  # as a kill leaves it
    with out.open("ab") as stream:
        stream.write(b'{"written after the checkpo')
    other = out.read_bytes()
    assert run("wb")[0] == 4
    out.write_bytes(other[1:])
    assert "append to it (>>)" in run("wb")[1]
    out.write_bytes(b"x" + other[1:])
    status, errors = run("ab")
    assert status == 4
    assert "was changed after the checkpoint" in errors
    out.write_bytes(other)
    status, errors = run("ab")
    assert status == 0
    assert "27 bytes that were written after the checkpoint are removed from the output" in errors
    assert sorted(int(json.loads(line)["value"]) for line in out.read_bytes().splitlines()) == list(range(10))


def test_headings_are_printed_once_into_a_file(read: Read, tmp_path: Path) -> None:
    read.write(2)
    out = tmp_path / "out.csv"
    for _ in range(2):
        argv = [
            sys.executable,
            "-m",
            "kcli",
            "consume",
            read.topic,
            "-b",
            read.broker.address,
            "-q",
            "-e",
            "-o",
            "start",
        ]
        with out.open("ab") as stream:
            argv += ["--checkpoint", str(read.file), "--output", "csv"]
            assert subprocess.run(argv, stdout=stream, timeout=60, check=False).returncode == 0
        read.write(1)
    lines = out.read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["topic", *[read.topic] * 3]


def test_the_last_records_are_printed_only_by_the_first_read(read: Read) -> None:
    read.write(20)
    first = read("--tail", "5", "-e", "-f", "%T %s\\n")
    rows = [tuple(map(int, line.split())) for line in first.out.splitlines()]
    assert (first.status, len(rows)) == (0, 5)
    assert [time for time, _ in rows] == sorted(time for time, _ in rows)
    read.write(3)
    assert read.numbers("--tail", "5", "-e") == [20, 21, 22]
