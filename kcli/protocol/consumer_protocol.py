"""The consumer protocol of classic groups: subscriptions of members and assignments by the leader.

The broker passes both on as opaque bytes and reads only the topics of subscriptions. Each begins with an int16 version.
A version newer than `NEWEST` is read as `NEWEST`, because newer versions only add fields at the end. Source: Kafka's
ConsumerProtocolSubscription and ConsumerProtocolAssignment; KIP-429 (v1), KIP-792 (v2), KIP-881 (v3).
"""

import struct as layout
from collections.abc import Iterable
from typing import TypeVar

from kcli.errors import ProtocolError
from kcli.protocol.codec import decode_struct, encode_struct
from kcli.protocol.primitives import Buffer
from kcli.protocol.wire import Array, Int32, NullableBytes, NullableString, String, since, struct
from kcli.structs import TopicPartition

PROTOCOL_TYPE = "consumer"
NEWEST = 3
_VERSION = layout.Struct(">h")

T = TypeVar("T")


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic: String = ""
    partitions: Array[Int32] = []


@struct
class Subscription:
    """The topics of a member; v1 adds its owned partitions, v2 their generation (-1 unknown), v3 its rack."""

    topics: Array[String] = []
    user_data: NullableBytes = None
    owned_partitions: Array[TopicPartitions] = since(1, default=[], ignorable=True)
    generation_id: Int32 = since(2, default=-1, ignorable=True)
    rack_id: NullableString = since(3, default=None, ignorable=True)


@struct
class Assignment:
    """The partitions assigned to a member. All versions are equal."""

    assigned_partitions: Array[TopicPartitions] = []
    user_data: NullableBytes = None


def by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    """Group partitions by topic, as subscriptions and assignments carry them, in the given order of topics."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in topics.items()]


def flat(topics: Iterable[TopicPartitions]) -> tuple[TopicPartition, ...]:
    """Return the partitions of all topics: the reverse of `by_topic`."""
    return tuple(TopicPartition(each.topic, number) for each in topics for number in each.partitions)


def encode_subscription(subscription: Subscription, version: int = NEWEST) -> bytes:
    """Encode a subscription; fields that the version does not have are omitted."""
    return _encode(subscription, version)


def decode_subscription(data: Buffer) -> Subscription:
    """Decode a subscription of any version. ProtocolError for anything malformed."""
    return _decode(Subscription, data, version_of(data))


def decode_subscribed_topics(data: Buffer) -> list[str]:
    """Return only the topics of a subscription, even if later fields are malformed, as Kafka's coordinator does."""
    version_of(data)
    return _decode(Subscription, data, 0).topics


def encode_assignment(assignment: Assignment, version: int = NEWEST) -> bytes:
    """Encode an assignment."""
    return _encode(assignment, version)


def decode_assignment(data: Buffer) -> Assignment:
    """Decode an assignment of any version; no bytes are an empty one. ProtocolError for anything malformed."""
    if not len(data):
        return Assignment()
    return _decode(Assignment, data, version_of(data))


def _encode(value: object, version: int) -> bytes:
    return encode_struct(value, version, prefix=_VERSION.pack(version))


def _decode(cls: type[T], data: Buffer, version: int) -> T:
    return decode_struct(cls, data, version, offset=_VERSION.size)


def version_of(data: Buffer) -> int:
    """Return the version of a subscription or assignment, NEWEST for a newer one. ProtocolError if it is malformed."""
    if len(data) < _VERSION.size:
        raise ProtocolError(f"{len(data)} bytes are too short for the version of the consumer protocol")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"version {version} of the consumer protocol is not valid; versions start at 0")
    return min(version, NEWEST)
