"""kcli: a Kafka command line tool and Python library that speak the wire protocol themselves.

The library's face. Each name is imported when it is first used, so that `import kcli` takes no time:

- `Consumer` reads records, alone or as a member of a group.
- `Producer` writes records.
- `Admin` looks at topics, groups, offsets and assignments, and plans and applies changes to them.
- `AsyncConsumer`, `AsyncProducer` and `AsyncAdmin` are the same for asyncio: coroutines in place of methods that wait.
- Each class that a method of these takes or returns is a name here, too: `NewTopic`, `ConsumerRecord`, `Results`, ...
- `total_lag` sums the lag of partitions, and says how many the sum leaves out.
- `KcliError` is the base class of every error that kcli raises on purpose. The errors that the docstrings of methods
  name are here; `kcli.errors` has all others.

**Non-obvious**

- `kcli/__init__.pyi` declares the same names for type checkers. The names here are strings, so that no import circle
  leads through the package and a start of the command imports only what it uses.
- `__version__` is a literal, because `kcli --version` answers before anything else is imported.
"""

__version__ = "0.1.0"

#: The module of each public name. `python -m kcli.cli.docs` writes `__init__.pyi` from it.
_HOME = {
    # clients
    "Admin": "kcli.admin.client",
    "AsyncAdmin": "kcli.aio.async_admin",
    "AsyncConsumer": "kcli.aio.async_consumer",
    "AsyncProducer": "kcli.aio.async_producer",
    "Consumer": "kcli.consumer.consumer",
    "Producer": "kcli.producer.producer",
    "AdminSettings": "kcli.client.keyword_types",
    "ConsumerConfig": "kcli.client.config",
    "ConsumerSettings": "kcli.client.keyword_types",
    "ProducerConfig": "kcli.client.config",
    "ProducerSettings": "kcli.client.keyword_types",
    "RequestFuture": "kcli.client.request_future",
    "Results": "kcli.client.requests",
    # records, partitions and offsets
    "ConsumerRecord": "kcli.consumer.consumer",
    "GroupMetadata": "kcli.structs",
    "LOG_END": "kcli.log_place",
    "LOG_START": "kcli.log_place",
    "NewRecords": "kcli.protocol.records.record",
    "OffsetAndMetadata": "kcli.structs",
    "OffsetAndTimestamp": "kcli.structs",
    "Outcome": "kcli.producer.batches",
    "Place": "kcli.log_place",
    "PositionReset": "kcli.consumer.subscription",
    "ProducerRecord": "kcli.producer.callables",
    "RecordColumns": "kcli.protocol.records.columns",
    "RecordMetadata": "kcli.producer.batches",
    "RetryState": "kcli.consumer.retry_backoff",
    "SendCallables": "kcli.producer.callables",
    "TopicPartition": "kcli.structs",
    # the cluster, its topics and their settings
    "Alteration": "kcli.admin.topic_changes.alterations",
    "ClusterDescription": "kcli.admin.cluster",
    "CreatedTopic": "kcli.admin.topics",
    "Finding": "kcli.admin.explain.findings",
    "Setting": "kcli.admin.configs",
    "NewTopic": "kcli.admin.topics",
    "TopicInfo": "kcli.client.metadata",
    "TopicSize": "kcli.admin.topics",
    "Truncation": "kcli.admin.topic_changes.truncation",
    "Wanted": "kcli.admin.topic_changes.alterations",
    # groups, their lag and their assignments; transactions
    "Changes": "kcli.assignors.forecast",
    "Comparison": "kcli.assignors.forecast",
    "FoundGroups": "kcli.admin.groups.listing",
    "FoundTransactions": "kcli.admin.transactions",
    "Group": "kcli.admin.groups.group",
    "GroupMember": "kcli.admin.groups.group",
    "GroupSurvey": "kcli.admin.groups.survey",
    "LagTotals": "kcli.admin.groups.lag",
    "LiveGroup": "kcli.admin.assignments",
    "PartitionLag": "kcli.admin.groups.lag",
    "Transaction": "kcli.admin.transactions",
    "TransactionSurvey": "kcli.admin.logs.open_transactions",
    "WaitResult": "kcli.admin.groups.group_conditions",
    "total_lag": "kcli.admin.groups.lag",
    # plans
    "Applied": "kcli.admin.plan",
    "FromOffsets": "kcli.admin.offsets.offset_plan",
    "OffsetPlan": "kcli.admin.offsets.offset_plan",
    "Plan": "kcli.admin.plan",
    "Positions": "kcli.admin.offsets.plan_files",
    "Row": "kcli.admin.plan",
    "ShiftBy": "kcli.admin.offsets.offset_plan",
    "Snapshot": "kcli.admin.snapshots",
    "ToCurrent": "kcli.admin.offsets.offset_plan",
    # errors
    "AuthenticationError": "kcli.errors",
    "BrokerError": "kcli.errors",
    "CommitFailed": "kcli.errors",
    "ConcurrentUse": "kcli.errors",
    "ConfigError": "kcli.errors",
    "CorruptRecords": "kcli.errors",
    "ErrorCode": "kcli.error_codes",
    "ForkedClient": "kcli.errors",
    "GroupInUse": "kcli.admin.offsets.checks",
    "KcliError": "kcli.errors",
    "LogTruncated": "kcli.errors",
    "NoOffset": "kcli.errors",
    "NotFound": "kcli.errors",
    "OffsetOutOfRange": "kcli.errors",
    "OutcomeUnknown": "kcli.errors",
    "PlanOutdated": "kcli.admin.offsets.checks",
    "PlanRefused": "kcli.admin.plan",
    "RecordTooLarge": "kcli.errors",
    "Refused": "kcli.errors",
    "SerializationError": "kcli.errors",
    "SnapshotError": "kcli.admin.snapshots",
    "TimeoutExpired": "kcli.errors",
    "TopicAuthorizationError": "kcli.errors",
    "TopicRecreated": "kcli.errors",
    "TransactionFailed": "kcli.errors",
    "WakeupError": "kcli.errors",
    "WrongCluster": "kcli.admin.offsets.checks",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'kcli' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
