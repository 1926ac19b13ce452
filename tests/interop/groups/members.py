"""Group members as processes of any client, with one interface: kcat, confluent-kafka, Java and kcli.

They join, read, report and commit after each poll (kcat: by interval). Tests make them leave, kill them and stop them.
Use them in a `with`; members that still run at its end are killed.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from kcli.structs import TopicPartition
from tests.broker_process import BrokerProcess
from tests.java_driver import packed
from tests.jvm_archive import archive_flags
from tests.needs import skip_or_fail
from tests.real_kafka import Kafka, _logging, die_with_parent

ROOT = Path(__file__).parent.parent.parent.parent
SCRIPTS = Path(__file__).parent / "scripts"
JVM = ("-Xmx96m", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
PATIENCE_S = 90  # starts of a JVM are in it
COMMON = {"auto.offset.reset": "earliest"}
CLASSIC = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "300"}
JAVA_STRATEGIES = {
    name: f"org.apache.kafka.clients.consumer.{name.title().replace('-', '')}Assignor"
    for name in ("range", "sticky", "cooperative-sticky")
} | {"roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor"}

Event = dict[str, Any]
Record = tuple[str, int, int]


class MemberProcess:
    """A member in a process of its own, and the events that it reports."""

    def __init__(self, maker: str, command: list[str], understand: Callable[[str], Iterable[Event]]) -> None:
        """`understand` turns a line of output into events; any other line is only kept in `lines`."""
        self.maker = maker
        self.lines: list[str] = []
        self.events: list[Event] = []
        self.paused = False
        self._told = threading.Condition()
        self._understand = understand
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # one pipe keeps the order of what is said
            text=True,
            errors="replace",
            cwd=ROOT,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __repr__(self) -> str:
        state = f"ended {self.status}" if self.status is not None else "stopped" if self.paused else "running"
        shown = ", ".join(map(str, sorted(self.assigned())))
        return f"<{self.maker} member {self.pid} {state}: {shown or 'nothing assigned'}>"

    def __enter__(self) -> MemberProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._told:
                self.lines.append(line.rstrip("\n"))
                self.events.extend(self._understand(line))
                self._told.notify_all()
        with self._told:
            self._told.notify_all()

    # --- what it says

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def events_of(self, *names: str) -> list[Event]:
        """Return its events of these names so far, in order."""
        with self._told:
            return [event for event in self.events if event["event"] in names]

    def assigned(self) -> set[TopicPartition]:
        """The partitions that it owns, by its own events."""
        owned: set[TopicPartition] = set()
        for event in self.events_of("assigned", "revoked", "lost"):
            partitions = {TopicPartition(*one) for one in event["partitions"]}
            owned = owned | partitions if event["event"] == "assigned" else owned - partitions
        return owned

    def records(self) -> list[Record]:
        """Topic, partition and offset of every record so far, in its order."""
        return [
            (event["topic"], event["partition"], at) for event in self.events_of("records") for at in event["offsets"]
        ]

    def committed(self) -> dict[TopicPartition, int]:
        """The last offset of each partition whose commit the broker accepted."""
        return {
            TopicPartition(t, p): offset for event in self.events_of("committed") for t, p, offset in event["offsets"]
        }

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until its events make `condition` true. Fails with its output if it ends or time runs out."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            left = deadline - time.monotonic()
            ended = self.status is not None and not self._listener.is_alive()
            if (ended and not condition()) or left <= 0:
                reason = f"ended with {self.status}" if ended else f"waited {timeout_s} s"
                raise AssertionError(f"{self!r}: {reason}, for {what}; its last words:\n" + self.last_words())
            with self._told:
                self._told.wait(min(left, 0.1))

    def wait_assigned(
        self, wanted: int | Collection[TopicPartition], timeout_s: float = PATIENCE_S
    ) -> set[TopicPartition]:
        """Wait until it owns this number of partitions, or exactly these; return what it owns."""

        def reached() -> bool:
            owned = self.assigned()
            return len(owned) == wanted if isinstance(wanted, int) else owned == set(wanted)

        self.wait(reached, f"the assignment {wanted}", timeout_s)
        return self.assigned()

    def wait_records(self, count: int, timeout_s: float = PATIENCE_S) -> list[Record]:
        """Wait until it has read at least this number of records; return all of them."""
        self.wait(lambda: len(self.records()) >= count, f"{count} records", timeout_s)
        return self.records()

    def last_words(self, lines: int = 25) -> str:
        with self._told:
            return "\n".join(line[:400] for line in self.lines[-lines:])

    # --- what is done to it

    def pause(self) -> None:
        """Stop the process (SIGSTOP): it sends no heartbeats and does not notice."""
        self._process.send_signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        """Let the process continue (SIGCONT)."""
        self._process.send_signal(signal.SIGCONT)
        self.paused = False

    def kill(self) -> None:
        """Kill it with SIGKILL: it does not leave the group. Safe to call twice."""
        self._process.kill()
        self._process.wait()
        self._listener.join(10)

    def leave(self, timeout_s: float = PATIENCE_S) -> None:
        """Make it leave the group and wait for its clean end."""
        if self.paused:
            self.resume()
        self._ask_to_leave()
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            words = self.last_words()
            self.kill()
            raise AssertionError(f"{self!r} did not leave in {timeout_s} s; its last words:\n{words}") from None
        self._listener.join(10)
        assert status == 0, f"{self!r} ended with {status}; its last words:\n{self.last_words()}"

    def _ask_to_leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()


# --- the makers


def confluent_member(kafka: Kafka, group: str, topics: str | Collection[str], **how: Any) -> MemberProcess:
    """confluent-kafka, librdkafka 2.x. A topic that begins with ^ is a regular expression; see `_properties`."""
    return _scripted("confluent", _properties(kafka, group, how, {}), topics, how)


def kcli_member(kafka: Kafka, group: str, topics: str | Collection[str], **how: Any) -> MemberProcess:
    """kcli's own Consumer."""
    return _scripted("kcli", _properties(kafka, group, how, {}), topics, how)


def java_member(kafka: Kafka, group: str, topics: str | Collection[str], **how: Any) -> MemberProcess:
    """Apache's Java client."""
    command = [*_jvm_of_members(kafka.jars, kafka.version, _archived_member(kafka.jars, kafka.version)), "JavaMember"]
    properties = _properties(kafka, group, how, JAVA_STRATEGIES)
    return MemberProcess("java", [*command, *_arguments(properties, topics, how)], _json_events)


def _jvm_of_members(jars: Path, version: str, flags: tuple[str, ...]) -> list[str]:
    path = f"{jars}/*:{packed(SCRIPTS / 'JavaMember.java', jars)}"
    return ["java", *JVM, *flags, *_logging(version, "warn"), "-cp", path]


@functools.cache
def _archived_member(jars: Path, version: str) -> tuple[str, ...]:
    """Return JVM options that make members start faster; a member on our broker trains the archive."""

    def train(flags: tuple[str, ...]) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            broker = BrokerProcess(Path(scratch), jars)
            broker.start()
            topic = broker.new_topic()
            producer = broker.ordered_producer()
            producer.produce(topic, b"record", partition=0)
            assert producer.flush(30) == 0
            command = [*_jvm_of_members(jars, version, flags), "JavaMember"]
            words = _arguments(_properties(broker, "training", {}, JAVA_STRATEGIES), topic, {})
            with MemberProcess("java", [*command, *words], _json_events) as member:
                member.wait_records(1)
                member.leave(60)
            broker.kill()

    return archive_flags(packed(SCRIPTS / "JavaMember.java", jars).with_suffix(".jsa"), train)


def kcat_member(kafka: Kafka, group: str, topics: str | Collection[str], **how: Any) -> MemberProcess:
    """kcat (librdkafka 2.0), classic groups only; it commits every 5 s, when revoked and when it leaves."""
    path = shutil.which("kcat") or shutil.which("kafkacat") or skip_or_fail("there is no `kcat` on the PATH")
    properties = _properties(kafka, group, how, {})
    del properties["bootstrap.servers"], properties["group.id"]
    command = [path, "-b", kafka.bootstrap_servers, "-u", "-f", "record %t %p %o\\n"]
    command += [word for name, value in properties.items() for word in ("-X", f"{name}={value}")]
    return _Kcat("kcat", [*command, "-G", group, *_listed(topics)], _kcat_events)


MAKERS: dict[str, Callable[..., MemberProcess]] = {
    "kcat": kcat_member,
    "confluent": confluent_member,
    "java": java_member,
    "kcli": kcli_member,
}


class _Kcat(MemberProcess):
    def _ask_to_leave(self) -> None:
        self._process.terminate()


OWN = ("protocol", "assignor", "instance_id", "commit", "work_ms")


def _properties(kafka: Kafka, group: str, how: dict[str, Any], strategies: Mapping[str, str]) -> dict[str, str]:
    """Return Kafka's properties of a member.

    `how`: protocol ("classic", "consumer"), assignor (its classic name, or the server's), instance_id, commit ("sync"
    after each poll, "auto", "none"), work_ms (processing time per poll), properties with underscores.
    """
    new = how.get("protocol", "classic") == "consumer"
    properties = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, **COMMON}
    properties |= {"group.protocol": "consumer"} if new else CLASSIC
    if how.get("assignor") is not None:
        named = how["assignor"].split(",")
        classic = ",".join(strategies.get(name, name) for name in named)
        properties |= {"group.remote.assignor": named[0]} if new else {"partition.assignment.strategy": classic}
    if how.get("instance_id") is not None:
        properties["group.instance.id"] = how["instance_id"]
    given = {name.replace("_", "."): str(value) for name, value in how.items() if name not in OWN}
    return {**properties, **given}


def _scripted(
    maker: str, properties: dict[str, str], topics: str | Collection[str], how: dict[str, Any]
) -> MemberProcess:
    command = [sys.executable, "-m", f"tests.interop.groups.scripts.{maker}_member"]
    return MemberProcess(maker, [*command, *_arguments(properties, topics, how)], _json_events)


def _arguments(properties: dict[str, str], topics: str | Collection[str], how: dict[str, Any]) -> list[str]:
    words = [how.get("commit", "sync"), str(how.get("work_ms", 0)), ",".join(_listed(topics))]
    return words + [f"{name}={value}" for name, value in properties.items()]


def _listed(topics: str | Collection[str]) -> list[str]:
    return [topics] if isinstance(topics, str) else list(topics)


def _json_events(line: str) -> Iterable[Event]:
    if line.startswith('{"event"'):
        yield json.loads(line)


def _kcat_events(line: str) -> Iterable[Event]:
    """Return events of a kcat line. kcat prints no times: they are those of our reading."""
    now = time.monotonic_ns()
    if line.startswith("record "):
        _, topic, partition, offset = line.split()
        yield {"event": "records", "at": now, "topic": topic, "partition": int(partition), "offsets": [int(offset)]}
    found = re.match(
        r"% Group \S+ rebalanced.*?: (?:incremental )?(assigned|assignment|revoked|revoke)\b.*?: (.*)", line
    )
    if found is not None:
        partitions = [(topic, int(number)) for topic, number in re.findall(r"(\S+) \[(\d+)\]", found[2])]
        yield {"event": "assigned" if found[1].startswith("assign") else "revoked", "at": now, "partitions": partitions}
