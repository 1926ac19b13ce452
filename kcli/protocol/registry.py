"""The table of APIs: keys and names, and for the supported ones their message classes, imported on first use."""

import importlib
from enum import IntEnum
from typing import Any

from kcli.errors import ProtocolError
from kcli.protocol.wire import Message, Request


class ApiKey(IntEnum):
    """The APIs that kcli supports."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90


#: The APIs that change nothing in a cluster. It is the list of these, so that an API that is added later counts as one
#: that changes something until somebody has classified it.
READING = frozenset(
    {
        *(ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR),
        *(ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS),
        *(ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DESCRIBE_ACLS, ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_LOG_DIRS),
        *(ApiKey.SASL_AUTHENTICATE, ApiKey.DESCRIBE_DELEGATION_TOKEN, ApiKey.LIST_PARTITION_REASSIGNMENTS),
        *(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_PRODUCERS),
        *(ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS, ApiKey.CONSUMER_GROUP_DESCRIBE),
        *(ApiKey.LIST_CONFIG_RESOURCES, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.SHARE_GROUP_DESCRIBE),
        *(ApiKey.STREAMS_GROUP_DESCRIBE, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ApiKey.DESCRIBE_CLIENT_QUOTAS),
        *(ApiKey.DESCRIBE_QUORUM, ApiKey.FETCH_SNAPSHOT, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS),
    }
)

# Kafka's names of all APIs by key. Those that kcli does not support are in no other place: they are for messages about
# brokers that have them (Apache Kafka 4.3.1).
_NAMES = {int(key): key.name.title().replace("_", "") for key in ApiKey} | {
    4: "LeaderAndIsr",
    5: "StopReplica",
    6: "UpdateMetadata",
    7: "ControlledShutdown",
    52: "Vote",
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    70: "ControllerRegistration",
    72: "PushTelemetry",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    82: "UpdateRaftVoter",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
    88: "StreamsGroupHeartbeat",
    91: "AlterShareGroupOffsets",
    92: "DeleteShareGroupOffsets",
}


def api_name(key: int) -> str:
    """Return Kafka's name of an API, "ListOffsets"; "API 999" for a key newer than this table."""
    return _NAMES.get(key) or f"API {key}"


def request_type(key: int) -> type[Request[Any]]:
    """Return the request class of an API. ProtocolError if kcli does not support it."""
    cls: type[Request[Any]] = _message_type(key, "Request")
    return cls


def response_type(key: int) -> type[Message]:
    """Return the response class of an API. ProtocolError if kcli does not support it."""
    cls: type[Message] = _message_type(key, "Response")
    return cls


_types: dict[tuple[int, str], Any] = {}


def _message_type(key: int, kind: str) -> Any:
    cls = _types.get((key, kind))
    if cls is None:
        cls = _types[key, kind] = _import_type(key, kind)
    return cls


def _import_type(key: int, kind: str) -> Any:
    try:
        module = ApiKey(key).name.lower()
    except ValueError:
        raise ProtocolError(f"kcli does not support {api_name(key)}", api_key=key) from None
    return getattr(importlib.import_module(f"kcli.protocol.messages.{module}"), api_name(key) + kind)
