"""The APIs that the broker serves, their versions, and the modules of their handlers.

A handler module has `handle(broker, request, context)`, which returns the response, a `Pending` of it, or None for no
answer. ApiVersions responses are built from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias


class ServedApi(NamedTuple):
    """A handler module in kcli.broker.handlers, and the first and last version that it serves.

    No module: the controller decides about the request, which is in this process if the broker is alone.
    """

    module: str
    first_version: int
    last_version: int


ApiTable: TypeAlias = Mapping[int, ServedApi]

# The versions that Apache Kafka 4.3.1 advertises; a module with fewer versions says so.
HANDLERS: dict[int, ServedApi] = {
    0: ServedApi("produce", 0, 13),
    1: ServedApi("fetch", 4, 18),
    2: ServedApi("list_offsets", 1, 11),
    3: ServedApi("metadata", 0, 13),
    8: ServedApi("offset_commit", 2, 10),
    9: ServedApi("offset_fetch", 1, 10),
    10: ServedApi("find_coordinator", 0, 6),
    11: ServedApi("join_group", 0, 9),
    12: ServedApi("heartbeat", 0, 4),
    13: ServedApi("leave_group", 0, 5),
    14: ServedApi("sync_group", 0, 5),
    15: ServedApi("describe_groups", 0, 6),
    16: ServedApi("list_groups", 0, 5),
    17: ServedApi("sasl_handshake", 0, 1),
    18: ServedApi("api_versions", 0, 4),
    19: ServedApi("", 2, 7),
    20: ServedApi("", 1, 6),
    21: ServedApi("delete_records", 0, 2),
    22: ServedApi("init_producer_id", 0, 5),
    23: ServedApi("offset_for_leader_epoch", 2, 4),
    24: ServedApi("add_partitions_to_txn", 0, 5),
    25: ServedApi("add_offsets_to_txn", 0, 4),
    26: ServedApi("end_txn", 0, 5),
    27: ServedApi("write_txn_markers", 1, 2),
    28: ServedApi("txn_offset_commit", 0, 5),
    29: ServedApi("describe_acls", 1, 3),
    30: ServedApi("", 1, 3),
    31: ServedApi("", 1, 3),
    32: ServedApi("describe_configs", 1, 4),
    33: ServedApi("", 0, 2),
    34: ServedApi("alter_replica_log_dirs", 1, 2),
    35: ServedApi("describe_log_dirs", 1, 5),
    36: ServedApi("sasl_authenticate", 0, 2),
    37: ServedApi("", 0, 3),
    38: ServedApi("", 1, 3),
    39: ServedApi("", 1, 2),
    40: ServedApi("", 1, 2),
    41: ServedApi("describe_delegation_token", 1, 3),
    42: ServedApi("delete_groups", 0, 2),
    43: ServedApi("", 0, 2),
    44: ServedApi("", 0, 1),
    45: ServedApi("", 0, 1),
    46: ServedApi("", 0, 0),
    47: ServedApi("offset_delete", 0, 0),
    48: ServedApi("describe_client_quotas", 0, 1),
    49: ServedApi("", 0, 1),
    50: ServedApi("describe_user_scram_credentials", 0, 0),
    51: ServedApi("", 0, 0),
    55: ServedApi("describe_quorum", 0, 2),
    57: ServedApi("", 0, 2),
    60: ServedApi("describe_cluster", 0, 2),
    61: ServedApi("describe_producers", 0, 0),
    65: ServedApi("describe_transactions", 0, 0),
    66: ServedApi("list_transactions", 0, 2),
    68: ServedApi("consumer_group_heartbeat", 0, 1),
    69: ServedApi("consumer_group_describe", 0, 1),
    71: ServedApi("get_telemetry_subscriptions", 0, 0),
    74: ServedApi("list_config_resources", 0, 1),
    75: ServedApi("describe_topic_partitions", 0, 0),
}
