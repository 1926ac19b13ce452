"""A stopped group on a broker, runs of `kcli offsets`, and the committed offsets afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from kcli.admin.groups.committed_offsets import committed_offsets
from kcli.admin.offsets.commits import commit_offsets, delete_offsets
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.cli.fake import Result, run_kcli
from tests.real_kafka import Kafka

PER_PARTITION = 10
STEP_MS = 1000
PATIENCE_S = 30
Committed = dict[TopicPartition, OffsetAndMetadata]


class Scene:
    """A topic with three partitions, ten records in each, a second apart since `begin_ms`, and a group that has read
    some of the first two: it has committed notes and leader epochs.
    """

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        self.kafka = kafka
        self.state = folder / "state"
        self.topic, self.group = kafka.new_topic(partitions=3), kafka.new_name("group")
        self.begin_ms = int(time.time()) * 1000 - 3_600_000
        producer = kafka.ordered_producer()
        for number in range(PER_PARTITION):
            for partition in range(3):
                at_ms = self.begin_ms + number * STEP_MS
                producer.produce(self.topic, b"v", b"key %d" % number, partition=partition, timestamp=at_ms)
        assert producer.flush(PATIENCE_S) == 0
        self.before: Committed = {
            self.tp(0): OffsetAndMetadata(4, 0, "by the app, caf\u00e9 \u2028"),
            self.tp(1): OffsetAndMetadata(7, -1, ""),
        }
        self.commit(self.before)

    def tp(self, partition: int) -> TopicPartition:
        return TopicPartition(self.topic, partition)

    def offsets(self, *words: str, stdin: bytes = b"", **environ: str) -> Result:
        where = ("-b", self.kafka.bootstrap_servers, "--timeout", "20")
        settings = {"XDG_STATE_HOME": str(self.state), **environ}
        return run_kcli("offsets", words[0], *where, *words[1:], stdin=stdin, environ=settings)

    def reset(self, *words: str, stdin: bytes = b"") -> Result:
        return self.offsets("reset", self.group, *words, stdin=stdin)

    def rows(self, result: Result) -> list[list[str]]:
        """The table without its heading, and without the group's and the topic's name."""
        return [line.split()[2:] for line in result.text.splitlines()[1:]]

    def items(self, result: Result) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = result.document["items"]
        return found

    @contextmanager
    def client(self) -> Iterator[ConsumerNetworkClient]:
        with closing(connect(ClientConfig.from_properties({"bootstrap.servers": self.kafka.bootstrap_servers}))) as it:
            yield it

    def commit(self, offsets: Committed, group: str | None = None) -> None:
        with self.client() as client:
            codes = commit_offsets(client, group or self.group, offsets, _soon(client))
        assert not any(codes.values()), codes

    def forget(self, *partitions: TopicPartition) -> None:
        with self.client() as client:
            assert not delete_offsets(client, self.group, partitions, _soon(client)).errors

    def committed(self, group: str | None = None) -> Committed:
        name = group or self.group
        with self.client() as client:
            found = committed_offsets(client, [name], _soon(client))
        assert not found.errors, found.errors
        told = found.values[name]
        assert all(isinstance(at, OffsetAndMetadata) for at in told.values()), told
        return {tp: at for tp, at in sorted(told.items()) if isinstance(at, OffsetAndMetadata)}

    def positions(self, group: str | None = None) -> dict[int, int]:
        """Offset by partition."""
        return {tp.partition: at.offset for tp, at in self.committed(group).items()}

    @property
    def snapshots(self) -> list[Path]:
        return sorted(self.state.glob("kcli/snapshots/*"))

    def is_refused(self, status: int, *words: str, stdin: bytes = b"") -> Result:
        """With and without --execute the same status; nothing is written, not to the broker, not to the disk."""
        before, kept = self.committed(), self.snapshots
        results = [self.offsets(*words, *more, stdin=stdin) for more in ((), ("--execute",))]
        assert [result.status for result in results] == [status, status], [result.err for result in results]
        assert self.committed() == before
        assert self.snapshots == kept
        return results[1]

    @contextmanager
    def member(self, **how: str) -> Iterator[None]:
        """Meanwhile the group has a live member, of another maker."""
        from confluent_kafka import Consumer

        named = {name.replace("_", "."): value for name, value in how.items()}
        common = {"bootstrap.servers": self.kafka.bootstrap_servers, "enable.auto.commit": False}
        consumer = Consumer({**common, "group.id": self.group, **named})
        try:
            consumer.subscribe([self.topic])
            deadline = time.monotonic() + PATIENCE_S
            while not consumer.assignment():
                assert time.monotonic() < deadline, "no assignment"
                consumer.poll(0.1)
            yield
        finally:
            consumer.close()


def _soon(client: ConsumerNetworkClient) -> float:
    return client.clock.now_ms() + PATIENCE_S * 1000
