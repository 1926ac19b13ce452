"""The resident memory of followers over a long time: `python -m tests.bench.follower_soak --minutes 60`.

Each follower is a `kcli consume` that prints a steady trickle of records to a file: with `--checkpoint`, plain, and as
a member of a group. It prints a line per minute and follower, and fails if one has grown; the suite runs a short form.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.broker_process import BrokerProcess
from tests.interop.consume_kills import PARTITIONS, Traffic
from tests.interop.process import kcli_running, wait_for_lines
from tests.real_kafka import Kafka, KafkaNode, OwnBroker, fetch_jars

FOLLOWERS = ("checkpoint", "plain", "group")
WARM_UP = 0.25  # of the samples: caches fill, and the allocator finds its size
ALLOWED_MB = 2.0
_MB = 1e6


class Memory(NamedTuple):
    """Resident memory in MB (10^6 bytes): of the process's own pages, and of files such as numpy's code."""

    own_mb: float
    files_mb: float

    @classmethod
    def of(cls, pid: int) -> Memory:
        """Return the present memory of a process (Linux)."""
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        fields = {name: value.split() for name, _, value in (line.partition(":") for line in status)}
        return cls(*(int(fields[name][0]) * 1024 / _MB for name in ("RssAnon", "RssFile")))


class Followers:
    """Followers of one topic, a producer of `per_s` records a second, and the samples of each follower's memory."""

    def __init__(self, kafka: Kafka, folder: Path, per_s: int, names: tuple[str, ...] = FOLLOWERS) -> None:
        self.samples: dict[str, list[Memory]] = {name: [] for name in names}
        self._kafka = kafka
        self._per_s = per_s
        self._outputs = {name: folder / f"{name}.jsonl" for name in names}
        self._options = {
            "checkpoint": ("--checkpoint", str(folder / "checkpoint")),
            "plain": (),
            "group": ("--group", kafka.new_name("soak")),
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Followers:
        with ExitStack() as stack:
            topic = self._kafka.new_topic(PARTITIONS)
            read = ("consume", topic, "-b", self._kafka.bootstrap_servers, "-o", "start", "--output", "jsonl")
            for name, output in self._outputs.items():
                running = kcli_running(*read, *self._options[name], stdout=output)
                self._processes[name] = stack.enter_context(running)
            stack.enter_context(Traffic(self._kafka, topic, self._per_s))
            self.wait_for_lines(1)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def wait_for_lines(self, count: int) -> None:
        """Wait until each follower has printed this number of records."""
        for name, process in self._processes.items():
            wait_for_lines(self._outputs[name], count, process)

    def sample(self) -> None:
        """Take a sample of each follower. Fails if one has ended."""
        for name, process in self._processes.items():
            assert process.poll() is None, self._outputs[name].with_suffix(".stderr").read_text()
            self.samples[name].append(Memory.of(process.pid))

    def growth_mb(self) -> dict[str, float]:
        """Return by how much the own memory of each follower has grown after the warm-up, in MB."""
        warm = {name: [each.own_mb for each in its[int(len(its) * WARM_UP) :]] for name, its in self.samples.items()}
        return {name: max(sizes) - sizes[0] for name, sizes in warm.items()}


def main(minutes: int, apache: bool, per_s: int) -> int:
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        node: OwnBroker = KafkaNode(folder / "kafka", fetch_jars()) if apache else BrokerProcess(folder / "kcli")
        node.start()
        stack.callback(node.kill)
        followers = stack.enter_context(Followers(node, folder, per_s))
        began = time.monotonic()
        for minute in range(1, minutes + 1):
            time.sleep(max(0.0, began + 60 * minute - time.monotonic()))
            followers.sample()
            now = (f"{name} {its[-1].own_mb:.1f} + {its[-1].files_mb:.1f}" for name, its in followers.samples.items())
            print(f"minute {minute}, own + file pages in MB: {', '.join(now)}", flush=True)
        grown = followers.growth_mb()
        for name, mb in grown.items():
            print(f"{name}: {'flat' if mb <= ALLOWED_MB else 'GROWN'} ({mb:+.1f} MB after the first quarter)")
        return int(max(grown.values()) > ALLOWED_MB)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--apache", action="store_true", help="on Apache's broker instead of kcli's")
    parser.add_argument("--per-s", type=int, default=100, help="records per second [100]")
    options = parser.parse_args()
    raise SystemExit(main(options.minutes, options.apache, options.per_s))
