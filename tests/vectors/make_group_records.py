"""Make records of groups by Kafka's own classes: `python -m tests.vectors.make_group_records`.

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
# org.apache.kafka.coordinator.group.generated), and the consumer protocol's blobs by those of kafka-clients {VERSION}.
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
