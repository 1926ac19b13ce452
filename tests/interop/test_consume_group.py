"""`kcli consume --group` on both brokers: what it prints and commits, and how it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.interop.forked import Forker
from tests.interop.process import KCLI, ROOT, Finished, kcli, kcli_running, wait_for_lines
from tests.limits import read_line
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

Consume = Callable[..., Finished]
PER_PARTITION = 100
QUICK = ("-X", "auto.commit.interval.ms=200")


def produced(kafka: Kafka, partitions: int = 2, count: int = PER_PARTITION) -> str:
    """Create a topic whose partitions have the values `p-0`, `p-1`, ..."""
    topic = kafka.new_topic(partitions, prefix="member")
    produce(kafka, topic, partitions, range(count))
    return topic


def produce(kafka: Kafka, topic: str, partitions: int, numbers: Iterable[int]) -> None:
    producer = kafka.ordered_producer()
    for n in numbers:
        for partition in range(partitions):
            producer.produce(topic, b"%d-%d" % (partition, n), partition=partition)
    assert producer.flush(30) == 0


def words(kafka: Kafka, topic: str, group: str, *options: str) -> list[str]:
    return ["consume", "topic", topic, "-b", kafka.bootstrap_servers, "--group", group, *options]


@pytest.fixture(scope="module")
def forker() -> Iterator[Forker]:
    with Forker() as made:
        yield made


@pytest.fixture
def consume(forker: Forker, tmp_path: Path) -> Callable[..., Finished]:
    """Return `consume(kafka, topic, group, *options)`, which runs kcli to its end."""

    def run(kafka: Kafka, topic: str, group: str, *options: str) -> Finished:
        out = tmp_path / "consumed"
        status = forker.wait(forker.start(words(kafka, topic, group, *options), out))
        err = out.with_suffix(".stderr").read_text()
        assert "Traceback" not in err, err
        return Finished(status, out.read_bytes(), err, 0)

    return run


def committed(kafka: Kafka, topic: str, group: str, partitions: int = 2) -> list[int]:
    """Return the group's offsets; -1001: none."""
    asker = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    try:
        found = asker.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=30)
        return [it.offset for it in found]
    finally:
        asker.close()


