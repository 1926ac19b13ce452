"""Make records of groups and transactions by Kafka's own classes: `python -m tests.vectors.make_group_records`.

The result goes to group_records.txt. Run it by hand for a new version of Kafka; the file is checked in.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.real_kafka import VERSION, fetch_jars

FOLDER = Path(__file__).parent
FILE = FOLDER / "group_records.txt"
HEADER = f"""\
# Keys and values of __consumer_offsets as the classes of kafka-group-coordinator {VERSION} write them (package
# org.apache.kafka.coordinator.group.generated), those of __transaction_state as the classes of
# kafka-transaction-coordinator {VERSION} do, and the consumer protocol's blobs by those of kafka-clients {VERSION}.
# Read from JSON by the JsonConverter of each, written through MessageUtil (see GroupRecordVectors.java). One per line:
# name, version, bytes in hex, and the JSON that was read. Made by `python -m tests.vectors.make_group_records`.
"""
TOPIC_ID = "nmVLnnlwR-SAtB_Ucdd2vQ"
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def main() -> None:
    """Write the file."""
    write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    cases = "".join(f"{name} {version} {write(value)}\n" for name, version, value in make_cases())
    command = ["java", "-cp", f"{fetch_jars(VERSION)}/*", str(FOLDER / "GroupRecordVectors.java")]
    done = subprocess.run(command, input=cases.encode(), stdout=subprocess.PIPE, check=True, timeout=300)
    FILE.write_text(HEADER + done.stdout.decode())


def make_cases() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Return name, version and JSON value of each case for the converters."""
    for kind in ("LegacyOffsetCommitKey", "OffsetCommitKey"):
        yield kind, 0, {"group": "billing", "topic": "orders", "partition": 3}
    yield "OffsetCommitKey", 0, {"group": "", "topic": "名", "partition": 0}
    yield "GroupMetadataKey", 0, {"group": "grüppe"}
    for version in range(5):
        yield "OffsetCommitValue", version, _offset(version, 42, 7, "näme", 1_795_000_000_123, TOPIC_ID)
        yield "OffsetCommitValue", version, _offset(version, -5, -1, "", 0, NO_ID)
        yield "GroupMetadataValue", version, _group(version, [_member(version, None), _member(version, "static-1")])
        yield "GroupMetadataValue", version, {**_group(version, []), "protocol": None, "leader": None}
    for version in range(4):
        yield "ConsumerProtocolSubscription", version, _subscription(version)
        yield "ConsumerProtocolSubscription", version, {**_subscription(version), "topics": [], "userData": None}
        yield "ConsumerProtocolAssignment", version, {"assignedPartitions": _PARTITIONS, "userData": "CQ=="}
        yield "ConsumerProtocolAssignment", version, {"assignedPartitions": [], "userData": None}
    yield from _new_groups()
    yield from _transactions()


