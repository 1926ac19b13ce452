"""Repeated kill -9 under load: no acknowledged record is lost or duplicated, and no committed offset moves back.

The producer lives through all kills (idempotent, acks=all). After each restart a reader continues from its position,
and a committer moves one group's offset forward and remembers the acknowledged commits.
"""

from __future__ import annotations

import random
import time
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.broker_process import BrokerProcess

PARTITIONS = 3
GROUP = "committer"
MOST_WAITING = 300


class Account(NamedTuple):
    """The result of all rounds."""

    rounds: int
    acknowledged: int
    read: int
    commits: int


class KillLoop:
    """One run over one data directory. Every failed check is an AssertionError that names the round."""

    def __init__(self, broker: BrokerProcess, topic: str, *, seed: int) -> None:
        self._broker = broker
        self._topic = topic
        self._chance = random.Random(seed)
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "enable.idempotence": True,
                "log_level": 0,  # or it would tell of each lost connection
                "linger.ms": 1,
                "batch.num.messages": 50,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 50,
                "topic.metadata.refresh.fast.interval.ms": 20,
                "message.timeout.ms": 600_000,
            }
        )
        self._sent = 0
        self._acknowledged: dict[bytes, tuple[int, int]] = {}
        self._refused: list[str] = []
        self._read: dict[tuple[int, int], bytes] = {}
        self._position = [0] * PARTITIONS
        self._committed = [-1] * PARTITIONS
        self._commits = 0

    def run(self, rounds: int) -> Account:
        for number in range(rounds):
            self._round(f"round {number + 1}")
        assert self._producer.flush(120) == 0, "the producer did not finish"
        self._read_on("the end")
        self._settle()
        return Account(rounds, len(self._acknowledged), len(self._read), self._commits)

    def _round(self, name: str) -> None:
        self._wait_for_the_producer(name)
        end = time.monotonic() + self._chance.uniform(0.02, 0.3)
        while time.monotonic() < end:
            self._produce_some()
            if self._chance.random() < 0.05:
                self._commit()
        self._produce_some()  # on their way when the broker dies
        self._broker.kill()
        self._broker.start()
        self._read_on(name)
        self._check_committed(name)

    def _wait_for_the_producer(self, name: str) -> None:
        """Wait until the restarted broker has acknowledged a record, so that the kill comes during traffic."""
        self._producer.poll(0)
        before, deadline = len(self._acknowledged), time.monotonic() + 60
        while len(self._acknowledged) == before:
            assert time.monotonic() < deadline, f"{name}: nothing is acknowledged"
            self._produce_some()

    def _produce_some(self) -> None:
        if len(self._producer) > MOST_WAITING:
            self._producer.poll(0.002)
            return
        for _ in range(20):
            value = b"%d" % self._sent
            self._producer.produce(self._topic, value, partition=self._sent % PARTITIONS, on_delivery=self._on_delivery)
            self._sent += 1
        self._producer.poll(0)

    def _on_delivery(self, error: object, message: object) -> None:
        if error is not None:
            self._refused.append(str(error))
        else:
            self._acknowledged[message.value()] = (message.partition(), message.offset())  # type: ignore[attr-defined]

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._broker.bootstrap_servers,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
        )

    def _commit(self) -> None:
        """Commit the reader's position. It only grows, so a smaller committed offset found later has moved back."""
        wanted = [TopicPartition(self._topic, n, self._position[n]) for n in range(PARTITIONS)]
        consumer = self._consumer()
        try:
            for done in consumer.commit(offsets=wanted, asynchronous=False):
                assert done.error is None, done.error
                self._committed[done.partition] = done.offset
                self._commits += 1
        finally:
            consumer.close()

    def _check_committed(self, name: str) -> None:
        consumer = self._consumer()
        try:
            for found in consumer.committed([TopicPartition(self._topic, n) for n in range(PARTITIONS)], timeout=30):
                least = self._committed[found.partition]
                assert least < 0 or found.offset >= least, (
                    f"{name}: committed {least} in partition {found.partition}, found {found.offset}"
                )
        finally:
            consumer.close()

    def _read_on(self, name: str) -> None:
        """Read from the reader's position to the current end: each offset once, without a gap."""
        consumer = self._consumer()
        consumer.assign([TopicPartition(self._topic, n, self._position[n]) for n in range(PARTITIONS)])
        at_end: set[int] = set()
        deadline = time.monotonic() + 60
        try:
            while len(at_end) < PARTITIONS:
                assert time.monotonic() < deadline, f"{name}: the reader does not get to the end"
                message = consumer.poll(1)
                if message is None:
                    continue
                partition = message.partition()
                if message.error():
                    if message.error().name() != "_PARTITION_EOF":
                        raise KafkaException(message.error())
                    at_end.add(partition)
                    continue
                assert message.offset() == self._position[partition], f"{name}: a hole before {message.offset()}"
                self._read[partition, message.offset()] = message.value()
                self._position[partition] += 1
        finally:
            consumer.close()

    def _settle(self) -> None:
        assert not self._refused, f"the producer was refused: {self._refused[:3]}"
        for value, place in self._acknowledged.items():
            if place[1] >= 0:  # -1: a duplicate so old that the broker has forgotten its offset
                assert self._read.get(place) == value, (
                    f"{value!r} was acknowledged at {place}: {self._read.get(place)!r}"
                )
        values = list(self._read.values())
        assert len(set(values)) == len(values), "records are there twice"
        lost = self._acknowledged.keys() - set(values)
        assert not lost, f"{len(lost)} acknowledged records are lost"
