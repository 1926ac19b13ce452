"""Which APIs the broker speaks, in which versions, and the module that answers: what ApiVersions tells is made of it.

A module has `handle(broker, request, context)` and returns the response, a `Pending` of it, or None for no answer.
"""

from __future__ import annotations

from typing import NamedTuple


class Served(NamedTuple):
    """`module` is below kcli.broker.handlers; the versions are those advertised and answered, both ends included."""

    module: str
    first_version: int
    last_version: int


# Versions as Apache Kafka 4.3.1 advertises them, unless the module says why not.
HANDLERS: dict[int, Served] = {
    0: Served("produce", 0, 13),
    1: Served("fetch", 4, 18),
    2: Served("list_offsets", 1, 11),
    3: Served("metadata", 0, 13),
    8: Served("offset_commit", 2, 10),
    9: Served("offset_fetch", 1, 10),
    10: Served("find_coordinator", 0, 6),
    11: Served("join_group", 0, 9),
    12: Served("heartbeat", 0, 4),
    13: Served("leave_group", 0, 5),
    14: Served("sync_group", 0, 5),
    15: Served("describe_groups", 0, 6),
    16: Served("list_groups", 0, 5),
    17: Served("sasl_handshake", 0, 1),
    18: Served("api_versions", 0, 4),
    19: Served("create_topics", 2, 7),
    20: Served("delete_topics", 1, 6),
    21: Served("delete_records", 0, 2),
    22: Served("init_producer_id", 0, 5),
    23: Served("offset_for_leader_epoch", 2, 4),
    32: Served("describe_configs", 1, 4),
    33: Served("alter_configs", 0, 2),
    35: Served("describe_log_dirs", 1, 5),
    36: Served("sasl_authenticate", 0, 2),
    37: Served("create_partitions", 0, 3),
    42: Served("delete_groups", 0, 2),
    44: Served("incremental_alter_configs", 0, 1),
    46: Served("list_partition_reassignments", 0, 0),
    47: Served("offset_delete", 0, 0),
    60: Served("describe_cluster", 0, 2),
    74: Served("list_config_resources", 0, 1),
    75: Served("describe_topic_partitions", 0, 0),
}
