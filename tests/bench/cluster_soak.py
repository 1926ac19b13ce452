"""Three real Kafka nodes killed, rolled and stopped under kcli's clients: `python -m tests.bench.cluster_soak`.

An idempotent producer writes; a follower without a group and three groups of two members each (range,
cooperative-sticky and KIP-848) print what they read with `kcli consume`. Meanwhile the nodes get six kill -9, elections
of preferred leaders, a reassignment, a roll and stops (SIGSTOP) of 17 s, and one member of each group is killed. Faults
raise AssertionError: a lost record, a record doubled without the crash of a member, and a member above 10% of a core
while it prints nothing. `--short`: two kills, no roll. `--keep FOLDER` keeps what was printed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kcli import Consumer, Producer, TopicPartition
from kcli.errors import KcliError
from tests.interop.process import KCLI, ROOT
from tests.interop.soak_account import Run, Sample, judge_group, judge_log, read_lines, waiting_of
from tests.real_kafka import fetch_jars
from tests.real_kafka_cluster import KafkaCluster

TOPIC = "soak"
PARTITIONS = 6
PER_S = 300
LARGEST_SHARE = 0.10
STOP_S = 17.0
PLACEMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]]
COORDINATORS = [[2, 3, 1], [3, 1, 2], [1, 2, 3], [2, 1, 3]]
SETTINGS = {
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "min.insync.replicas": "2",
}
GROUPS = {
    "eager": ("-X", "partition.assignment.strategy=range"),
    "cooperative": ("-X", "partition.assignment.strategy=cooperative-sticky"),
    "next-generation": ("--protocol", "consumer"),
}
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


class Reader:
    """One `kcli consume` process after another; each prints into its own file."""

    def __init__(self, name: str, folder: Path, bootstrap: str, group: str | None, options: tuple[str, ...]) -> None:
        self.name = name
        self.group = group
        self.files: list[tuple[Path, bool]] = []  # and whether the process was killed
        self.samples: list[list[Sample]] = []
        self._folder = folder
        self._argv = [*KCLI, "consume", "topic", TOPIC, "-b", bootstrap, "-o", "start", "-f", "%p %o %s\\n", *options]
        self._argv += ["--group", f"soak-{group}"] if group else []
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0

    def start(self) -> None:
        file = self._folder / f"{self.name}-{len(self.files)}"
        with file.open("wb") as out, file.with_suffix(".stderr").open("wb") as errors:
            self._process = subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, cwd=ROOT)
        self._began = time.monotonic()
        self.files.append((file, False))
        self.samples.append([])

    def sample(self) -> None:
        """Add a sample of the running process."""
        process = self._process
        if process is not None and process.poll() is None:
            cpu_s = _cpu_s(process.pid)
            size = self.files[-1][0].stat().st_size
            self.samples[-1].append(Sample(time.monotonic() - self._began, cpu_s, size))

    def crash(self) -> None:
        """Kill the process with SIGKILL."""
        assert self._process is not None
        self.files[-1] = self.files[-1][0], True
        self._process.kill()
        self._process.wait()

    def end(self) -> str:
        """End the process as Ctrl-C does. Return what is wrong with its end, or an empty string."""
        process, self._process = self._process, None
        if process is None:
            return ""
        early = process.poll()
        if early is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                return f"{self.name} did not end within 60 s of SIGINT"
            return ""
        return (
            f"{self.name} ended by itself with {early}: {self.files[-1][0].with_suffix('.stderr').read_text()[-500:]}"
        )

    def runs(self) -> list[Run]:
        return [Run(read_lines(file.read_bytes()), crashed) for file, crashed in self.files]


class Writer:
    """A thread with an idempotent producer: PER_S records a second, whose values are consecutive numbers."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.failed: list[str] = []
        self.sent = 0
        self._open: deque[tuple[int, Any]] = deque()
        self._paused, self._is_idle, self._stopped = threading.Event(), threading.Event(), threading.Event()
        self._bootstrap = bootstrap
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def pause(self) -> None:
        """Return when all records are acknowledged, and write no more until `resume`."""
        self._paused.set()
        assert self._is_idle.wait(300), "the producer could not flush in 300 s"

    def resume(self) -> None:
        self._is_idle.clear()
        self._paused.clear()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(320)
        assert not self._thread.is_alive(), "the producer did not end"

    def _run(self) -> None:
        with Producer(bootstrap_servers=self._bootstrap, delivery_timeout_ms=300_000, linger_ms=5) as producer:
            while not self._stopped.wait(0.02):
                if self._paused.is_set():
                    if not self._is_idle.is_set():
                        producer.flush()
                        self._collect()
                        self._is_idle.set()
                    continue
                for _ in range(PER_S // 50):
                    sent = producer.send(TOPIC, b"%d" % self.sent, partition=self.sent % PARTITIONS)
                    self._open.append((self.sent, sent))
                    self.sent += 1
                producer.poll(0)
                self._collect()
            producer.flush()
            self._collect()

    def _collect(self) -> None:
        waiting = deque[tuple[int, Any]]()
        for value, future in self._open:
            if not future.done:
                waiting.append((value, future))
            elif future.error is not None:
                self.failed.append(f"record {value}: {future.error}")
            else:
                stored = future.value()
                self.acknowledged[value] = stored.partition, stored.offset
        self._open = waiting


class Soak:
    """The cluster, its clients, and the steps."""

    def __init__(self, cluster: KafkaCluster, folder: Path) -> None:
        self._cluster = cluster
        self._bootstrap = ",".join(node.bootstrap_servers for node in cluster.nodes.values())
        self._began = time.monotonic()
        self.writer = Writer(self._bootstrap)
        self.follower = Reader("follower", folder, self._bootstrap, None, ())
        self.members = {
            group: [Reader(f"{group}-{letter}", folder, self._bootstrap, group, options) for letter in "ab"]
            for group, options in GROUPS.items()
        }
        self._over = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._folder = folder

    @property
    def readers(self) -> list[Reader]:
        return [self.follower, *(member for pair in self.members.values() for member in pair)]

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}; {len(self.writer.acknowledged)} stored", flush=True)

    def start(self) -> None:
        self._cluster.create_placed_topic(TOPIC, PLACEMENT, min_insync_replicas="2")
        self._until_whole()
        self._sampler.start()
        for reader in self.readers:
            reader.start()
        self.writer.start()
        self.say("started")

    def _sample(self) -> None:
        while not self._over.wait(1.0):
            for reader in self.readers:
                reader.sample()

    # --- steps

    def rest(self, seconds: float) -> None:
        """Write nothing for a while, so that all readers wait."""
        self.writer.pause()
        self.say(f"{seconds:g} s without records")
        time.sleep(seconds)
        self.writer.resume()

    def kill(self, number: int, *, down_s: float = 4.0) -> None:
        """Kill a node with SIGKILL, start it again, and elect the preferred leaders."""
        self._cluster.nodes[number].kill()
        self.say(f"node {number} killed")
        time.sleep(down_s)
        self._bring_back(number)

    def roll(self) -> None:
        """Stop and start each node in turn."""
        for number, node in self._cluster.nodes.items():
            node.stop()
            self.say(f"node {number} stopped")
            self._bring_back(number)

    def _bring_back(self, number: int) -> None:
        self._cluster.nodes[number].start()
        self._until_whole()
        self._elect()
        self.say(f"node {number} is back, preferred leaders elected")

    def freeze(self, number: int) -> None:
        """Stop a node with SIGSTOP while no records are written: its clients get no answers."""
        self.writer.pause()
        pid = self._cluster.nodes[number].pid
        assert pid is not None
        self.say(f"node {number} frozen for {STOP_S:g} s")
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(STOP_S)
        finally:
            os.kill(pid, signal.SIGCONT)
        self._until_whole()
        self._elect()
        self.writer.resume()

    def crash_members(self) -> None:
        """Kill one member of each group, and start it again."""
        for first, _ in self.members.values():
            first.crash()
            first.start()
        self.say("one member of each group killed and started again")

    def reassign(self) -> None:
        """Take the leader of partition 0 out of its replicas, and put it back as the last one."""
        for replicas in ([2, 3], [2, 3, 1]):
            plan = {"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "replicas": replicas}]}
            file = self._folder / "reassignment.json"
            file.write_text(json.dumps(plan))
            arguments = ("--bootstrap-server", self._bootstrap, "--reassignment-json-file", str(file), "--execute")
            self._cluster.tool(REASSIGN, *arguments)
            self._until(
                lambda replicas=replicas: self._partitions(TOPIC)[0].replicas == replicas, "the reassignment to end"
            )
            self.say(f"partition 0 reassigned to {replicas}")
        self._until_whole()

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})

    def _partitions(self, topic: str) -> dict[int, Any]:
        found: dict[int, Any] = self._admin().list_topics(topic, timeout=10).topics[topic].partitions
        return found

    def _until_whole(self) -> None:
        """Wait until all replicas are in sync."""

        def is_whole() -> bool:
            topics = (TOPIC, "__consumer_offsets")
            return all(sorted(p.isrs) == [1, 2, 3] for topic in topics for p in self._partitions(topic).values())

        self._until(is_whole, "all replicas to be in sync")

    def _elect(self) -> None:
        from confluent_kafka import ElectionType

        def is_elected() -> bool:
            admin = self._admin()  # the future needs the client
            admin.elect_leaders(ElectionType.PREFERRED, None).result(30)
            return all(p.leader == p.replicas[0] for p in self._partitions(TOPIC).values())

        self._until(is_elected, "the preferred leaders")

    @staticmethod
    def _until(condition: Callable[[], bool], awaited: str, timeout_s: float = 180) -> None:
        from confluent_kafka import KafkaException

        deadline, last = time.monotonic() + timeout_s, ""
        while time.monotonic() < deadline:
            try:
                if condition():
                    return
            except KafkaException as error:
                last = f": {error}"
            time.sleep(0.3)
        raise AssertionError(f"waited {timeout_s:g} s for {awaited}{last}")

    # --- the end

    def finish(self) -> None:
        """Wait until every reader has printed everything; print the account; raise AssertionError for the faults."""
        self.writer.stop()
        self.say("the producer has ended")
        ends = self._ends()
        count = sum(ends.values())
        parties: list[list[Reader]] = [[self.follower], *self.members.values()]
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            if all(len({it[:2] for r in party for run in r.runs() for it in run.lines}) >= count for party in parties):
                break
            time.sleep(2)
        time.sleep(8)  # the readers wait
        self._over.set()
        self._sampler.join(10)
        faults = [*self.writer.failed, *filter(None, (reader.end() for reader in self.readers))]
        faults += judge_log(self.writer.acknowledged, ends, self.follower.runs()[0])
        self.say(f"{count} records in the log")
        for group, pair in self.members.items():
            wrong, again = judge_group(group, ends, [run for member in pair for run in member.runs()])
            faults += wrong
            print(f"group {group}: {again} printed again after a crash")
        for reader in self.readers:
            faults += self._judge_idle(reader)
        assert not faults, "\n".join([f"{len(faults)} faults", *faults[:30]])

    def _judge_idle(self, reader: Reader) -> list[str]:
        faults = []
        for run, samples in zip(reader.runs(), reader.samples, strict=True):
            waiting = waiting_of(samples)
            cpu_s = samples[-1].cpu_s if samples else 0.0
            print(
                f"{reader.name:18} {len(run.lines):8} records, {cpu_s:6.2f} s CPU in {len(samples):4} s; "
                f"idle {waiting.seconds:5.0f} s, at most {100 * waiting.largest_share:.1f}% of a core "
                f"({waiting.largest_at_s:.0f} s after its start)"
            )
            if waiting.largest_share > LARGEST_SHARE:
                faults.append(f"{reader.name} took {100 * waiting.largest_share:.0f}% of a core while it waited")
        return faults

    def _ends(self) -> dict[int, int]:
        with Consumer(bootstrap_servers=self._bootstrap) as consumer:
            ends = consumer.end_offsets([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        return {tp.partition: end for tp, end in ends.items()}

    def close(self) -> None:
        """End all readers, whatever happened."""
        self._over.set()
        for reader in self.readers:
            reader.end()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(folder: Path, *, short: bool) -> None:
    """Run the soak with its files in `folder`."""
    cluster = KafkaCluster(folder / "cluster", fetch_jars(), 3, SETTINGS, COORDINATORS)
    soak = None
    try:
        cluster.start()
        soak = Soak(cluster, folder)
        soak.start()
        time.sleep(10)
        soak.rest(15)
        for number in (2, 3) if short else (2, 3, 1):
            soak.kill(number)
        soak.crash_members()
        soak.reassign()
        soak.freeze(2)
        if not short:
            time.sleep(50)  # the groups remove the killed members after session.timeout.ms
            soak.roll()
            for number in (3, 1, 2):
                soak.kill(number, down_s=8)
            soak.freeze(1)
            soak.rest(20)
        soak.finish()
    except KcliError as error:
        raise AssertionError(f"kcli failed: {error}") from error
    finally:
        if soak is not None:
            soak.close()
        cluster.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cluster_soak", description=__doc__)
    parser.add_argument("--short", action="store_true", help="two kills, no roll")
    parser.add_argument("--keep", type=Path, help="keep what the readers printed in this folder")
    given = parser.parse_args()
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        main(given.keep, short=given.short)
    else:
        with tempfile.TemporaryDirectory(prefix="kcli-soak-") as scratch:
            main(Path(scratch), short=given.short)
    sys.exit(0)
