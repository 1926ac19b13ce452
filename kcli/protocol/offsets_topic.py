"""The records of __consumer_offsets: keys and values of committed offsets and of the state of classic groups.

Keys and values begin with an int16. In a key it is the kind of record (0 and 1 an offset, 2 a group; others belong to
groups of KIP-848 and later), in a value the version of its layout. Kafka 4.3.1 writes offsets as v4 (v1 if the commit
has its own retention) and groups as v3. Source: the coordinator messages in Kafka's repository.
"""

import struct as layout
from typing import TypeVar

from kcli.errors import ProtocolError
from kcli.protocol.codec import decode_struct, encode_struct
from kcli.protocol.primitives import Buffer
from kcli.protocol.wire import (
    Array,
    Bytes,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
    since,
    struct,
    zero_uuid,
)

LEGACY_OFFSET_KEY, OFFSET_KEY, GROUP_KEY = 0, 1, 2
OFFSET_VALUE_VERSION, OFFSET_VALUE_VERSION_WITH_EXPIRY, GROUP_VALUE_VERSION = 4, 1, 3
_NEWEST_VALUE = 4
_FIRST_FLEXIBLE = 4
_VERSION = layout.Struct(">h")

T = TypeVar("T")


@struct
class OffsetCommitKey:
    """The group and partition of a committed offset."""

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


@struct
class OffsetCommitValue:
    """A committed offset. Timestamps in ms since the epoch; `expire_timestamp` -1: the broker's retention applies.

    Only v1 has its own expiry; v3 adds the leader epoch (-1 unknown), v4 the topic id (zero unknown).
    """

    offset: Int64 = 0
    leader_epoch: Int32 = since(3, default=-1, ignorable=True)
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Int64 = since(1, until=1, default=-1, ignorable=True)
    topic_id: Uuid = since(4, default_factory=zero_uuid, tag=0, ignorable=True)


@struct
class GroupMetadataKey:
    """The name of a group."""

    group: String = ""


@struct
class MemberMetadata:
    """A member with its subscription and the assignment from the leader, both as opaque bytes."""

    member_id: String = ""
    group_instance_id: NullableString = since(3, default=None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Int32 = since(1, default=-1, ignorable=True)
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


@struct
class GroupMetadataValue:
    """A classic group after a rebalance. Timeouts in ms; `current_state_timestamp` in ms since the epoch or -1."""

    protocol_type: String = ""
    generation: Int32 = 0
    protocol: NullableString = None
    leader: NullableString = None
    current_state_timestamp: Int64 = since(2, default=-1, ignorable=True)
    members: Array[MemberMetadata] = []


def encode_key(key: OffsetCommitKey | GroupMetadataKey) -> bytes:
    """Encode a record key with its kind."""
    return _encode(key, OFFSET_KEY if isinstance(key, OffsetCommitKey) else GROUP_KEY, flexible=False)


def decode_key(data: Buffer) -> OffsetCommitKey | GroupMetadataKey | None:
    """Decode a record key; None for another kind of record. ProtocolError for anything malformed."""
    kind = _version_of(data)
    if kind in (LEGACY_OFFSET_KEY, OFFSET_KEY):
        return _decode(OffsetCommitKey, data, 0, flexible=False)
    return _decode(GroupMetadataKey, data, 0, flexible=False) if kind == GROUP_KEY else None


def encode_offset_value(value: OffsetCommitValue, version: int | None = None) -> bytes:
    """Encode a committed offset, by default in the version that Kafka 4.3.1 chooses for it."""
    if version is None:
        version = OFFSET_VALUE_VERSION if value.expire_timestamp == -1 else OFFSET_VALUE_VERSION_WITH_EXPIRY
    return _encode(value, version, flexible=version >= _FIRST_FLEXIBLE)


def decode_offset_value(data: Buffer) -> OffsetCommitValue:
    """Decode a committed offset. ProtocolError for anything malformed or newer than v4."""
    version = _known_version(data)
    return _decode(OffsetCommitValue, data, version, flexible=version >= _FIRST_FLEXIBLE)


def encode_group_value(value: GroupMetadataValue, version: int = GROUP_VALUE_VERSION) -> bytes:
    """Encode the state of a group."""
    return _encode(value, version, flexible=version >= _FIRST_FLEXIBLE)


def decode_group_value(data: Buffer) -> GroupMetadataValue:
    """Decode the state of a group. ProtocolError for anything malformed or newer than v4."""
    version = _known_version(data)
    return _decode(GroupMetadataValue, data, version, flexible=version >= _FIRST_FLEXIBLE)


def _encode(value: object, version: int, *, flexible: bool) -> bytes:
    return encode_struct(value, version, flexible=flexible, prefix=_VERSION.pack(version))


def _decode(cls: type[T], data: Buffer, version: int, *, flexible: bool) -> T:
    return decode_struct(cls, data, version, flexible=flexible, offset=_VERSION.size)


def _version_of(data: Buffer) -> int:
    if len(data) < _VERSION.size:
        raise ProtocolError(f"{len(data)} bytes are too short for the version of a record")
    version: int = _VERSION.unpack_from(data)[0]
    return version


def _known_version(data: Buffer) -> int:
    version = _version_of(data)
    if not 0 <= version <= _NEWEST_VALUE:
        raise ProtocolError(f"record value version {version} is not supported; supported are 0 to {_NEWEST_VALUE}")
    return version
