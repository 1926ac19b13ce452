"""Members of consumer groups that read and commit while their coordinators move between brokers."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from kcli.broker.coordinator_log import key_hash
from tests.real_kafka import Kafka


def group_of(coordinator_partition: int, partitions: int, prefix: str = "readers") -> str:
    """Return the name of a group whose records are in this partition of __consumer_offsets."""
    return next(
        name
        for name in (f"{prefix}-{number}" for number in range(100))
        if key_hash(name) % partitions == coordinator_partition
    )


class GroupReader:
    """librdkafka's consumer, the only member of its group, in a thread. It commits synchronously about 5 times per s.

    `committed` has the offsets of acknowledged commits, `refusal` is the last error of a commit, and `faults` has the
    records that were read again after their commit.
    """

    def __init__(self, cluster: Kafka, topic: str, group: str) -> None:
        from confluent_kafka import Consumer

        self.group, self.topic = group, topic
        self.committed: dict[int, int] = {}
        self.faults: list[str] = []
        self.refusal = ""
        self.records = self.commits = self.assignments = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 15_000,
                "heartbeat.interval.ms": 500,
                "reconnect.backoff.max.ms": 500,
                "retry.backoff.ms": 50,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._on_assign)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader {group}", daemon=True)
        self._thread.start()

    def _on_assign(self, _consumer: Any, partitions: list[Any]) -> None:
        self.assignments += 1

    def _run(self) -> None:
        due, position = time.monotonic(), dict[int, int]()
        while not self._ended.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                partition, offset = message.partition(), message.offset()
                if offset < self.committed.get(partition, 0):
                    self.faults.append(f"{partition}:{offset} was read after {self.committed[partition]} was committed")
                position[partition] = offset + 1
                self.records += 1
            if position and time.monotonic() >= due:
                due = time.monotonic() + 0.2
                self._commit(position)

    def _commit(self, position: dict[int, int]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        offsets = [TopicPartition(self.topic, partition, offset) for partition, offset in position.items()]
        try:
            rows = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:  # not acknowledged: it may be stored or not
            self.refusal = str(error)
            return
        if not any(row.error for row in rows):
            self.committed.update(position)
            self.commits += 1

    def __repr__(self) -> str:
        done = f"{self.records} records, {self.commits} commits, {self.assignments} assignments"
        return f"<GroupReader {self.group} {done} {self.refusal}>"

    def close(self) -> None:
        self._ended.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), f"the member of {self.group} still waits for its coordinator"
        self._consumer.close()


def check_readers(cluster: Kafka, readers: Sequence[GroupReader], commits: int = 3, timeout_s: float = 90) -> None:
    """Wait until each reader has committed that many times more; check that its group has these offsets."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    for reader in readers:
        wanted, known = reader.commits + commits, dict(reader.committed)
        deadline = time.monotonic() + timeout_s
        while reader.commits < wanted:
            assert time.monotonic() < deadline, f"no commit within {timeout_s:.0f} s: {readers}"
            time.sleep(0.05)
        request = [ConsumerGroupTopicPartitions(reader.group)]
        admin = _new_admin(cluster)  # it must outlive the call
        found = admin.list_consumer_group_offsets(request)[reader.group].result(30)
        stored = {one.partition: one.offset for one in found.topic_partitions}
        assert {partition: stored.get(partition, -1) >= offset for partition, offset in known.items()} == dict.fromkeys(
            known, True
        ), f"{reader.group} has {stored}, but {known} was committed"
        assert not reader.faults, reader.faults


def _new_admin(cluster: Kafka) -> Any:
    """Return a new client: librdkafka's keeps asking a former coordinator that answers NOT_COORDINATOR for a group."""
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})


def coordinator_of(cluster: Kafka, group: str) -> tuple[int, str, int]:
    """Return the coordinator of a group, its state and the number of its members."""
    admin = _new_admin(cluster)
    described = admin.describe_consumer_groups([group])[group].result(30)
    return described.coordinator.id, described.state.name, len(described.members)
