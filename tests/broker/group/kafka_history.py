"""A past for __consumer_offsets: groups of every kind, made by foreign clients and by raw requests on a real Kafka."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.broker.group.lab import Connection, ask
from tests.broker.group.offsets_labs import OffsetsSocketLab, commit, delete, fetch_group, rows_of
from tests.broker.group.requests import enter, leave, settle_alone, settle_two, subscribed_to, sync
from tests.real_kafka import Kafka

LONGEST_LOAD_S = 30
STILL_LOADING = {14, 15, 16}  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR

TOPIC, GONE = "history-orders", "history-gone"
TRANSACTIONAL = ("committed", "aborted", "open", "mixed")
GROUPS = ("simple", "old client", "deleted", "two members", "static", "empty", "connect", *TRANSACTIONAL, "gone topic")
READING = (("range", subscribed_to(TOPIC)),)


def live_through(kafka: Kafka) -> list[Any]:
    """Everything that can happen to groups; what must stay open until the broker stops is returned."""
    lab = OffsetsSocketLab(kafka.bootstrap_servers)
    lab.create_topic(TOPIC, 4)
    lab.create_topic(GONE, 1)
    client, first, second, static = (lab.connect(name) for name in ("admin", "one", "two", "three"))

    for offset in range(30):
        commit(client, "simple", {TOPIC: [(0, offset, 3, f"note {offset}"), (1, 7)]})
    delete(client, "simple", {TOPIC: [1]})
    commit(client, "old client", {TOPIC: [(2, 9, -1, None)]}, 2, retention_ms=86_400_000)
    commit(client, "deleted", {TOPIC: [(2, 9)]})
    delete(client, "deleted", {TOPIC: [2]})
    _members(lab, client, first, second, static)
    left_open = [_transaction(kafka, name) for name in TRANSACTIONAL]
    commit(client, "mixed", {TOPIC: [(0, 100), (3, 5)]})
    commit(client, "gone topic", {GONE: [(0, 5)], TOPIC: [(0, 6)]})
    lab.delete_topic(GONE)
    return [lab, left_open]


def _members(
    lab: OffsetsSocketLab, client: Connection, first: Connection, second: Connection, static: Connection
) -> None:
    leader, _, generation = settle_two(first, second, "two members", protocols=READING, session_ms=60_000)
    commit(client, "two members", {TOPIC: [(0, 11, 0, "read")]}, generation=generation, member=leader)
    settle_alone(static, "static", instance="box-1", protocols=READING, session_ms=60_000)
    third = lab.connect("third")
    member, generation = settle_alone(third, "empty", protocols=READING)
    commit(client, "empty", {TOPIC: [(3, 33)]}, generation=generation, member=member)
    ask(third, leave("empty", member))
    worker = lab.connect("worker")
    enter(worker, "connect", protocol_type="connect", session_ms=60_000)
    joined = worker.receive()
    ask(worker, sync("connect", joined.generation_id, joined.member_id, protocol_type="connect"))


def _transaction(kafka: Kafka, group: str) -> Any:
    """Commit offset 42 in a transaction that ends as the group's name says."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    producer = Producer({**servers, "transactional.id": f"history-{group}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    consumer = Consumer({**servers, "group.id": group})
    producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 42)], consumer.consumer_group_metadata(), 30)
    consumer.close()
    if group == "committed":
        producer.commit_transaction(30)
    elif group == "aborted":
        producer.abort_transaction(30)
    return producer


def told_offsets(client: Connection, *, stable: bool = False) -> dict[str, Any]:
    """The offsets of all groups, as OffsetFetch tells them once a broker that has just started knows them."""
    request = OffsetFetchRequest(groups=[fetch_group(group, None) for group in GROUPS], require_stable=stable)
    deadline = time.monotonic() + LONGEST_LOAD_S
    answer = ask(client, request, 9)
    while any(g.error_code in STILL_LOADING for g in answer.groups):
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
        answer = ask(client, request, 9)
    return {
        g.group_id: [[t, [list(row) for row in sorted(rows)]] for t, rows in rows_of(g.topics)] for g in answer.groups
    }


def told_groups(client: Connection) -> dict[str, Any]:
    """State and members of all groups, as DescribeGroups tells them."""
    answer = ask(client, DescribeGroupsRequest(groups=list(GROUPS)), 5)
    return {
        g.group_id: [g.error_code, g.group_state, g.protocol_type, g.protocol_data, sorted(map(_member, g.members))]
        for g in answer.groups
    }


def _member(member: Any) -> list[str]:
    blobs = (member.member_metadata, member.member_assignment)
    texts = [base64.b64encode(bytes(blob)).decode() for blob in blobs]
    return [member.member_id, member.group_instance_id or "", member.client_id, member.client_host, *texts]


def log_files(data: Path) -> dict[int, bytes]:
    """All of __consumer_offsets by partition; its only segments."""
    found = {}
    for folder in data.glob("__consumer_offsets-*"):
        (segment,) = folder.glob("*.log")
        found[int(folder.name.rpartition("-")[2])] = segment.read_bytes()
    return dict(sorted(found.items()))