def members(kafka: Kafka, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    described = admin.describe_consumer_groups([group])[group].result(30)
    return len(described.members)


def values(partitions: int, numbers: Iterable[int]) -> list[bytes]:
    return sorted(b"%d-%d" % (partition, n) for n in numbers for partition in range(partitions))


def ways(name: str, *everywhere: str) -> pytest.MarkDecorator:
    """Parametrize `name` with both brokers and each kind of membership; our broker has no KIP-848 groups."""
    here = [pytest.param("kcli", way) for way in everywhere]
    there = [pytest.param("apache", way, marks=pytest.mark.real_kafka) for way in (*everywhere, "consumer")]
    return pytest.mark.parametrize(("any_kafka", name), [*here, *there], indirect=["any_kafka"])


# --- what is printed and committed


@ways("protocol", "classic")
def test_the_next_run_continues_where_the_last_one_ended(any_kafka: Kafka, consume: Consume, protocol: str) -> None:
    topic = produced(any_kafka)
    how = ("-o", "start", "-e", "--protocol", protocol)
    first = consume(any_kafka, topic, f"g-{topic}", *how)
    assert (first.status, sorted(first.lines)) == (0, values(2, range(PER_PARTITION)))
    assert committed(any_kafka, topic, f"g-{topic}") == [PER_PARTITION] * 2
    assert members(any_kafka, f"g-{topic}") == 0
    again = consume(any_kafka, topic, f"g-{topic}", *how)
    assert (again.status, again.lines) == (0, [])
    produce(any_kafka, topic, 2, [PER_PARTITION])
    assert sorted(consume(any_kafka, topic, f"g-{topic}", *how).lines) == values(2, [PER_PARTITION])


@ways("protocol", "classic")
def test_runs_with_a_limit_print_each_record_once(any_kafka: Kafka, consume: Consume, protocol: str) -> None:
    """Batches have about ten records, so limits end inside them."""
    topic = produced(any_kafka)
    printed: list[bytes] = []
    for most in (7, 62, 1000):
        how = ("-o", "start", "-n", str(most), "-e", "--protocol", protocol)
        run = consume(any_kafka, topic, f"g-{topic}", *how)
        assert run.status == 0
        assert len(run.lines) == min(most, 2 * PER_PARTITION - len(printed))
        printed += run.lines
        assert sum(max(0, offset) for offset in committed(any_kafka, topic, f"g-{topic}")) == len(printed)
    assert sorted(printed) == values(2, range(PER_PARTITION))


def test_without_commits_nothing_is_committed(our_kafka: Kafka, consume: Consume) -> None:
    topic = produced(our_kafka)
    for off in (["--no-commit"], ["-X", "enable.auto.commit=false"]):
        run = consume(our_kafka, topic, f"g-{topic}", "-o", "start", "-e", *off)
        assert (run.status, len(run.lines)) == (0, 2 * PER_PARTITION)
    assert committed(our_kafka, topic, f"g-{topic}") == [-1001] * 2


def test_filtered_records_are_committed_and_reported(our_kafka: Kafka, consume: Consume) -> None:
    topic = produced(our_kafka)
    run = consume(our_kafka, topic, f"g-{topic}", "-o", "start", "-e", "--grep", "-7$")
    assert sorted(run.lines) == [b"0-7", b"1-7"]
    assert committed(our_kafka, topic, f"g-{topic}") == [PER_PARTITION] * 2
    assert run.err.splitlines()[0] == f"kcli: group g-{topic}: assigned {topic} 0-1"
    assert [line.split()[1:] for line in run.err.splitlines()[-2:]] == [
        ["0", "100", "100", "100", "1"],
        ["1", "100", "100", "100", "1"],
    ]
    assert consume(our_kafka, topic, f"g-{topic}", "-e", "-q").err == ""


def test_a_new_group_starts_at_the_end_and_commits_that_position(our_kafka: Kafka, consume: Consume) -> None:
    """Otherwise it would miss records that arrive between two runs."""
    topic = produced(our_kafka)
    assert consume(our_kafka, topic, f"g-{topic}", "-e").lines == []
    assert committed(our_kafka, topic, f"g-{topic}") == [PER_PARTITION] * 2


# --- how it ends


@ways("protocol", "classic")
def test_an_interrupted_member_leaves_at_once_and_no_record_is_printed_twice(
    any_kafka: Kafka, consume: Consume, tmp_path: Path, protocol: str
) -> None:
    topic = produced(any_kafka)
    printed: list[bytes] = []
    arguments = words(any_kafka, topic, f"g-{topic}", "-o", "start", "--protocol", protocol)
    for n, number in enumerate([signal.SIGINT, signal.SIGTERM]):
        produce(any_kafka, topic, 2, [PER_PARTITION + n])
        file = tmp_path / f"run-{n}"
        with kcli_running(*arguments, stdout=file) as process:
            wait_for_lines(file, 1, process)
            process.send_signal(number)
            assert process.wait(20) == 130
        assert members(any_kafka, f"g-{topic}") == 0
        printed += file.read_bytes().splitlines()
        assert sum(committed(any_kafka, topic, f"g-{topic}")) == len(printed)
    rest = consume(any_kafka, topic, f"g-{topic}", "-e").lines
    assert sorted(printed + rest) == values(2, range(PER_PARTITION + 2))


def with_commit(kafka: Kafka, topic: str, group: str, offset: int) -> str:
    """Commit this offset of partition 0 for the group, without a leader epoch."""
    committer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    committer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    committer.close()
    return group


def test_an_out_of_range_offset_is_reported_with_the_lost_records(any_kafka: Kafka, consume: Consume) -> None:
    topic = produced(any_kafka, 1, 20)
    admin = AdminClient({"bootstrap.servers": any_kafka.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 10)]).values():
        deleted.result(30)
    below = with_commit(any_kafka, topic, f"below-{topic}", 5)
    done = consume(any_kafka, topic, below, "-o", "start", "-e", "-q")
    assert (done.status, sorted(done.out.split())) == (0, sorted(b"0-%d" % n for n in range(10, 20)))
    assert "log start, 10. Offsets 5 to 9 were deleted" in done.err, done.err
    done = consume(any_kafka, topic, below, "-o", "start", "-e")
    assert (done.status, done.out) == (0, b"")
    assert "position 5" not in done.err

    beyond = with_commit(any_kafka, topic, f"beyond-{topic}", 100)
    done = consume(any_kafka, topic, beyond, "-o", "end", "-e")
    assert (done.status, done.out) == (0, b"")
    assert "position 100 is after the log end" in done.err, done.err
    assert committed(any_kafka, topic, beyond, 1) == [20]


