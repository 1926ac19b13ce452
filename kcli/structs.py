"""Shared value types: partitions, nodes, offsets; the internal topics. Ground: imports nothing of kcli."""

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

#: The topics of the brokers' own state (org.apache.kafka.common.internals.Topic).
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_GROUPS_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_GROUPS_TOPIC})


#: What has settings, besides loggers.
ResourceKind: TypeAlias = Literal["topic", "broker", "group", "client-metrics"]

#: The principal of a client without TLS and SASL.
ANONYMOUS = "User:ANONYMOUS"


class TopicPartition(NamedTuple):
    """A partition of a topic; sorts by topic, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Node(NamedTuple):
    """A broker in metadata. Bootstrap addresses have negative ids until metadata names the brokers.

    Ids of 2**30 and above denote a second connection to a broker: 2**31 - 1 - id is the connection to broker `id` as
    coordinator, so that group requests do not wait for a fetch on the same connection.
    """

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        name = f"node {self.id}" if self.id < 2**30 else f"node {2**31 - 1 - self.id}, coordinator"
        return f"{self.host}:{self.port} ({name})"


class OffsetAndTimestamp(NamedTuple):
    """Result of ListOffsets. `offset` -1: no such record. `timestamp_ms` -1: not applicable. Epoch -1: unknown."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the offset of the next record to read, its leader epoch (-1: unknown), and free metadata."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class GroupMetadata(NamedTuple):
    """The identity of a consumer in its group. `generation` -1: not a member now."""

    group: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partition numbers by topic, both sorted."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics
