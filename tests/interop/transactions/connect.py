"""Kafka Connect, distributed, with an exactly-once source, killed with SIGKILL: each line of a file once, in order.

Two workers share a connector that reads a growing file (Kafka's own FileStreamSource). The worker with the task is
killed; the other one, or the same after its restart, continues. The leader of the workers writes to the topic of
configurations by a transactional producer, and fences the producers of tasks.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.interop.transactions.java_process import JavaProcess
from tests.limits import Limit
from tests.maven import artifact, fetched
from tests.real_kafka import VERSION, OwnBroker, free_ports

PATIENCE_S = 120
TOPIC = "lines"
WORKER = {
    "group.id": "connect",
    "exactly.once.source.support": "enabled",
    "plugin.discovery": "service_load",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    **{f"{name}.storage.topic": f"connect-{name}" for name in ("config", "offset", "status")},
    **{f"{name}.storage.replication.factor": "1" for name in ("config", "offset", "status")},
    "offset.storage.partitions": "2",
    "status.storage.partitions": "1",
    "session.timeout.ms": "3000",
    "heartbeat.interval.ms": "500",
    "rebalance.timeout.ms": "30000",
    "scheduled.rebalance.max.delay.ms": "0",
}


def fetch_connect() -> Path:
    """Return the folder with the jars of Kafka Connect and its file connector. Raises KafkaUnavailable."""
    names = ("connect-runtime", "connect-file", "connect-json")
    return fetched(
        "Kafka Connect",
        f"kafka-connect-{VERSION}",
        "".join(artifact("org.apache.kafka", name, VERSION) for name in names),
    )


class Account(NamedTuple):
    """The result of all rounds. `aborted` records are those that only read_uncommitted shows."""

    kills: int
    lines: int
    aborted: int


class Worker:
    """A worker process and its REST interface."""

    def __init__(self, broker: OwnBroker, folder: Path, number: int) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.name = f"127.0.0.1:{port}"
        properties = folder / f"worker-{number}.properties"
        settings = {**WORKER, "bootstrap.servers": broker.bootstrap_servers, "listeners": self.url}
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.process = JavaProcess(
            f"{broker.jars}/*:{fetch_connect()}/*",
            ["org.apache.kafka.connect.cli.ConnectDistributed", str(properties)],
            folder / f"worker-{number}.log",
        )

    def request(self, path: str, body: Any = None, method: str = "GET") -> Any:
        """Return the JSON answer; None if the worker does not answer, or not now (409 during a rebalance, 404, 500)."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read() or b"{}")
        except (urllib.error.URLError, OSError):
            return None


class ConnectSoak:
    """One run on a broker. Every failed check is an AssertionError."""

    def __init__(self, broker: OwnBroker, folder: Path, *, workers: int = 2, seed: int = 0) -> None:
        self.kills = 0
        self._broker = broker
        self._chance = random.Random(seed)
        self._source = folder / "source.txt"
        self._source.touch()
        self._workers = [Worker(broker, folder, number) for number in range(workers)]
        self._written = 0
        self._read: list[str] = []
        broker.create_topic(TOPIC)
        self._reader = self._consumer("read_committed")

    def run(self, rounds: int) -> Account:
        """Kill the worker that has the task, `rounds` times."""
        for worker in self._workers:
            worker.process.start()
        self._create_connector()
        for number in range(1, rounds + 1):
            before = self._written
            self._wait_for(f"round {number}: progress", lambda before=before: len(self._read) > before, writes=True)  # type: ignore[misc]
            victim = self._worker_of_the_task()
            self._write(self._chance.randrange(5000))
            time.sleep(self._chance.uniform(0, 0.1))
            victim.process.kill()
            self.kills += 1
            victim.process.start()
        target = self._written
        self._wait_for("all lines are read", lambda: len(self._read) >= target, writes=True)
        # The end of the task commits its last transaction.
        self._wait_for("the end of the connector", self._delete_connector)
        self._wait_for("the end of the task", self._is_decided)
        return self._settle()

    def close(self) -> None:
        for worker in self._workers:
            worker.process.kill()
        self._reader.close()

    def _create_connector(self) -> None:
        connector = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "file": str(self._source),
            "topic": TOPIC,
            "batch.size": "200",
            "exactly.once.support": "required",
            "transaction.boundary": "interval",  # transactions are open most of the time, so that kills leave some open
            "transaction.boundary.interval.ms": "300",
        }
        self._wait_for(
            "the connector is created",
            lambda: self._workers[0].request("/connectors/source/config", connector, "PUT") is not None,
        )

    def _delete_connector(self) -> bool:
        return self._workers[0].request("/connectors/source", method="DELETE") is not None

    def _worker_of_the_task(self) -> Worker:
        """Return the worker that runs the task, by the status that any live worker knows."""
        for worker in self._workers:
            status = worker.request("/connectors/source/status")
            for task in (status or {}).get("tasks", ()):
                with contextlib.suppress(StopIteration):
                    return next(one for one in self._workers if one.name == task["worker_id"])
        return self._workers[0]

    def _write(self, count: int) -> None:
        with self._source.open("a") as file:
            for _ in range(count):
                file.write(f"line {self._written}\n")
                self._written += 1

    def _wait_for(self, what: str, condition: Callable[[], bool], *, writes: bool = False) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(worker.process.log_end() for worker in self._workers)
                raise AssertionError(f"{what}: not within {PATIENCE_S} s; the ends of the workers' logs:\n{logs}")
            if writes:
                self._write(20)
            self._read_on()

    def _consumer(self, isolation: str) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self._broker.bootstrap_servers,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        return consumer

    def _read_on(self) -> None:
        for message in self._reader.consume(1000, 0.1):
            if message.error() is None:
                line = message.value().decode()
                assert line == f"line {len(self._read)}", f"{line!r} after {self._read[-1:]} at {message.offset()}"
                self._read.append(line)

    def _is_decided(self) -> bool:
        """True if no transaction is open: the committed reader is at the end of the log."""
        _, end = self._reader.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=10)
        return self._reader.position([TopicPartition(TOPIC, 0)])[0].offset == end

    def _settle(self) -> Account:
        everything = self._consumer("read_uncommitted")
        shown, ended = 0, False
        limit = Limit(f"the end of {TOPIC}")
        while not ended:
            limit.check()
            for message in everything.consume(1000, 0.1):
                shown += message.error() is None
                ended = ended or (message.error() is not None and message.error().code() == KafkaError._PARTITION_EOF)
        everything.close()
        return Account(self.kills, len(self._read), shown - len(self._read))
