"""The APIs that the broker serves, their versions, and the modules of their handlers.

A handler module has `handle(broker, request, context)`, which returns the response, a `Pending` of it, or None for no
answer. ApiVersions responses are built from this table.
"""

from __future__ import annotations

from typing import NamedTuple


class ServedApi(NamedTuple):
    """A handler module in kcli.broker.handlers, and the first and last version that it serves."""

    module: str
    first_version: int
    last_version: int


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
    19: ServedApi("create_topics", 2, 7),
    20: ServedApi("delete_topics", 1, 6),
    21: ServedApi("delete_records", 0, 2),
    22: ServedApi("init_producer_id", 0, 5),
    23: ServedApi("offset_for_leader_epoch", 2, 4),
    29: ServedApi("describe_acls", 1, 3),
    30: ServedApi("create_acls", 1, 3),
    31: ServedApi("delete_acls", 1, 3),
    32: ServedApi("describe_configs", 1, 4),
    33: ServedApi("alter_configs", 0, 2),
    35: ServedApi("describe_log_dirs", 1, 5),
    36: ServedApi("sasl_authenticate", 0, 2),
    37: ServedApi("create_partitions", 0, 3),
    38: ServedApi("create_delegation_token", 1, 3),
    39: ServedApi("renew_delegation_token", 1, 2),
    40: ServedApi("expire_delegation_token", 1, 2),
    41: ServedApi("describe_delegation_token", 1, 3),
    42: ServedApi("delete_groups", 0, 2),
    44: ServedApi("incremental_alter_configs", 0, 1),
    46: ServedApi("list_partition_reassignments", 0, 0),
    47: ServedApi("offset_delete", 0, 0),
    48: ServedApi("describe_client_quotas", 0, 1),
    50: ServedApi("describe_user_scram_credentials", 0, 0),
    51: ServedApi("alter_user_scram_credentials", 0, 0),
    60: ServedApi("describe_cluster", 0, 2),
    74: ServedApi("list_config_resources", 0, 1),
    75: ServedApi("describe_topic_partitions", 0, 0),
}
