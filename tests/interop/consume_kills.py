"""A group member that prints is killed (-9) at random moments and restarted: each record is printed at least once.

A producer writes during all rounds. Each round prints into its own file, because a kill can tear the last line.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.interop.forked import Forker
from tests.real_kafka import Kafka

PARTITIONS = 3
FORMAT = "%p %o\\n"


class Account(NamedTuple):
    """The result of all rounds, including rounds that were killed before they printed."""

    rounds: int
    silent: int
    produced: int
    printed: int
    twice: int


class Traffic:
    """A background producer: `per_s` records a second over all partitions until it is stopped."""

    def __init__(self, kafka: Kafka, topic: str, per_s: int) -> None:
        self.produced = 0
        self._producer = kafka.ordered_producer()
        self._topic = topic
        self._per_s = per_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        assert self._producer.flush(30) == 0

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            for _ in range(self._per_s // 50):
                self._producer.produce(self._topic, b"%d" % self.produced, partition=self.produced % PARTITIONS)
                self.produced += 1
            self._producer.poll(0)


class ConsumeKills:
    """The rounds over one topic and group. Every failed check is an AssertionError that names the round."""

    def __init__(
        self, forker: Forker, kafka: Kafka, topic: str, folder: Path, options: tuple[str, ...], seed: int
    ) -> None:
        self._argv = [
            *("consume", "topic", topic, "-b", kafka.bootstrap_servers, "--group", f"killed-{topic}"),
            *("-o", "start", "-f", FORMAT, "-X", "auto.commit.interval.ms=30", *options),
        ]
        self._forker = forker
        self._folder = folder
        self._chance = random.Random(seed)
        self._next = [0] * PARTITIONS  # all before it was printed, in every partition
        self._seen: Counter[tuple[int, int]] = Counter()
        self._silent = 0

    def round(self, number: int, longest_s: float) -> None:
        """Start the member, let it print for a while, kill it, and check what it printed."""
        file = self._folder / f"round-{number}"
        pid = self._forker.start(self._argv, file)
        try:
            if self._chance.random() < 0.8:  # else it is killed while it starts and joins
                self._wait_for_output(file, number)
            time.sleep(self._chance.uniform(0, longest_s))
        finally:
            self._forker.kill(pid)
            status = self._forker.wait(pid)
        assert status == -signal.SIGKILL, f"round {number} ended by itself: {file.with_suffix('.stderr').read_text()}"
        if file.exists():
            self._take(file, number)

    def _wait_for_output(self, file: Path, number: int) -> None:
        deadline = time.monotonic() + 60
        while not file.exists() or not file.stat().st_size:
            errors = file.with_suffix(".stderr")
            assert time.monotonic() < deadline, f"round {number} printed nothing: {errors.read_text()}"
            time.sleep(0.005)

    def finish(self, produced: int) -> None:
        """Run members to the end of the log; these end by themselves.

        One run is enough, except where the broker assigns: there a dead member keeps its partitions until its session
        ends.
        """
        deadline = time.monotonic() + 30
        file = self._folder / "last"
        while sum(self._next) < produced and time.monotonic() < deadline:
            pid = self._forker.start([*self._argv, "-e"], file)
            assert self._forker.wait(pid) == 0, file.with_suffix(".stderr").read_text()
            self._take(file, -1)

    def _take(self, file: Path, number: int) -> None:
        whole = file.read_bytes().rpartition(b"\n")[0]
        lines = [tuple(map(int, line.split())) for line in whole.split(b"\n") if line]
        self._silent += not lines
        begun: dict[int, int] = {}
        for partition, offset in lines:
            begin = begun.get(partition)
            if begin is None:
                assert offset <= self._next[partition], (
                    f"round {number} skipped {self._next[partition]} to {offset - 1} of partition {partition}"
                )
            else:
                assert offset == begin + 1, f"round {number} printed {offset} after {begin} of partition {partition}"
            begun[partition] = offset
            self._seen[partition, offset] += 1
        for partition, offset in begun.items():
            self._next[partition] = max(self._next[partition], offset + 1)

    def account(self, rounds: int, produced: int) -> Account:
        """Check that every produced record was printed, and return the result."""
        assert sum(self._next) == produced == len(self._seen), (self._next, produced, len(self._seen))
        twice = sum(count - 1 for count in self._seen.values())
        return Account(rounds, self._silent, produced, len(self._seen), twice)


def run(
    kafka: Kafka, folder: Path, *options: str, rounds: int, longest_s: float, per_s: int = 1_000, seed: int = 20261121
) -> Account:
    """Run all rounds on one broker and return the result."""
    topic = kafka.new_topic(PARTITIONS, prefix="kills")
    with Forker() as forker:
        kills = ConsumeKills(forker, kafka, topic, folder, options, seed)
        with Traffic(kafka, topic, per_s) as traffic:
            for number in range(rounds):
                kills.round(number, longest_s)
        kills.finish(traffic.produced)
    return kills.account(rounds, traffic.produced)
