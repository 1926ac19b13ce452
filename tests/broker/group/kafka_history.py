"""A history of __consumer_offsets: groups of every kind, created on Apache Kafka by other clients and raw requests."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.broker.group.harness import Connection, ask
from tests.broker.group.offsets_harness import OffsetsSocketHarness, commit, delete, fetch_group, rows_of
from tests.broker.group.requests import form_group_of_one, form_group_of_two, leave, start_join, subscribed_to, sync
from tests.real_kafka import Kafka

LONGEST_LOAD_S = 30
STILL_LOADING = {14, 15, 16}  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR

TOPIC, GONE = "history-orders", "history-gone"
TRANSACTIONAL = ("committed", "aborted", "open", "mixed")
GROUPS = ("simple", "old client", "deleted", "two members", "static", "empty", "connect", *TRANSACTIONAL, "gone topic")
READING = (("range", subscribed_to(TOPIC)),)


def write_history(kafka: Kafka) -> list[Any]:
    """Create groups in every state; return the objects that must stay open until the broker stops."""
    harness = OffsetsSocketHarness(kafka.bootstrap_servers)
    harness.create_topic(TOPIC, 4)
    harness.create_topic(GONE, 1)
    client, first, second, static = (harness.connect(name) for name in ("admin", "one", "two", "three"))

    for offset in range(30):
        commit(client, "simple", {TOPIC: [(0, offset, 3, f"note {offset}"), (1, 7)]})
    delete(client, "simple", {TOPIC: [1]})
    commit(client, "old client", {TOPIC: [(2, 9, -1, None)]}, 2, retention_ms=86_400_000)
    commit(client, "deleted", {TOPIC: [(2, 9)]})
    delete(client, "deleted", {TOPIC: [2]})
    _members(harness, client, first, second, static)
    left_open = [_transaction(kafka, name) for name in TRANSACTIONAL]
    commit(client, "mixed", {TOPIC: [(0, 100), (3, 5)]})
    commit(client, "gone topic", {GONE: [(0, 5)], TOPIC: [(0, 6)]})
    harness.delete_topic(GONE)
    return [harness, left_open]


def _members(
    harness: OffsetsSocketHarness, client: Connection, first: Connection, second: Connection, static: Connection
) -> None:
    leader, _, generation = form_group_of_two(first, second, "two members", protocols=READING, session_ms=60_000)
    commit(client, "two members", {TOPIC: [(0, 11, 0, "read")]}, generation=generation, member=leader)
    form_group_of_one(static, "static", instance="box-1", protocols=READING, session_ms=60_000)
    third = harness.connect("third")
    member, generation = form_group_of_one(third, "empty", protocols=READING)
    commit(client, "empty", {TOPIC: [(3, 33)]}, generation=generation, member=member)
    ask(third, leave("empty", member))
    worker = harness.connect("worker")
    start_join(worker, "connect", protocol_type="connect", session_ms=60_000)
    joined = worker.receive()
    ask(worker, sync("connect", joined.generation_id, joined.member_id, protocol_type="connect"))


def _transaction(kafka: Kafka, group: str) -> Any:
    """Commit offset 42 in a transaction that is committed, aborted or left open by the group's name."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    producer = Producer({**servers, "transactional.id": f"history-{group}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    consumer = Consumer({**servers, "group.id": group})
    producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 42)], consumer.consumer_group_metadata(), 30)
    if group == "committed":
        producer.commit_transaction(30)
    elif group == "aborted":
        producer.abort_transaction(30)
    if group in ("committed", "aborted"):
        consumer.committed([TopicPartition(TOPIC, 0)], timeout=30)  # waits for the marker
    consumer.close()
    return producer


def fetch_all_offsets(client: Connection, *, stable: bool = False) -> dict[str, Any]:
    """Return the offsets of all groups, after the broker has loaded __consumer_offsets."""
    request = OffsetFetchRequest(groups=[fetch_group(group, None) for group in GROUPS], require_stable=stable)
    deadline = time.monotonic() + LONGEST_LOAD_S
    response = ask(client, request, 9)
    while any(g.error_code in STILL_LOADING for g in response.groups):
        assert time.monotonic() < deadline, response
        time.sleep(0.05)
        response = ask(client, request, 9)
    return {
        g.group_id: [[t, [list(row) for row in sorted(rows)]] for t, rows in rows_of(g.topics)] for g in response.groups
    }


def describe_all_groups(client: Connection) -> dict[str, Any]:
    """Return state and members of all groups from DescribeGroups."""
    response = ask(client, DescribeGroupsRequest(groups=list(GROUPS)), 5)
    return {
        g.group_id: [g.error_code, g.group_state, g.protocol_type, g.protocol_data, sorted(map(_member, g.members))]
        for g in response.groups
    }


def _member(member: Any) -> list[str]:
    blobs = (member.member_metadata, member.member_assignment)
    texts = [base64.b64encode(bytes(blob)).decode() for blob in blobs]
    return [member.member_id, member.group_instance_id or "", member.client_id, member.client_host, *texts]


def log_files(data: Path) -> dict[int, bytes]:
    """Return the only segment of each partition of __consumer_offsets."""
    found = {}
    for folder in data.glob("__consumer_offsets-*"):
        (segment,) = folder.glob("*.log")
        found[int(folder.name.rpartition("-")[2])] = segment.read_bytes()
    return dict(sorted(found.items()))
