"""Four clients in three languages in one group: each gets partitions, and each record goes to one of them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol

from kafka import KafkaConsumer

from tests.foreign import SCRIPTS, python_with
from tests.interop.clients.test_confluent_groups import Member, fill
from tests.interop.clients.test_java_groups import Verifier
from tests.limits import join
from tests.real_kafka import Kafka


class Reader(Protocol):
    """A group member of any client."""

    @property
    def partitions(self) -> list[int]: ...

    @property
    def numbers(self) -> list[int]: ...

    def poll(self) -> None: ...

    def close(self) -> None: ...


class Librdkafka(Member):
    @property
    def numbers(self) -> list[int]:
        return [int(value) for value in self.values]

    def close(self) -> None:
        self.consumer.close()


class Java(Verifier):
    @property
    def numbers(self) -> list[int]:
        return self.values

    def poll(self) -> None:
        """Do nothing: the member polls in its own process."""

    def close(self) -> None:
        self.end()


class NewPython:
    """kafka-python 3."""

    def __init__(self, kafka: Kafka, group: str, topic: str) -> None:
        settings: dict[str, Any] = {"group_id": group, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 200}
        self._consumer = KafkaConsumer(topic, bootstrap_servers=kafka.bootstrap_servers, **settings)
        self.numbers: list[int] = []

    @property
    def partitions(self) -> list[int]:
        return sorted(tp.partition for tp in self._consumer.assignment())

    def poll(self) -> None:
        polled = self._consumer.poll(50).values()
        self.numbers.extend(int(record.value) for records in polled for record in records)

    def close(self) -> None:
        self._consumer.close()


class OldPython:
    """kafka-python 2.0.2 in a process of its own."""

    def __init__(self, kafka: Kafka, group: str, topic: str) -> None:
        interpreter = python_with("kafka-python==2.0.2", "six==1.17.0")
        command = [str(interpreter), str(SCRIPTS / "old_member.py"), kafka.bootstrap_servers, topic, group]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.partitions: list[int] = []
        self.numbers: list[int] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for result in map(json.loads, self._process.stdout):
            if "partitions" in result:
                self.partitions = result["partitions"]
            else:
                self.numbers.append(int(result["value"]))

    def poll(self) -> None:
        """Do nothing: the member polls in its own process."""

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        self._process.kill()
        self._process.wait()
        join(self._listener)


@contextlib.contextmanager
def members(kafka: Kafka, group: str, topic: str) -> Iterator[list[Reader]]:
    """One member of each client, closed after the test."""
    with contextlib.ExitStack() as closing:
        found: list[Reader] = []
        for client in (Java, OldPython, NewPython):
            found.append(client(kafka, group, topic))
            closing.callback(found[-1].close)
        found.append(Librdkafka(kafka, group, topic, partition_assignment_strategy="range"))
        closing.callback(found[-1].close)
        yield found


def test_four_clients_share_a_topic(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(partitions=8), any_kafka.new_name("group")
    with members(any_kafka, group, topic) as all_of_them:
        deadline = time.monotonic() + 90

        def poll() -> None:
            shares = [one.partitions for one in all_of_them]
            assert time.monotonic() < deadline, f"{shares}, {[len(one.numbers) for one in all_of_them]} records"
            for one in all_of_them:
                one.poll()
            time.sleep(0.01)

        while sorted(p for one in all_of_them for p in one.partitions) != list(range(8)) or not all(
            len(one.partitions) == 2 for one in all_of_them
        ):
            poll()
        fill(any_kafka, topic, range(800), partitions=8)
        while sum(len(one.numbers) for one in all_of_them) < 800:
            poll()
        assert [len(one.numbers) for one in all_of_them] == [200] * 4
        assert sorted(n for one in all_of_them for n in one.numbers) == list(range(800))
