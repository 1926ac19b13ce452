"""Refusals of an authorizer in words: the operation and the resource that are lacking, and the principal.

A broker responds with a code alone, and some brokers add internal texts. The operation follows from the API. Ground:
imports the error codes only. Source: KafkaApis of 4.3, and KIP-11; READ, WRITE, DELETE and ALTER imply DESCRIBE.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from kcli.error_codes import ErrorCode

_TOPIC = {
    "AddPartitionsToTxn": "WRITE",
    "AlterConfigs": "ALTER_CONFIGS",
    "ConsumerGroupDescribe": "DESCRIBE",
    "ConsumerGroupHeartbeat": "DESCRIBE",
    "CreatePartitions": "ALTER",
    "CreateTopics": "CREATE",
    "DeleteRecords": "DELETE",
    "DeleteTopics": "DELETE",
    "DescribeConfigs": "DESCRIBE_CONFIGS",
    "DescribeProducers": "READ",
    "DescribeShareGroupOffsets": "DESCRIBE",
    "DescribeTopicPartitions": "DESCRIBE",
    "Fetch": "READ",
    "IncrementalAlterConfigs": "ALTER_CONFIGS",
    "ListOffsets": "DESCRIBE",
    "Metadata": "DESCRIBE",
    "OffsetCommit": "READ",
    "OffsetDelete": "READ",
    "OffsetFetch": "DESCRIBE",
    "OffsetForLeaderEpoch": "DESCRIBE",
    "Produce": "WRITE",
    "ShareGroupDescribe": "DESCRIBE",
    "StreamsGroupDescribe": "DESCRIBE",
    "TxnOffsetCommit": "READ",
}
_GROUP = {
    "AddOffsetsToTxn": "READ",
    "ConsumerGroupDescribe": "DESCRIBE",
    "ConsumerGroupHeartbeat": "READ",
    "DeleteGroups": "DELETE",
    "DescribeGroups": "DESCRIBE",
    "DescribeShareGroupOffsets": "DESCRIBE",
    "FindCoordinator": "DESCRIBE",
    "Heartbeat": "READ",
    "JoinGroup": "READ",
    "LeaveGroup": "READ",
    "OffsetCommit": "READ",
    "OffsetDelete": "DELETE",
    "OffsetFetch": "DESCRIBE",
    "ShareGroupDescribe": "DESCRIBE",
    "StreamsGroupDescribe": "DESCRIBE",
    "SyncGroup": "READ",
    "TxnOffsetCommit": "READ",
}
_CLUSTER = {
    "AlterConfigs": "ALTER_CONFIGS",
    "AlterUserScramCredentials": "ALTER",
    "CreateAcls": "ALTER",
    "CreateTopics": "CREATE",
    "DeleteAcls": "ALTER",
    "DescribeAcls": "DESCRIBE",
    "DescribeCluster": "DESCRIBE",
    "DescribeConfigs": "DESCRIBE_CONFIGS",
    "DescribeLogDirs": "DESCRIBE",
    "DescribeUserScramCredentials": "DESCRIBE",
    "IncrementalAlterConfigs": "ALTER_CONFIGS",
    "ListConfigResources": "DESCRIBE_CONFIGS",
    "ListGroups": "DESCRIBE",
    "ListPartitionReassignments": "DESCRIBE",
    "Metadata": "CREATE",
    "Produce": "IDEMPOTENT_WRITE",
    "WriteTxnMarkers": "ALTER",
}
_TRANSACTIONAL_ID = {
    "AddOffsetsToTxn": "WRITE",
    "AddPartitionsToTxn": "WRITE",
    "DescribeTransactions": "DESCRIBE",
    "EndTxn": "WRITE",
    "FindCoordinator": "DESCRIBE",
    "InitProducerId": "WRITE",
    "Produce": "WRITE",
    "TxnOffsetCommit": "WRITE",
}
_DELEGATION_TOKEN = {"DescribeDelegationToken": "DESCRIBE"}

_OPERATIONS: Mapping[ErrorCode, tuple[str, Mapping[str, str]]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ("topic", _TOPIC),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ("group", _GROUP),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ("cluster", _CLUSTER),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ("transactional id", _TRANSACTIONAL_ID),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: ("delegation token", _DELEGATION_TOKEN),
}
#: The names of evidence that a sentence has, so that it need not be printed again.
NAMES = ("topic", "topics", "group", "transactional_id", "resource")

#: Of a client without TLS and SASL.
ANONYMOUS = "User:ANONYMOUS"

_thread = threading.local()


def acting_as(principal: str | None) -> None:
    """Set the principal of the client that this thread uses: `ANONYMOUS` without TLS and SASL; None: not known to it.

    An error does not know its client, so the sentences of a thread name the principal of its last one.
    """
    _thread.principal = principal


def _principal() -> str | None:
    return getattr(_thread, "principal", ANONYMOUS)


def is_secured() -> bool:
    """Return whether the client of this thread uses TLS or SASL, so that its brokers may have an authorizer."""
    return _principal() != ANONYMOUS


def for_principal() -> str:
    """Return " for User:x" for the principal of this thread's client, nothing if only the brokers know it."""
    principal = _principal()
    return f" for {principal}" if principal not in (None, ANONYMOUS) else ""


def denial(code: ErrorCode, api: str, evidence: Mapping[str, Any]) -> str | None:
    """Return the sentence for a refusal by an authorizer; None for another error code.

    Without the right to describe it, a topic or group that does not exist is refused as well.
    """
    if code not in _OPERATIONS:
        return None
    kind, operations = _OPERATIONS[code]
    if kind == "cluster" and api == "InitProducerId":  # KIP-679
        return f"WRITE on every topic, and IDEMPOTENT_WRITE on the cluster, are denied{for_principal()}"
    operation = operations.get(api, "an operation")
    name = _name(kind, evidence)
    several = kind == "topic" and ", " in name
    where = f"{kind}{'s' if several else ''} {name}: " if name else ""
    absent = f", or the {kind} does not exist" if operation == "DESCRIBE" and kind in ("topic", "group") else ""
    if several and absent:
        absent = ", or they do not exist"
    return f"{where}{operation} on the {kind}{'s' if several else ''} is denied{for_principal()}{absent}"


def _name(kind: str, evidence: Mapping[str, Any]) -> str:
    keys = {"topic": ("topic", "topics", "resource"), "group": ("group",), "transactional id": ("transactional_id",)}
    for key in keys.get(kind, ()):
        if evidence.get(key):
            return str(evidence[key])
    return str(getattr(evidence.get("partition"), "topic", "")) if kind == "topic" else ""


def not_listed(noun: str) -> str | None:
    """Return a note about the topics or groups that a list does not have; None without an authorizer."""
    if not is_secured():
        return None
    return f"{noun} without DESCRIBE{for_principal()} are not listed"


def or_denied() -> str:
    """Return the end of a sentence that says that a topic does not exist: it may also be forbidden."""
    return f", or DESCRIBE on it is denied{for_principal()}" if is_secured() else ""
