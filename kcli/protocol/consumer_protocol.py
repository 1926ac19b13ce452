"""What consumers tell each other through a classic group: subscriptions of members, assignments of the leader.

The broker carries both as opaque bytes and looks into subscriptions only for the topics in them. Each begins with an
int16 version. A version newer than ours is read as our newest, since newer ones may only add at the end. Source:
Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment; KIP-429 (v1), KIP-792 (v2), KIP-881 (v3).
"""

import struct as layout
from collections.abc import Iterable
from typing import TypeVar

from kcli.errors import ProtocolError
from kcli.protocol.plan import plan
from kcli.protocol.primitives import Buffer
from kcli.protocol.wire import Array, Int32, NullableBytes, NullableString, String, since, struct
from kcli.structs import TopicPartition

PROTOCOL_TYPE = "consumer"
NEWEST = 3
_VERSION = layout.Struct(">h")

T = TypeVar("T")


@struct
class TopicPartitions:
    """Some partitions of one topic."""

    topic: String = ""
    partitions: Array[Int32] = []


@struct
class Subscription:
    """What a member wants to read; v1 what it still owns, v2 of which generation (-1 unknown), v3 its rack."""

    topics: Array[String] = []
    user_data: NullableBytes = None
    owned_partitions: Array[TopicPartitions] = since(1, default=[], ignorable=True)
    generation_id: Int32 = since(2, default=-1, ignorable=True)
    rack_id: NullableString = since(3, default=None, ignorable=True)


@struct
class Assignment:
    """What a member is to read. All versions are alike."""

    assigned_partitions: Array[TopicPartitions] = []
    user_data: NullableBytes = None


def by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    """Partitions as subscriptions and assignments carry them, topics in the order they come."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in topics.items()]


def flat(topics: Iterable[TopicPartitions]) -> tuple[TopicPartition, ...]:
    """The reverse of `by_topic`."""
    return tuple(TopicPartition(each.topic, number) for each in topics for number in each.partitions)


def encode_subscription(subscription: Subscription, version: int = NEWEST) -> bytes:
    """The bytes of a subscription; what the version cannot carry is left out."""
    return _encode(subscription, version)


def decode_subscription(data: Buffer) -> Subscription:
    """A subscription of any version. ProtocolError for anything malformed."""
    return _decode(Subscription, data, _version_of(data))


def decode_subscribed_topics(data: Buffer) -> list[str]:
    """Only the topics of a subscription, though what follows be malformed; Kafka's coordinator reads no further."""
    _version_of(data)
    return _decode(Subscription, data, 0).topics


def encode_assignment(assignment: Assignment, version: int = NEWEST) -> bytes:
    """The bytes of an assignment."""
    return _encode(assignment, version)


def decode_assignment(data: Buffer) -> Assignment:
    """An assignment of any version; no bytes at all are an empty one. ProtocolError for anything malformed."""
    if not len(data):
        return Assignment()
    return _decode(Assignment, data, _version_of(data))


def _encode(value: object, version: int) -> bytes:
    parts: list[Buffer] = [_VERSION.pack(version)]
    _, write, _ = plan(type(value), version, False)
    write(value, parts)
    return b"".join(parts)


def _decode(cls: type[T], data: Buffer, version: int) -> T:
    read, _, _ = plan(cls, version, False)
    found: T
    found, _ = read(memoryview(data), _VERSION.size)
    return found


def _version_of(data: Buffer) -> int:
    if len(data) < _VERSION.size:
        raise ProtocolError(f"{len(data)} bytes are too short for a version of the consumer protocol")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"the consumer protocol has no version {version}")
    return min(version, NEWEST)
