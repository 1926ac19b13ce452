"""Kafka Streams word count with exactly_once_v2, killed with SIGKILL while it runs: the output is exact.

Each record of the output has a word and its number of occurrences so far, so that the counts of a word must be
1, 2, 3 to the end: a record that is lost, doubled or visible though aborted breaks the sequence. A producer writes the
text all the time. The application uses two topics of its own (repartition and changelog).
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.interop.transactions.java_process import JavaProcess
from tests.java_driver import compiled
from tests.limits import Limit
from tests.maven import artifact, fetched
from tests.real_kafka import VERSION, OwnBroker

SOURCE = Path(__file__).parent / "WordCount.java"
WORDS = ("ebb", "flow", "gull", "keel", "mast", "oar", "reef", "sail", "tide", "wave")
PARTITIONS = 2
PATIENCE_S = 90
SETTINGS = {
    "application.id": "word-count",
    "processing.guarantee": "exactly_once_v2",
    "num.stream.threads": "2",
    "statestore.cache.max.bytes": "0",
    "replication.factor": "1",
    "producer.transaction.timeout.ms": "3000",
    "consumer.session.timeout.ms": "1500",
    "consumer.heartbeat.interval.ms": "200",
    "consumer.auto.offset.reset": "earliest",
    "commit.interval.ms": "100",
}


def fetch_streams() -> Path:
    """Return the folder with the jars of Kafka Streams. Raises KafkaUnavailable."""
    return fetched("Kafka Streams", f"kafka-streams-{VERSION}", artifact("org.apache.kafka", "kafka-streams", VERSION))


class Account(NamedTuple):
    """The result of all rounds. `aborted` records of the output are those that only read_uncommitted shows."""

    kills: int
    words: int
    aborted: int


class WordCountSoak:
    """One run on a broker that it may kill. Every failed check is an AssertionError."""

    def __init__(self, broker: OwnBroker, folder: Path, *, seed: int = 0) -> None:
        self.kills = 0
        self._broker = broker
        self._state = folder / "state"
        self._chance = random.Random(seed)
        jars = broker.jars
        settings = {**SETTINGS, "bootstrap.servers": broker.bootstrap_servers, "state.dir": str(self._state)}
        self._process = JavaProcess(
            f"{jars}/*:{fetch_streams()}/*:{compiled(SOURCE, jars, fetch_streams())}",
            [SOURCE.stem, *(f"{name}={value}" for name, value in settings.items())],
            folder / "streams.log",
        )
        self._sent: Counter[str] = Counter()
        self._counts: dict[str, list[int]] = defaultdict(list)
        for topic in ("text", "counts"):
            broker.create_topic(topic, PARTITIONS)
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "enable.idempotence": True,
                "log_level": 0,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "message.timeout.ms": 600_000,
            }
        )
        self._reader = self._consumer("read_committed")

    def run(self, rounds: int, *, broker_every: int = 4) -> Account:
        """Kill the application `rounds` times, each `broker_every` the broker, too. Each fifth loses its state.

        Without its state directory the application has another transactional id: nobody fences the transaction of the
        one before, and it must time out.
        """
        for number in range(1, rounds + 1):
            self._process.start()
            self._wait_for_progress(f"round {number}")
            self._write(self._chance.uniform(0.05, 0.4))
            if number % broker_every == 0:
                self._broker.kill()
            self._kill()
            if number % broker_every == 0:
                self._broker.start()
            if number % 5 == 0:
                shutil.rmtree(self._state)
        self._process.start()
        assert self._producer.flush(60) == 0, "the text was not stored"
        self._wait_for("all words are counted", lambda: self._counted() >= self._sent.total())
        self._process.stop(PATIENCE_S)
        return self._settle()

    def close(self) -> None:
        self._kill()
        self._reader.close()

    def _kill(self) -> None:
        self.kills += self._process.kill()

    def _wait_for_progress(self, name: str) -> None:
        """Wait until the new process has committed something."""
        before = self._sent.total()
        self._wait_for(f"{name}: progress", lambda: self._counted() > before, writes=True)

    def _wait_for(self, what: str, condition: Callable[[], bool], *, writes: bool = False) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                end = self._process.log_end()
                raise AssertionError(f"{what}: not within {PATIENCE_S} s; the end of the log of Streams:\n{end}")
            if writes:
                self._write(0.05)
            self._read()

    def _counted(self) -> int:
        return sum(map(len, self._counts.values()))

    def _write(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if len(self._producer) < 500:
                line = self._chance.choices(WORDS, k=5)
                self._producer.produce("text", " ".join(line))
                self._sent.update(line)
            self._producer.poll(0.005)

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
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
            }
        )
        consumer.assign([TopicPartition("counts", number, 0) for number in range(PARTITIONS)])
        return consumer

    def _read(self) -> None:
        for message in self._reader.consume(1000, 0.05):
            if message.error() is None:
                word, count = message.key().decode(), int(message.value())
                found = self._counts[word]
                assert count == len(found) + 1, f"{word}: {count} after {found[-3:]} at {message.offset()}"
                found.append(count)
            elif message.error().code() not in (KafkaError._PARTITION_EOF, KafkaError._ALL_BROKERS_DOWN):
                assert message.error().retriable() or message.error().code() == KafkaError._TRANSPORT, message.error()

    def _settle(self) -> Account:
        words = {word: len(counts) for word, counts in self._counts.items()}
        assert words == self._sent
        everything = self._consumer("read_uncommitted")
        ended: set[int] = set()
        shown = 0
        limit = Limit("the ends of the counts")
        while len(ended) < PARTITIONS:
            limit.check()
            for message in everything.consume(1000, 0.1):
                if message.error() is None:
                    shown += 1
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        everything.close()
        return Account(self.kills, self._sent.total(), shown - self._sent.total())
