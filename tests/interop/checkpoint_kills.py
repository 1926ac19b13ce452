"""A follower with a checkpoint is killed (-9) at random moments and restarted: its output file has each record once.

A producer writes during all rounds. All rounds append to one file, as `kcli consume ... >> FILE` does.
"""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.interop.consume_kills import PARTITIONS, Traffic
from tests.interop.forked import Forker
from tests.real_kafka import Kafka


class Account(NamedTuple):
    """The result of all rounds: those that were killed before they wrote, and those whose output was cut later."""

    rounds: int
    silent: int
    cut: int
    produced: int
    printed: int


class CheckpointKills:
    """The rounds over one topic, one output file and one checkpoint."""

    def __init__(
        self, forker: Forker, kafka: Kafka, topic: str, folder: Path, options: tuple[str, ...], seed: int
    ) -> None:
        self._checkpoint = folder / "checkpoint"
        self._argv = [
            *("consume", "topic", topic, "-b", kafka.bootstrap_servers, "--checkpoint", str(self._checkpoint)),
            *("-o", "start", "--output", "jsonl", *options),
        ]
        self._forker = forker
        self._file = folder / "out.jsonl"
        self._chance = random.Random(seed)
        self.silent = self.cut = 0

    def round(self, number: int, longest_s: float) -> None:
        """Start the follower, let it print for a while, and kill it."""
        before = self._size()
        pid = self._forker.start(self._argv, self._file, append=True)
        try:
            if self._chance.random() < 0.8:  # else it is killed while it starts
                self._wait_for_output(before, number)
            time.sleep(self._chance.uniform(0, longest_s))
        finally:
            self._forker.kill(pid)
            status = self._forker.wait(pid)
        assert status == -signal.SIGKILL, f"round {number} ended by itself: {self._errors()}"
        self.silent += self._size() == before
        self.cut += "are removed from the output" in self._errors()

    def _wait_for_output(self, before: int, number: int) -> None:
        deadline = time.monotonic() + 60
        while self._size() <= before:
            assert time.monotonic() < deadline, f"round {number} printed nothing: {self._errors()}"
            time.sleep(0.002)

    def finish(self) -> None:
        """Read to the end of the log; this read ends by itself."""
        pid = self._forker.start([*self._argv, "-e"], self._file, append=True)
        assert self._forker.wait(pid) == 0, self._errors()

    def _size(self) -> int:
        return self._file.stat().st_size if self._file.exists() else 0

    def _errors(self) -> str:
        return self._file.with_suffix(".stderr").read_text()

    def records(self) -> list[dict[str, Any]]:
        """Return all records of the output."""
        text = self._file.read_bytes()
        assert not text or text.endswith(b"\n")
        return [json.loads(line) for line in text.splitlines()]


def run(
    kafka: Kafka, folder: Path, *options: str, rounds: int, longest_s: float, per_s: int = 2_000, seed: int = 20261122
) -> Account:
    """Run all rounds on one broker, check the output, and return the result."""
    topic = kafka.new_topic(PARTITIONS, prefix="checkpoint")
    with Forker() as forker:
        kills = CheckpointKills(forker, kafka, topic, folder, options, seed)
        with Traffic(kafka, topic, per_s) as traffic:
            for number in range(rounds):
                kills.round(number, longest_s)
        kills.finish()
    records = kills.records()
    offsets: list[list[int]] = [[] for _ in range(PARTITIONS)]
    for record in records:
        offsets[record["partition"]].append(record["offset"])
    for partition, its in enumerate(offsets):
        assert its == list(range(len(its))), f"partition {partition}: {_first_fault(its)}"
    assert len(records) == traffic.produced, f"{traffic.produced} records were written, {len(records)} printed"
    assert sorted(int(record["value"]) for record in records) == list(range(traffic.produced))
    return Account(rounds, kills.silent, kills.cut, traffic.produced, len(records))


def _first_fault(offsets: list[int]) -> str:
    at = next(at for at, offset in enumerate(offsets) if at != offset)
    return f"record {at} has offset {offsets[at]}, after {offsets[max(0, at - 3) : at]}"
