"""The records of __cluster_metadata, the log of KRaft's controllers: their fields, and the codec of keys and values.

A metadata record has no key. Its value begins with three unsigned varints: the version of this frame (1), the kind of
record, and the version of its layout; the fields follow, always flexible. A control record has a key of two int16:
version 0 and its type; its value is the layout, whose first field repeats the version. Names and versions are those of
Apache Kafka 4.3.1 (KIP-630, KIP-631, KIP-853).
"""

from typing import Any
from uuid import UUID

from kcli.errors import ProtocolError
from kcli.protocol.codec import decode_struct, encode_struct
from kcli.protocol.primitives import Buffer
from kcli.protocol.wire import (
    Array,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    UInt16,
    Uuid,
    since,
    struct,
    zero_uuid,
)

#: Name and id of the log's only topic; it has one partition, 0.
METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)


@struct
class BrokerEndpoint:
    """A listener of a broker. `security_protocol`: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    name: String = ""
    host: String = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


@struct
class BrokerFeature:
    """A feature, and the range of levels that the broker supports."""

    name: String = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@struct
class RegisterBrokerRecord:
    """A broker that has registered. v1 controlled shutdown, v3 log directories, v4 cordoned ones."""

    broker_id: Int32 = 0
    is_migrating_zk_broker: Bool = since(2, default=False)
    incarnation_id: Uuid = since(default_factory=zero_uuid)
    broker_epoch: Int64 = 0
    end_points: Array[BrokerEndpoint] = []
    features: Array[BrokerFeature] = []
    rack: NullableString = ""
    fenced: Bool = True
    in_controlled_shutdown: Bool = since(1, default=False)
    log_dirs: Array[Uuid] = since(3, default=[], tag=0)
    cordoned_log_dirs: NullableArray[Uuid] = since(4, default=None, tag=1)


@struct
class UnregisterBrokerRecord:
    """A broker whose registration is removed."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = 0


@struct
class TopicRecord:
    """A new topic."""

    name: String = ""
    topic_id: Uuid = since(default_factory=zero_uuid)


@struct
class PartitionRecord:
    """A new partition, or in a snapshot its whole state. v1 directories, v2 eligible leader replicas (KIP-966).

    `leader_recovery_state` 1: the leader was elected uncleanly and has not recovered yet (KIP-704).
    """

    partition_id: Int32 = -1
    topic_id: Uuid = since(default_factory=zero_uuid)
    replicas: Array[Int32] = []
    isr: Array[Int32] = []
    removing_replicas: Array[Int32] = []
    adding_replicas: Array[Int32] = []
    leader: Int32 = -1
    leader_recovery_state: Int8 = since(default=0, tag=0)
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Array[Uuid] = since(1, default=[])
    eligible_leader_replicas: NullableArray[Int32] = since(2, default=None, tag=1)
    last_known_elr: NullableArray[Int32] = since(2, default=None, tag=2)


@struct
class ConfigRecord:
    """A setting of a resource; a null value removes it.

    `resource_type`: 2 topic, 4 broker ("" means all), 8 broker logger, 16 client metrics, 32 group.
    """

    resource_type: Int8 = 0
    resource_name: String = ""
    name: String = ""
    value: NullableString = ""


@struct
class PartitionChangeRecord:
    """A change to a partition; fields with their defaults are unchanged.

    Each record raises the partition epoch by 1. The leader epoch rises by 1 exactly if `leader` is present (not -2),
    even with the same leader.
    """

    partition_id: Int32 = -1
    topic_id: Uuid = since(default_factory=zero_uuid)
    isr: NullableArray[Int32] = since(default=None, tag=0)
    leader: Int32 = since(default=-2, tag=1)
    replicas: NullableArray[Int32] = since(default=None, tag=2)
    removing_replicas: NullableArray[Int32] = since(default=None, tag=3)
    adding_replicas: NullableArray[Int32] = since(default=None, tag=4)
    leader_recovery_state: Int8 = since(default=-1, tag=5)
    directories: NullableArray[Uuid] = since(1, default=None, tag=8)
    eligible_leader_replicas: NullableArray[Int32] = since(2, default=None, tag=6)
    last_known_elr: NullableArray[Int32] = since(2, default=None, tag=7)


@struct
class FenceBrokerRecord:
    """A fenced broker, as written before metadata version 3.3."""

    id: Int32 = 0
    epoch: Int64 = 0


@struct
class UnfenceBrokerRecord:
    """An unfenced broker, as written before metadata version 3.3."""

    id: Int32 = 0
    epoch: Int64 = 0