def test_a_closed_pipe_ends_with_status_0(any_kafka: Kafka) -> None:
    topic = produced(any_kafka)
    command = [*KCLI, *words(any_kafka, topic, f"g-{topic}", "-o", "start")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    read_line(process, "the first record")
    process.stdout.close()
    assert process.wait(30) == 0
    assert members(any_kafka, f"g-{topic}") == 0
    assert sum(max(0, offset) for offset in committed(any_kafka, topic, f"g-{topic}")) <= 2 * PER_PARTITION


def test_a_closed_output_neither_joins_nor_commits(any_kafka: Kafka) -> None:
    topic = produced(any_kafka, 1)
    assert exit_status_with(">&-", any_kafka, topic) == 1
    assert f"g-{topic}" not in kcli("group", "list", "-b", any_kafka.bootstrap_servers).out.decode()


def test_a_member_without_stderr_reads_and_commits(any_kafka: Kafka) -> None:
    topic = produced(any_kafka, 1)
    assert exit_status_with("2>&-", any_kafka, topic) == 0
    assert committed(any_kafka, topic, f"g-{topic}", 1) == [PER_PARTITION]


def exit_status_with(closed: str, kafka: Kafka, topic: str) -> int:
    """Return the status of a member that reads to the end, started by a shell with this redirection."""
    command = [*KCLI, *words(kafka, topic, f"g-{topic}", "-o", "start", "-e")]
    script = ["sh", "-c", f'exec "$@" {closed}', "sh", *command]
    return subprocess.run(script, stdout=subprocess.DEVNULL, timeout=60, cwd=ROOT).returncode


def test_a_full_disk_commits_the_completely_written_records(any_kafka: Kafka, consume: Consume, tmp_path: Path) -> None:
    """1024 bytes fit: the last line is torn, and the next run prints it again.

    Python must not write bytecode under this limit: it would leave torn files for later processes.
    """
    topic = produced(any_kafka, 1, count=1000)
    file = tmp_path / "out"
    command = [*KCLI, *words(any_kafka, topic, f"g-{topic}", "-o", "start", "-e")]
    limited = ["bash", "-c", f'ulimit -f 1; exec "$@" > {file}', "bash", *command]
    environ = {**os.environ, "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(limited, capture_output=True, timeout=60, cwd=ROOT, env=environ)
    assert done.returncode == 1
    assert b"File too large" in done.stderr
    whole = file.read_bytes().rpartition(b"\n")[0].split(b"\n")
    assert committed(any_kafka, topic, f"g-{topic}", 1) == [len(whole)]
    assert members(any_kafka, f"g-{topic}") == 0
    rest = consume(any_kafka, topic, f"g-{topic}", "-e").lines
    assert whole + rest == [b"0-%d" % n for n in range(1000)]


def test_a_static_member_keeps_its_assignment_over_a_restart(any_kafka: Kafka, consume: Consume) -> None:
    """It does not leave (KIP-345), and its successor gets its partitions without a rebalance."""
    topic = produced(any_kafka)
    how = ("-o", "start", "-e", "--instance-id", "one", "-X", "session.timeout.ms=20000")
    assert len(consume(any_kafka, topic, f"g-{topic}", *how).lines) == 2 * PER_PARTITION
    assert members(any_kafka, f"g-{topic}") == 1
    began = time.monotonic()
    assert consume(any_kafka, topic, f"g-{topic}", *how).lines == []
    assert time.monotonic() - began < 10


def test_missing_topics_and_partitions_are_reported_as_without_a_group(any_kafka: Kafka, consume: Consume) -> None:
    run = consume(any_kafka, "no-such-topic", "g", "-e")
    assert (run.status, run.out) == (3, b"")
    assert "there is no topic no-such-topic" in run.err


# --- several members


@ways("assignor", "range", "cooperative-sticky")
def test_members_share_and_take_over_without_loss_or_repetition(
    any_kafka: Kafka, tmp_path: Path, assignor: str
) -> None:
    """The second member joins while the first one prints; the first is stopped, and the second takes over."""
    topic = produced(any_kafka, 4, count=50)
    how = ("--assignor", assignor, "-X", "heartbeat.interval.ms=300")
    if assignor == "consumer":
        how = ("--protocol", "consumer")
    arguments = words(any_kafka, topic, f"g-{topic}", "-o", "start", *how, *QUICK)
    one, two = tmp_path / "one", tmp_path / "two"
    with kcli_running(*arguments, stdout=one) as first:
        wait_for_lines(one, 200, first)
        with kcli_running(*arguments, stdout=two) as second:
            wait_for_words(two, f"assigned {topic} ")
            produce(any_kafka, topic, 4, range(50, 100))
            wait_for_lines(two, 100, second)
            wait_for_lines(one, 300, first)
            first.send_signal(signal.SIGINT)
            assert first.wait(20) == 130
            produce(any_kafka, topic, 4, range(100, 150))
            wait_for_lines(two, 300, second)
            second.send_signal(signal.SIGINT)
            assert second.wait(20) == 130
    printed = one.read_bytes().splitlines() + two.read_bytes().splitlines()
    assert sorted(printed) == values(4, range(150))
    assert f"revoked {topic}" in one.with_suffix(".stderr").read_text()


def wait_for_words(file: Path, words: str) -> None:
    """Wait until the member has printed this on its standard error."""
    deadline = time.monotonic() + 30
    errors = file.with_suffix(".stderr")
    while words not in errors.read_text():
        assert time.monotonic() < deadline, errors.read_text()
        time.sleep(0.05)
