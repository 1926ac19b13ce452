"""`kcli offsets reset --execute` killed (-9) at random moments, then undone: all offsets are as before, byte for byte.

Several groups read one topic, so that a kill can come between two commits. Some partitions have no commit before.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import NamedTuple

from kafka import KafkaAdminClient

from kcli.admin.offsets.commits import commit_many
from kcli.admin.snapshots import SnapshotStore, default_folder
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.interop.forked import Forker
from tests.limits import Limit
from tests.real_kafka import Kafka

GROUPS, PARTITIONS = 5, 40  # 200 offsets that an execute moves
RECORDS = 3

Positions = dict[str, dict[TopicPartition, OffsetAndMetadata]]


class Account(NamedTuple):
    """The number of rounds killed before a snapshot existed and, with a snapshot, how much had been written."""

    early: int
    nothing: int
    part: int
    all: int
    ended: int


class Pace(NamedTuple):
    """The time that an execute takes until its snapshot exists, and the time that it writes after that."""

    looking_s: float
    writing_s: float


class OffsetKills:
    """The rounds over one topic. Every failed check is an AssertionError that names the round."""

    def __init__(self, forker: Forker, kafka: Kafka, folder: Path, seed: int) -> None:
        self._forker = forker
        self._kafka = kafka
        self._folder = folder
        self._store = SnapshotStore(default_folder({"XDG_STATE_HOME": str(folder)}))
        self._chance = random.Random(seed)
        self._topic = kafka.new_topic(PARTITIONS, prefix="kills")
        self._groups = [kafka.new_name("killed") for _ in range(GROUPS)]
        self._admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
        self._fill()
        self.before = self._commit()

    def _fill(self) -> None:
        producer = self._kafka.ordered_producer()
        for number in range(PARTITIONS):
            for _ in range(RECORDS):
                producer.produce(self._topic, b"record", partition=number)
        assert producer.flush(30) == 0

    def _commit(self) -> Positions:
        wanted = {
            group: {
                TopicPartition(self._topic, number): OffsetAndMetadata(1, number % 3 - 1, f"caf\u00e9 {group} {number}")
                for number in range(PARTITIONS)
                if number % 7 or not number
            }
            for group in self._groups
        }
        config = ClientConfig.from_properties({"bootstrap.servers": self._kafka.bootstrap_servers})
        with connect(config) as client:
            assert not any(commit_many(client, wanted, client.clock.now_ms() + 30_000).values())
        assert self._positions() == wanted
        return wanted

    def _positions(self) -> Positions:
        """Return the committed offsets, read with kafka-python."""
        listed = self._admin.list_group_offsets(self._groups)
        return {
            group: {
                TopicPartition(tp.topic, tp.partition): OffsetAndMetadata(it.offset, it.leader_epoch, it.metadata)
                for tp, it in offsets.items()
                if it.offset >= 0
            }
            for group, offsets in listed.items()
        }

    def _start(self, name: str, *argv: str) -> tuple[int, Path]:
        file = self._folder / name
        at = ("-b", self._kafka.bootstrap_servers, "--execute")
        return self._forker.start(["offsets", *argv, *at], file), file.with_suffix(".stderr")

    def _run(self, name: str, *argv: str) -> None:
        pid, errors = self._start(name, *argv)
        assert self._forker.wait(pid) == 0, f"{name}: {errors.read_text()}"

    def close(self) -> None:
        self._admin.close()

    def measure(self) -> Pace:
        """Measure an execute that is not killed, and undo it."""
        began = time.monotonic()
        pid, errors = self._start("whole", "reset", *self._groups, "--to-latest", "--topic", self._topic)
        self._wait_for_snapshot(pid, [])
        seen = time.monotonic()
        assert self._forker.wait(pid) == 0, errors.read_text()
        pace = Pace(seen - began, time.monotonic() - seen)
        assert all(len(offsets) == PARTITIONS for offsets in self._positions().values())
        self._run("whole-undo", "undo", "--last")
        assert self._positions() == self.before
        return pace

    def _wait_for_snapshot(self, pid: int, known: list[str]) -> None:
        """Wait until a new snapshot exists or the process has ended."""
        limit = Limit("a snapshot, or the end of the process")
        while self._store.ids() == known and _is_running(pid):
            limit.check()
            time.sleep(0.0005)

    def round(self, number: int, pace: Pace) -> str:
        """Start, kill, check how much was written, undo, and check again.

        Two of three kills come while it writes, or shortly before.
        """
        known = self._store.ids()
        to = "--to-latest" if number % 2 else "--to-earliest"
        pid, errors = self._start(f"round-{number}", "reset", *self._groups, to, "--topic", self._topic)
        if number % 3:
            self._wait_for_snapshot(pid, known)
            time.sleep(self._chance.random() ** 3 * pace.writing_s)  # most of which goes into ending
        else:
            time.sleep(self._chance.uniform(0, pace.looking_s + pace.writing_s))
        self._forker.kill(pid)
        status = self._forker.wait(pid)
        assert status in (0, -signal.SIGKILL), f"round {number} ended by itself: {errors.read_text()}"
        new = [one for one in self._store.ids() if one not in known]
        now = self._positions()
        if not new:
            assert status != 0
            assert now == self.before, f"round {number} wrote something without a snapshot"
            return "early"
        moved = sum(now[group] != self.before[group] for group in self._groups)
        self._run(f"undo-{number}", "undo", new[0])
        assert self._positions() == self.before, f"round {number} cannot be undone"
        if not status:
            return "ended"
        return "nothing" if not moved else "all" if moved == GROUPS else "part"


def _is_running(pid: int) -> bool:
    """True if the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it ended before the file was opened, or before it was read
        return False


def run(kafka: Kafka, folder: Path, *, rounds: int, seed: int = 20261121) -> Account:
    """Run all rounds on one broker and return the result."""
    outer = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder)  # for the processes that the forker forks
    try:
        with Forker() as forker:
            kills = OffsetKills(forker, kafka, folder, seed)
            pace = kills.measure()
            ends = [kills.round(number, pace) for number in range(rounds)]
            kills.close()
    finally:
        if outer is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = outer
    return Account(*(ends.count(name) for name in Account._fields))