@struct
class RemoveTopicRecord:
    """A deleted topic."""

    topic_id: Uuid = since(default_factory=zero_uuid)


@struct
class DelegationTokenRecord:
    """A delegation token, without its HMAC."""

    owner: String = ""
    requester: String = ""
    renewers: Array[String] = []
    issue_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    expiration_timestamp: Int64 = 0
    token_id: String = ""


@struct
class UserScramCredentialRecord:
    """The SCRAM credential of a user. `mechanism`: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    name: String = ""
    mechanism: Int8 = 0
    salt: Bytes = b""
    stored_key: Bytes = b""
    server_key: Bytes = b""
    iterations: Int32 = 0


@struct
class FeatureLevelRecord:
    """The finalized level of a feature; 0 removes it."""

    name: String = ""
    feature_level: Int16 = 0


@struct
class EntityData:
    """A part of an entity: user, client-id or ip; a null name means the default."""

    entity_type: String = ""
    entity_name: NullableString = ""


@struct
class ClientQuotaRecord:
    """A quota of an entity, set or removed."""

    entity: Array[EntityData] = []
    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


@struct
class ProducerIdsRecord:
    """A reserved block of producer ids: the next one begins at `next_producer_id`."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    next_producer_id: Int64 = 0


@struct
class BrokerRegistrationChangeRecord:
    """A change to a registration; 0 means unchanged.

    `fenced`: 1 fenced, -1 unfenced. `in_controlled_shutdown`: 1 it has begun.
    """

    broker_id: Int32 = 0
    broker_epoch: Int64 = 0
    fenced: Int8 = since(default=0, tag=0)
    in_controlled_shutdown: Int8 = since(1, default=0, tag=1)
    log_dirs: Array[Uuid] = since(2, default=[], tag=2)
    cordoned_log_dirs: NullableArray[Uuid] = since(3, default=None, tag=3)


@struct
class AccessControlEntryRecord:
    """A new ACL."""

    id: Uuid = since(default_factory=zero_uuid)
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 0
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class RemoveAccessControlEntryRecord:
    """A removed ACL."""

    id: Uuid = since(default_factory=zero_uuid)


@struct
class NoOpRecord:
    """Nothing: it raises the high watermark while the cluster is idle."""


@struct
class ZkMigrationStateRecord:
    """The state of a migration from ZooKeeper; 0 none."""

    zk_migration_state: Int8 = 0


@struct
class RemoveUserScramCredentialRecord:
    """A removed SCRAM credential."""

    name: String = ""
    mechanism: Int8 = 0


@struct
class BeginTransactionRecord:
    """The begin of records that apply together (KIP-868)."""

    name: NullableString = since(default=None, tag=0)


@struct
class EndTransactionRecord:
    """The end of records that apply together."""


@struct
class AbortTransactionRecord:
    """The end of records that do not apply."""

    reason: NullableString = since(default=None, tag=0)


@struct
class RemoveDelegationTokenRecord:
    """A removed delegation token."""

    token_id: String = ""


@struct
class ControllerEndpoint:
    """A listener of a controller."""

    name: String = ""
    host: String = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


@struct
class ControllerFeature:
    """A feature, and the range of levels that the controller supports."""

    name: String = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@struct
class RegisterControllerRecord:
    """A controller that has registered."""

    controller_id: Int32 = 0
    incarnation_id: Uuid = since(default_factory=zero_uuid)
    zk_migration_ready: Bool = False
    end_points: Array[ControllerEndpoint] = []
    features: Array[ControllerFeature] = []


@struct
class ClearElrRecord:
    """Eligible leader replicas that are removed: those of a topic, or all for an empty name."""

    topic_name: String = ""


@struct
class ElectionVoter:
    """A voter of an election."""

    voter_id: Int32 = 0
    voter_directory_id: Uuid = since(1, default_factory=zero_uuid)


@struct
class LeaderChangeMessage:
    """A new leader of the metadata log (control record 2)."""

    version: Int16 = 0
    leader_id: Int32 = 0
    voters: Array[ElectionVoter] = []
    granting_voters: Array[ElectionVoter] = []


@struct
class SnapshotHeaderRecord:
    """The begin of a snapshot (control record 3). The time is that of its last record, in ms since the epoch."""

    version: Int16 = 0
    last_contained_log_timestamp: Int64 = 0


@struct
class SnapshotFooterRecord:
    """The end of a snapshot (control record 4)."""

    version: Int16 = 0


