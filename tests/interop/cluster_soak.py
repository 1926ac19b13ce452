"""Three real Kafka nodes that fail under kcli's clients: the parties of a soak, its steps and its account.

An idempotent producer writes; a follower without a group and groups of two members each print what they read with
`kcli consume`. Faults raise AssertionError: a lost record, a record doubled without the crash of a member, and a member
above 10% of a core while it prints nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kcli import Consumer, Producer, TopicPartition
from tests.interop.process import KCLI, ROOT
from tests.interop.soak_account import WINDOW_S, Run, Sample, judge_group, judge_log, read_lines, waiting_of
from tests.real_kafka_cluster import KafkaCluster

TOPIC = "soak"
PARTITIONS = 6
PER_S = 300
LARGEST_SHARE = 0.10
PLACEMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]]
SETTINGS = {
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "min.insync.replicas": "2",
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
        early_end = self.early_end()
        process, self._process = self._process, None
        if process is None or early_end:
            return early_end
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return f"{self.name} did not end within 60 s of SIGINT"
        return ""

    def early_end(self) -> str:
        """Return the status and the errors of a process that has ended by itself, or an empty string."""
        status = self._process.poll() if self._process is not None else None
        if status is None:
            return ""
        return f"{self.name} ended by itself with {status}: {self.errors()[-500:]}"

    def errors(self) -> str:
        """Return the standard error of the last process."""
        return self.files[-1][0].with_suffix(".stderr").read_text()

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

    def close(self) -> None:
        """End the thread, if it was started and still runs."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(60)

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

    def __init__(self, cluster: KafkaCluster, folder: Path, groups: Mapping[str, tuple[str, ...]]) -> None:
        """`groups`: options of `kcli consume` by name."""
        self._cluster = cluster
        self._bootstrap = ",".join(node.bootstrap_servers for node in cluster.nodes.values())
        self._began = time.monotonic()
        self.writer = Writer(self._bootstrap)
        self.follower = Reader("follower", folder, self._bootstrap, None, ())
        self.members = {
            group: [Reader(f"{group}-{letter}", folder, self._bootstrap, group, options) for letter in "ab"]
            for group, options in groups.items()
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

    def rest(self, meanwhile: Callable[[], None]) -> None:
        """Write nothing meanwhile, so that all readers wait."""
        self.writer.pause()
        self.say("no records")
        meanwhile()
        self.writer.resume()

    def kill(self, number: int, meanwhile: Callable[[], None]) -> None:
        """Kill a node with SIGKILL, start it again, and elect the preferred leaders."""
        self._cluster.nodes[number].kill()
        self.say(f"node {number} killed")
        meanwhile()
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

    def freeze(self, number: int, meanwhile: Callable[[], None]) -> None:
        """Stop a node with SIGSTOP while no records are written: its clients get no answers."""
        self.writer.pause()
        pid = self._cluster.nodes[number].pid
        assert pid is not None
        self.say(f"node {number} frozen")
        os.kill(pid, signal.SIGSTOP)
        try:
            meanwhile()
        finally:
            os.kill(pid, signal.SIGCONT)
        self._until_whole()
        self._elect()
        self.say(f"node {number} runs again, preferred leaders elected")
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

    # --- conditions

    def until_printed(self, more: int) -> None:
        """Wait until each party has printed all records that are stored now, and `more` that are written later."""
        self._until_parties_printed(self.writer.sent + more)

    def _until_parties_printed(self, count: int) -> None:
        parties: list[list[Reader]] = [[self.follower], *self.members.values()]

        def is_printed() -> bool:
            self._check_readers()
            return all(
                len({it[:2] for r in party for run in r.runs() for it in run.lines}) >= count for party in parties
            )

        self._until(is_printed, f"{count} printed records of each party")

    def until_all_print(self) -> None:
        """Wait until each process has printed a record: each member of a group then has partitions."""

        def is_printed() -> bool:
            self._check_readers()
            return all(reader.runs()[-1].lines for reader in self.readers)

        self._until(is_printed, "a record of each reader")

    def until_idle(self) -> None:
        """Wait until each reader has printed nothing for a window of the judge, who omits those that never printed."""
        first = {reader.name: len(reader.samples[-1]) for reader in self.readers}

        def is_idle() -> bool:
            self._check_readers()
            recent = [reader.samples[-1][first[reader.name] :] for reader in self.readers if reader.runs()[-1].lines]
            return all(waiting_of(samples, warm_up_s=0).seconds > WINDOW_S for samples in recent)

        self._until(is_idle, "idle readers")

    def _check_readers(self) -> None:
        ended = [*filter(None, (reader.early_end() for reader in self.readers))]
        assert not ended, "\n".join(ended)

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
        with contextlib.suppress(AssertionError):  # the account shows what is missing
            self._until_parties_printed(count)
            self.until_idle()
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
        """End all clients, whatever happened; the nodes still run."""
        self._over.set()
        self.writer.close()
        for reader in self.readers:
            reader.end()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