def _new_groups() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Records of KIP-848 groups, each with and without its tagged fields."""
    for kind in ("Metadata", "TargetAssignmentMetadata"):
        yield f"ConsumerGroup{kind}Key", 0, {"groupId": "grüppe"}
    for kind in ("MemberMetadata", "TargetAssignmentMember", "CurrentMemberAssignment"):
        yield f"ConsumerGroup{kind}Key", 0, {"groupId": "billing", "memberId": "hqGotu6dQ7Gk0cys368S1g"}
    yield "ConsumerGroupRegularExpressionKey", 0, {"groupId": "billing", "regularExpression": "^orders-.*名$"}
    yield "ConsumerGroupMetadataValue", 0, {"epoch": 12}
    yield "ConsumerGroupMetadataValue", 0, {"epoch": 2147483647, "metadataHash": -6148914691236517206}
    yield "ConsumerGroupTargetAssignmentMetadataValue", 0, {"assignmentEpoch": 12}
    stamped = {"assignmentEpoch": 13, "assignmentTimestamp": 1_795_000_000_789}
    yield "ConsumerGroupTargetAssignmentMetadataValue", 0, stamped
    yield "ConsumerGroupMemberMetadataValue", 0, _new_member(None, None, ["orders", "payments"], "", None)
    member = {**_new_member(None, None, ["orders"], "", None), "classicMemberMetadata": None}
    yield "ConsumerGroupMemberMetadataValue", 0, member
    yield "ConsumerGroupMemberMetadataValue", 0, _new_member("static-1", "rack-a", [], "^o.*", "uniform")
    classic = {"sessionTimeoutMs": 45_000, "supportedProtocols": [{"name": "range", "metadata": "AAEC"}]}
    member = {**_new_member(None, None, ["orders"], None, "range"), "classicMemberMetadata": classic}
    yield "ConsumerGroupMemberMetadataValue", 0, member
    owned = {"topicId": TOPIC_ID, "partitions": [0, 2, 300]}
    for partitions in ([], [owned]):
        yield "ConsumerGroupTargetAssignmentMemberValue", 0, {"topicPartitions": partitions}
    current = {"memberEpoch": 9, "previousMemberEpoch": 8, "state": 0}
    with_epochs = {**owned, "assignmentEpochs": [7, 8, 9]}
    for state, assigned, revoked in ((0, [], []), (1, [owned], [owned]), (2, [with_epochs], [with_epochs, owned])):
        lists = {"assignedPartitions": assigned, "partitionsPendingRevocation": revoked}
        yield "ConsumerGroupCurrentMemberAssignmentValue", 0, {**current, "state": state, **lists}
    for topics in ([], ["orders-1", "orders-名"]):
        value = {"topics": topics, "version": 123_456, "timestamp": 1_795_000_000_321}
        yield "ConsumerGroupRegularExpressionValue", 0, value


def _new_member(
    instance: str | None, rack: str | None, topics: list[str], regex: str | None, assignor: str | None
) -> dict[str, Any]:
    value: dict[str, Any] = {"instanceId": instance, "rackId": rack, "clientId": "c", "clientHost": "/127.0.0.1"}
    value |= {"subscribedTopicNames": topics, "subscribedTopicRegex": regex}
    return {**value, "rebalanceTimeoutMs": 300_000, "serverAssignor": assignor}


def _transactions() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Records of __transaction_state."""
    for name in ("t", "übertrag"):
        yield "TransactionLogKey", 0, {"transactionalId": name}
    partitions = [{"topic": "orders", "partitionIds": [0, 2]}, {"topic": "__consumer_offsets", "partitionIds": [49]}]
    tags = {"previousProducerId": 4000, "nextProducerId": 4002, "clientTransactionVersion": 2, "nextProducerEpoch": 0}
    for version in (0, 1):
        yield "TransactionLogValue", version, _transaction(0, None, start=-1)
        yield "TransactionLogValue", version, _transaction(1, partitions, start=1_795_000_000_100)
        yield "TransactionLogValue", version, _transaction(4, [], start=1_795_000_000_100)
    yield "TransactionLogValue", 1, {**_transaction(2, partitions, start=1_795_000_000_100), **tags}
    yield "TransactionLogValue", 1, {**_transaction(7, partitions, start=1_795_000_000_100), "nextProducerEpoch": 6}


def _transaction(status: int, partitions: list[dict[str, Any]] | None, start: int) -> dict[str, Any]:
    value: dict[str, Any] = {"producerId": 4001, "producerEpoch": 5, "transactionTimeoutMs": 60_000}
    value |= {"transactionStatus": status, "transactionPartitions": partitions}
    times = {"transactionLastUpdateTimestampMs": 1_795_000_000_200, "transactionStartTimestampMs": start}
    return {**value, **times}


_PARTITIONS = [{"topic": "t1", "partitions": [0, 1]}, {"topic": "t2", "partitions": [1]}]


def _offset(version: int, offset: int, epoch: int, note: str, timestamp: int, topic_id: str) -> dict[str, Any]:
    value: dict[str, Any] = {"offset": offset, "metadata": note, "commitTimestamp": timestamp}
    if version >= 3:
        value["leaderEpoch"] = epoch
    if version == 1:
        value["expireTimestamp"] = timestamp + 60_000
    if version >= 4 and topic_id != NO_ID:
        value["topicId"] = topic_id
    return value


def _group(version: int, members: list[dict[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {"protocolType": "consumer", "generation": 9, "protocol": "range", "leader": "member-1"}
    if version >= 2:
        value["currentStateTimestamp"] = 1_795_000_000_456
    return {**value, "members": members}


def _member(version: int, instance: str | None) -> dict[str, Any]:
    value: dict[str, Any] = {"memberId": "member-1", "clientId": "c", "clientHost": "/127.0.0.1"}
    if version >= 3:
        value["groupInstanceId"] = instance
    if version >= 1:
        value["rebalanceTimeout"] = 300_000
    return {**value, "sessionTimeout": 45_000, "subscription": "AAEC", "assignment": ""}


def _subscription(version: int) -> dict[str, Any]:
    value: dict[str, Any] = {"topics": ["t1", "t2"], "userData": "AQI="}
    if version >= 1:
        value["ownedPartitions"] = _PARTITIONS
    if version >= 2:
        value["generationId"] = 7
    if version >= 3:
        value["rackId"] = "rack-a"
    return value


if __name__ == "__main__":
    main()