@struct
class KRaftVersionRecord:
    """The version of KRaft (control record 5)."""

    version: Int16 = 0
    kraft_version: Int16 = 0


@struct
class VoterEndpoint:
    """A listener of a voter."""

    name: String = ""
    host: String = ""
    port: UInt16 = 0


@struct
class VoterFeature:
    """The range of KRaft versions that a voter supports."""

    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@struct
class Voter:
    """A voter with its directory and addresses."""

    voter_id: Int32 = 0
    voter_directory_id: Uuid = since(default_factory=zero_uuid)
    endpoints: Array[VoterEndpoint] = []
    kraft_version_feature: VoterFeature = since(default_factory=VoterFeature)


@struct
class VotersRecord:
    """The set of voters (control record 6)."""

    version: Int16 = 0
    voters: Array[Voter] = []


#: Kind and newest version of each metadata record.
RECORD_TYPES: dict[type, tuple[int, int]] = {
    RegisterBrokerRecord: (0, 4),
    UnregisterBrokerRecord: (1, 0),
    TopicRecord: (2, 0),
    PartitionRecord: (3, 2),
    ConfigRecord: (4, 0),
    PartitionChangeRecord: (5, 2),
    FenceBrokerRecord: (7, 0),
    UnfenceBrokerRecord: (8, 0),
    RemoveTopicRecord: (9, 0),
    DelegationTokenRecord: (10, 0),
    UserScramCredentialRecord: (11, 0),
    FeatureLevelRecord: (12, 0),
    ClientQuotaRecord: (14, 0),
    ProducerIdsRecord: (15, 0),
    BrokerRegistrationChangeRecord: (17, 3),
    AccessControlEntryRecord: (18, 0),
    RemoveAccessControlEntryRecord: (19, 0),
    NoOpRecord: (20, 0),
    ZkMigrationStateRecord: (21, 0),
    RemoveUserScramCredentialRecord: (22, 0),
    BeginTransactionRecord: (23, 0),
    EndTransactionRecord: (24, 0),
    AbortTransactionRecord: (25, 0),
    RemoveDelegationTokenRecord: (26, 0),
    RegisterControllerRecord: (27, 0),
    ClearElrRecord: (28, 0),
}

#: Type and newest version of each control record.
CONTROL_TYPES: dict[type, tuple[int, int]] = {
    LeaderChangeMessage: (2, 1),
    SnapshotHeaderRecord: (3, 0),
    SnapshotFooterRecord: (4, 0),
    KRaftVersionRecord: (5, 0),
    VotersRecord: (6, 0),
}

_FRAME = 1
_BY_KIND = {kind: (cls, newest) for cls, (kind, newest) in RECORD_TYPES.items()}
_BY_CONTROL_TYPE = {kind: cls for cls, (kind, _) in CONTROL_TYPES.items()}


def encode_record(record: object, version: int | None = None) -> bytes:
    """Encode the value of a metadata record; by default in its newest version."""
    kind, newest = RECORD_TYPES[type(record)]
    version = newest if version is None else version
    return encode_struct(record, version, flexible=True, prefix=bytes((_FRAME, kind, version)))


def decode_record(value: Buffer) -> Any:
    """Decode the value of a metadata record. ProtocolError if it is malformed or its kind or version is unknown."""
    if len(value) < 3 or value[0] != _FRAME:
        raise ProtocolError("a metadata record does not begin with frame version 1")
    kind, version = value[1], value[2]
    cls, newest = _BY_KIND.get(kind, (None, -1))
    if cls is None or version > newest:
        raise ProtocolError(f"the metadata record of kind {kind} v{version} is newer than those of Kafka 4.3")
    return decode_struct(cls, value, version, flexible=True, offset=3)


def encode_control_record(record: Any) -> tuple[bytes, bytes]:
    """Encode key and value of a control record in the version that it names itself."""
    kind, _ = CONTROL_TYPES[type(record)]
    return bytes((0, 0, 0, kind)), encode_struct(record, record.version, flexible=True)


def decode_control_record(key: Buffer, value: Buffer) -> Any:
    """Decode a control record; None for a type that is not of a metadata log. ProtocolError if it is malformed."""
    if len(key) < 4 or len(value) < 2:
        raise ProtocolError("a control record is too short")
    cls = _BY_CONTROL_TYPE.get(int.from_bytes(key[2:4], "big"))
    return None if cls is None else decode_struct(cls, value, int.from_bytes(value[:2], "big"), flexible=True)
