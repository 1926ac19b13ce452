"""The nouns everybody shares: partitions, nodes, offsets. Ground: imports nothing of kcli."""

from collections.abc import Iterable
from typing import NamedTuple

#: The topics in which brokers keep their own state, by the name of each (org.apache.kafka.common.internals.Topic).
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_GROUPS_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_GROUPS_TOPIC})


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Node(NamedTuple):
    """A broker as Metadata names it. Bootstrap addresses have negative ids until the cluster has told theirs.

    Ids from the upper half of the positive numbers are second connections: 2**31 - 1 - id is that of broker `id` in its
    role as coordinator (see `kcli.consumer.group.coordinator_lookup`).
    """

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        name = f"node {self.id}" if self.id < 2**30 else f"node {2**31 - 1 - self.id}, coordinator"
        return f"{self.host}:{self.port} ({name})"


class OffsetAndTimestamp(NamedTuple):
    """Answer of ListOffsets. `offset` -1: no record matched. `timestamp_ms` -1: not applicable. Epoch -1: unknown."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next record to read, with the leader epoch (-1 unknown) and the committer's note."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, all sorted."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics
