"""Names of kafka-python, aiokafka and confluent-kafka for what kcli calls otherwise, with what to write here. Ground.

Texts only. The errors for an unknown parameter or method show them, so each name in a text exists; the tests check it.
Sources: the documentation of kafka-python 2.2, aiokafka 0.12 and confluent-kafka 2.12.
"""

from __future__ import annotations

from collections.abc import Collection

_POLL = "poll(timeout_ms), which returns at most max_poll_records records"
_ENDS = "beginning_offsets() and end_offsets()"

#: Methods by class.
METHODS = {
    "Admin": {
        "alter_consumer_group_offsets": "plan_reset() and apply()",
        "create_partitions": "plan_alterations() and alter_topics()",
        "delete_consumer_groups": "delete_groups()",
        "delete_records": "plan_truncation() and truncate()",
        "describe_consumer_groups": "describe_groups()",
        "list_consumer_group_offsets": "group_lag() or export_offsets()",
        "list_consumer_groups": "list_groups()",
        "list_offsets": "Consumer.beginning_offsets() and Consumer.end_offsets()",
    },
    "Consumer": {
        "consume": _POLL,
        "consumer_group_metadata": "group_metadata()",
        "get_watermark_offsets": _ENDS,
        "getmany": _POLL,
        "getone": "next(consumer.records())",
        "highwater": "end_offsets()",
        "incremental_assign": "assign()",
        "incremental_unassign": "assign()",
        "last_stable_offset": 'end_offsets(), with isolation_level="read_committed"',
        "list_topics": "Admin.list_topics()",
        "memberid": "group_metadata()",
        "partitions_for_topic": "Admin.describe_topics()",
        "seek_to_committed": "committed() and seek()",
        "store_offsets": "commit(offsets)",
        "topics": "Admin.list_topics()",
        "unassign": "unsubscribe()",
    },
}

_TIMES = {"timeout", "timeout_s", "timeout_sec", "timeout_seconds", "deadline", "deadline_ms", "request_timeout"}
_INTERVALS = {"interval", "interval_s"}
#: Parameters of methods: one that a method needs for the advice, and the advice.
PARAMETERS = {
    **dict.fromkeys(sorted(_TIMES), ("timeout_ms", "timeout_ms, in milliseconds")),
    **dict.fromkeys(sorted(_INTERVALS), ("interval_ms", "interval_ms, in milliseconds")),
    "asynchronous": ("offsets", "commit_async(), which returns at once"),
    "listener": ("on_assigned", "on_assigned, on_revoked and on_lost"),
    "max_records": ("timeout_ms", "the setting max_poll_records"),
    "message": ("offsets", "offsets={TopicPartition(topic, partition): OffsetAndMetadata(offset + 1)}"),
    "new_topics": ("topics", "topics=[NewTopic(name, partitions)]"),
    "num_partitions": ("partitions", "partitions"),
    "on_assign": ("on_assigned", "on_assigned"),
    "on_revoke": ("on_revoked", "on_revoked"),
    "replication_factor": ("replication", "replication"),
    "validate_only": ("dry_run", "dry_run"),
}


def instead_of(name: str, parameters: Collection[str], owner: str) -> str | None:
    """Return what to write for a parameter that a method of the class `owner` does not have; None if unknown."""
    required, advice = PARAMETERS.get(name, ("", ""))
    if required in parameters:
        return advice
    if name in _TIMES and owner.endswith("Admin"):
        return f"{owner}(timeout_ms=...), which limits each call"
    return None
