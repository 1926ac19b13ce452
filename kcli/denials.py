"""Refusals of an authorizer in words: the operation and the resource that are lacking, and the principal.

A broker responds with a code alone, and some brokers add internal texts. The operation follows from the API. Ground:
imports error codes and structs. Source: KafkaApis of 4.3, and KIP-11; READ, WRITE, DELETE and ALTER imply DESCRIBE.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcli.error_codes import ErrorCode
from kcli.structs import ANONYMOUS

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


def _for(principal: str | None) -> str:
    return f" for {principal}" if principal not in (None, ANONYMOUS) else ""


def denial(code: ErrorCode, api: str, evidence: Mapping[str, Any], principal: str | None) -> str | None:
    """Return the sentence for a refusal by an authorizer; None for another error code.

    Without the right to describe it, a topic or group that does not exist is refused as well.
    """
    if code not in _OPERATIONS:
        return None
    kind, operations = _OPERATIONS[code]
    if kind == "cluster" and api == "InitProducerId":  # KIP-679
        return f"WRITE on every topic, and IDEMPOTENT_WRITE on the cluster, are denied{_for(principal)}"
    operation = operations.get(api, "an operation")
    name = _name(kind, evidence)
    several = kind == "topic" and ", " in name
    where = f"{kind}{'s' if several else ''} {name}: " if name else ""
    absent = f", or the {kind} does not exist" if operation == "DESCRIBE" and kind in ("topic", "group") else ""
    if several and absent:
        absent = ", or they do not exist"
    return f"{where}{operation} on the {kind}{'s' if several else ''} is denied{_for(principal)}{absent}"


def _name(kind: str, evidence: Mapping[str, Any]) -> str:
    keys = {"topic": ("topic", "topics", "resource"), "group": ("group",), "transactional id": ("transactional_id",)}
    for key in keys.get(kind, ()):
        if evidence.get(key):
            return str(evidence[key])
    return str(getattr(evidence.get("partition"), "topic", "")) if kind == "topic" else ""


def not_listed(noun: str, principal: str | None) -> str | None:
    """Return a note about the topics or groups that a list does not have; None without an authorizer."""
    return None if principal == ANONYMOUS else f"{noun} without DESCRIBE{_for(principal)} are not listed"


def or_denied(principal: str | None) -> str:
    """Return the end of a sentence that says that a topic does not exist: it may also be forbidden."""
    return "" if principal == ANONYMOUS else f", or DESCRIBE on it is denied{_for(principal)}"
