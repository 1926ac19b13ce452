"""The records of KIP-848 groups in __consumer_offsets: their keys and values.

Keys and values begin with an int16: the kind of record in a key (3, 5 to 8, 16), in a value the version of its layout,
always 0 and flexible. Source: the messages of Kafka's group coordinator 4.3.1. `offsets_topic` has the other kinds.
"""

import struct as layout
from typing import Any, TypeAlias

from kcli.errors import ProtocolError
from kcli.protocol.codec import decode_struct, encode_struct
from kcli.protocol.primitives import Buffer
from kcli.protocol.wire import (
    Array,
    Bytes,
    Int8,
    Int32,
    Int64,
    Nullable,
    NullableArray,
    NullableString,
    String,
    Uuid,
    since,
    struct,
    zero_uuid,
)

_VERSION = layout.Struct(">h")


@struct
class ConsumerGroupMetadataKey:
    """The name of a group."""

    group_id: String = ""


@struct
class ConsumerGroupMetadataValue:
    """The epoch of a group, and a hash of the metadata of its topics (KIP-1101)."""

    epoch: Int32 = 0
    metadata_hash: Int64 = since(default=0, tag=0)


@struct
class ConsumerGroupMemberMetadataKey:
    """A member of a group."""

    group_id: String = ""
    member_id: String = ""


@struct
class ClassicProtocol:
    """A protocol of a classic member: the name of an assignor, and the member's subscription."""

    name: String = ""
    metadata: Bytes = b""


@struct
class ClassicMemberMetadata:
    """The session timeout and the protocols with which a member of the classic protocol joined the group."""

    session_timeout_ms: Int32 = 0
    supported_protocols: Array[ClassicProtocol] = []


@struct
class ConsumerGroupMemberMetadataValue:
    """The subscription of a member. `classic_member_metadata` is null for a member of the consumer protocol.

    A record without that field is one of a classic member without anything, as in Kafka.
    """

    instance_id: NullableString = ""
    rack_id: NullableString = ""
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = []
    subscribed_topic_regex: NullableString = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: NullableString = ""
    classic_member_metadata: Nullable[ClassicMemberMetadata] = since(default_factory=ClassicMemberMetadata, tag=0)


@struct
class ConsumerGroupTargetAssignmentMetadataKey:
    """The name of a group."""

    group_id: String = ""


@struct
class ConsumerGroupTargetAssignmentMetadataValue:
    """The group epoch that the target assignment was made for, and when, in ms since the epoch."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = since(default=0, tag=0, ignorable=True)


@struct
class ConsumerGroupTargetAssignmentMemberKey:
    """A member of a group."""

    group_id: String = ""
    member_id: String = ""


@struct
class TargetPartitions:
    """Partitions of a topic."""

    topic_id: Uuid = since(default_factory=zero_uuid)
    partitions: Array[Int32] = []


@struct
class ConsumerGroupTargetAssignmentMemberValue:
    """The partitions that a member shall own."""

    topic_partitions: Array[TargetPartitions] = []


@struct
class ConsumerGroupCurrentMemberAssignmentKey:
    """A member of a group."""

    group_id: String = ""
    member_id: String = ""


@struct
class CurrentPartitions:
    """Partitions of a topic, and the member epoch at which each was assigned (null: not known)."""

    topic_id: Uuid = since(default_factory=zero_uuid)
    partitions: Array[Int32] = []
    assignment_epochs: NullableArray[Int32] = since(default=None, tag=0)


@struct
class ConsumerGroupCurrentMemberAssignmentValue:
    """The partitions that a member owns. `state`: 0 stable, 1 it must revoke some, 2 it waits for others to release."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: Array[CurrentPartitions] = []
    partitions_pending_revocation: Array[CurrentPartitions] = []


@struct
class ConsumerGroupRegularExpressionKey:
    """A regular expression to which members of a group subscribe."""

    group_id: String = ""
    regular_expression: String = ""


@struct
class ConsumerGroupRegularExpressionValue:
    """The topics that match, the version of the metadata that was looked at, and when, in ms since the epoch."""

    topics: Array[String] = []
    version: Int64 = 0
    timestamp: Int64 = 0


#: Kind, and classes of key and value.
RECORD_KINDS: dict[int, tuple[type, type]] = {
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}

KeyAndValue: TypeAlias = tuple[bytes, "bytes | None"]

_KIND_OF_KEY = {key: kind for kind, (key, _) in RECORD_KINDS.items()}


def encode_group_record(key: object, value: object | None) -> KeyAndValue:
    """Encode a record; the value None is a tombstone."""
    encoded = encode_struct(key, 0, prefix=_VERSION.pack(_KIND_OF_KEY[type(key)]))
    return encoded, None if value is None else encode_struct(value, 0, flexible=True, prefix=_VERSION.pack(0))


def decode_group_record(key: Buffer, value: Buffer | None) -> tuple[Any, Any] | None:
    """Decode a record to its key and its value (None: a tombstone); None for a kind that is not of KIP-848 groups.

    ProtocolError for anything malformed, or a value that is newer than v0.
    """
    found = RECORD_KINDS.get(_version_of(key))
    if found is None:
        return None
    key_class, value_class = found
    decoded: Any = decode_struct(key_class, key, 0, offset=_VERSION.size)
    if value is None:
        return decoded, None
    if (version := _version_of(value)) != 0:
        raise ProtocolError(f"record value version {version} is not supported; supported is 0")
    return decoded, decode_struct(value_class, value, 0, flexible=True, offset=_VERSION.size)


def _version_of(data: Buffer) -> int:
    if len(data) < _VERSION.size:
        raise ProtocolError(f"{len(data)} bytes are too short for the version of a record")
    version: int = _VERSION.unpack_from(data)[0]
    return version
