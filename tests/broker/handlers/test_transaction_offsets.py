"""TxnOffsetCommit and WriteTxnMarkers on a broker alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kcli.broker.security.authorizer import AclBinding, Authorizer
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import CLUSTER_NAME, AclOperation, AclPermissionType, ResourceType
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kcli.structs import OFFSETS_TOPIC, TopicPartition
from tests.broker.group.harness import Connection, ask
from tests.broker.group.offsets_harness import OffsetsRecorder, OffsetsSocketHarness, commit, delete, fetch
from tests.broker.group.requests import form_group_of_one
from tests.broker.transaction.harness import MemoryBroker

COMMIT, ABORT = True, False
PARTITIONS = 4
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedBroker]:
    settings = {"transaction.partition.verification.enable": False}  # so that no transaction has to be begun
    with EmbeddedBroker(offsets_topic_num_partitions=PARTITIONS, **settings) as broker:
        yield broker


@pytest.fixture
def broker(embedded: EmbeddedBroker) -> Iterator[OffsetsRecorder]:
    harness = OffsetsSocketHarness(embedded.bootstrap_servers)
    yield OffsetsRecorder(harness)
    harness.close()


def pend(
    client: Connection,
    group: str,
    producer_id: int,
    topics: dict[str, list[tuple[int, int]]],
    version: int = 4,
    **more: Any,
) -> list[tuple[str, list[tuple[int, int]]]]:
    """Send a TxnOffsetCommit; return per topic the partitions with their errors."""
    request = TxnOffsetCommitRequest(
        transactional_id=f"tx-{producer_id}",
        group_id=group,
        producer_id=producer_id,
        producer_epoch=more.pop("epoch", 0),
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
                    for number, offset in rows
                ],
            )
            for name, rows in topics.items()
        ],
        **more,
    )
    response = ask(client, request, version)
    return [(topic.name, [(p.partition_index, p.error_code) for p in topic.partitions]) for topic in response.topics]


def end(
    client: Connection, producer_id: int, is_commit: bool, partitions: list[TopicPartition], epoch: int = 0
) -> dict[TopicPartition, int]:
    """Send a marker; return the error of each partition."""
    topics = [WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition]) for tp in partitions]
    marker = WritableTxnMarker(
        producer_id=producer_id, producer_epoch=epoch, transaction_result=is_commit, topics=topics, coordinator_epoch=1
    )
    response = ask(client, WriteTxnMarkersRequest(markers=[marker]))
    return {
        TopicPartition(topic.name, one.partition_index): one.error_code
        for row in response.markers
        for topic in row.topics
        for one in topic.partitions
    }


OFFSETS = [TopicPartition(OFFSETS_TOPIC, number) for number in range(PARTITIONS)]


@pytest.mark.parametrize("is_commit", [COMMIT, ABORT])
def test_offsets_of_a_transaction_are_unstable_until_the_marker(broker: OffsetsRecorder, is_commit: bool) -> None:
    group, client, producer_id = broker.new_group(), broker.connect(), 5000 + is_commit
    topic, _ = broker.new_topic()
    commit(client, group, {topic: [(0, 3)]})

    for version in range(5):
        assert pend(client, group, producer_id, {topic: [(0, 7), (1, 8)]}, version) == [(topic, [(0, 0), (1, 0)])]
    assert fetch(client, group, {topic: [0, 1]}) == (0, [(topic, [(0, 3, -1, "", 0), (1, -1, -1, "", 0)])])
    unstable = [(number, -1, -1, "", UNSTABLE) for number in (0, 1)]
    assert fetch(client, group, {topic: [0, 1]}, stable=True) == (0, [(topic, unstable)])
    assert fetch(client, group, None, stable=True) == (0, [(topic, unstable[:1])]), "only committed ones are listed"

    assert end(client, producer_id, is_commit, OFFSETS) == dict.fromkeys(OFFSETS, 0)

    expected = [(0, 7, -1, "", 0), (1, 8, -1, "", 0)] if is_commit else [(0, 3, -1, "", 0), (1, -1, -1, "", 0)]
    assert fetch(client, group, {topic: [0, 1]}, stable=True) == (0, [(topic, expected)])


def test_unknown_partitions_come_first(broker: OffsetsRecorder) -> None:
    group, client = broker.new_group(), broker.connect()
    topic, _ = broker.new_topic()

    rows = pend(client, group, 5010, {"nope": [(0, 1)], topic: [(0, 1), (9, 1)]})

    assert rows == [("nope", [(0, 3)]), (topic, [(9, 3), (0, 0)])]


def test_an_empty_group_id_is_refused(broker: OffsetsRecorder) -> None:
    topic, _ = broker.new_topic()

    assert pend(broker.connect(), "", 5011, {topic: [(0, 1)]}) == [(topic, [(0, ErrorCode.INVALID_GROUP_ID)])]


def test_the_member_of_a_group_is_checked_if_it_is_named(broker: OffsetsRecorder) -> None:
    group, client = broker.new_group(), broker.connect()
    topic, _ = broker.new_topic()
    offsets = {topic: [(0, 1)]}
    assert pend(client, group, 5012, offsets, generation_id=1) == [(topic, [(0, ErrorCode.ILLEGAL_GENERATION)])]

    member, generation = form_group_of_one(client, group)

    def error(**who: Any) -> int:
        return pend(client, group, 5012, offsets, **who)[0][1][0][1]

    assert error(member_id=member, generation_id=generation) == 0
    assert error() == 0, "producers before KIP-447 name no member"
    assert error(member_id=member, generation_id=generation + 1) == ErrorCode.ILLEGAL_GENERATION
    assert error(member_id=member) == ErrorCode.ILLEGAL_GENERATION
    assert error(member_id="unknown", generation_id=generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert error(group_instance_id="unknown", member_id=member, generation_id=generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_older_epoch_of_the_producer_is_refused(broker: OffsetsRecorder) -> None:
    group, client = broker.new_group(), broker.connect()
    topic, _ = broker.new_topic()
    pend(client, group, 5013, {topic: [(0, 1)]}, epoch=4)

    rows = pend(client, group, 5013, {topic: [(0, 2)]}, epoch=3)

    assert rows == [(topic, [(0, ErrorCode.INVALID_PRODUCER_EPOCH)])]


def test_deleted_offsets_are_not_stored_by_the_marker(broker: OffsetsRecorder) -> None:
    group, client = broker.new_group(), broker.connect()
    topic, _ = broker.new_topic()
    pend(client, group, 5014, {topic: [(0, 1), (1, 2)]})

    assert delete(client, group, {topic: [0]}) == (0, [(topic, [(0, 0)])])
    end(client, 5014, COMMIT, OFFSETS)

    assert fetch(client, group, {topic: [0, 1]}) == (0, [(topic, [(0, -1, -1, "", 0), (1, 2, -1, "", 0)])])


def test_markers_of_unknown_partitions_and_older_epochs(broker: OffsetsRecorder) -> None:
    client = broker.connect()
    topic, _ = broker.new_topic()
    known, unknown, other = TopicPartition(topic, 0), TopicPartition(topic, 9), TopicPartition("nope", 0)

    assert end(client, 5015, COMMIT, [known, unknown, other], epoch=4) == {known: 0, unknown: 3, other: 3}
    assert end(client, 5015, COMMIT, [known], epoch=3) == {known: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert ask(client, WriteTxnMarkersRequest(markers=[])).markers == []


def test_markers_of_a_producer_share_a_row(broker: OffsetsRecorder) -> None:
    client = broker.connect()
    topic, _ = broker.new_topic()
    markers = [
        WritableTxnMarker(producer_id=id, topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[number])])
        for id, number in ((5016, 0), (5017, 0), (5016, 1))
    ]

    rows = ask(client, WriteTxnMarkersRequest(markers=markers)).markers

    assert [(row.producer_id, [p.partition_index for t in row.topics for p in t.partitions]) for row in rows] == [
        (5016, [0, 1]),
        (5017, [0]),
    ]


# ---- rights ----


def allowed(*rights: tuple[ResourceType, str, AclOperation]) -> MemoryBroker:
    """Return a broker whose clients have these rights only."""
    broker = MemoryBroker()
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    assert broker.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code == 0
    anyone = ("User:*", "*")
    broker.broker.authorizer = Authorizer(
        AclBinding(kind, name, 3, *anyone, operation, AclPermissionType.ALLOW) for kind, name, operation in rights
    )
    return broker


WRITES = (ResourceType.TRANSACTIONAL_ID, "tx", AclOperation.WRITE)
READS_GROUP = (ResourceType.GROUP, "g", AclOperation.READ)
READS_TOPIC = (ResourceType.TOPIC, "orders", AclOperation.READ)
# The transaction has no coordinator yet: the request was let through.
LET_THROUGH = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("rights", "error"),
    [
        ((READS_GROUP, READS_TOPIC), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ((WRITES, READS_TOPIC), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ((WRITES, READS_GROUP), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ((WRITES, READS_GROUP, READS_TOPIC), LET_THROUGH),
    ],
)
def test_offsets_need_rights_on_id_group_and_topic(rights: Any, error: ErrorCode) -> None:
    broker = allowed(*rights)
    broker.broker.cluster.ensure_internal(OFFSETS_TOPIC)
    one = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [TxnOffsetCommitRequestTopic(name="orders", partitions=[one])]
    request = TxnOffsetCommitRequest(transactional_id="tx", group_id="g", producer_id=0, topics=topics)

    answer = broker.ask(request, 5)

    assert [p.error_code for t in answer.topics for p in t.partitions] == [error]


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (AclOperation.ALTER, ErrorCode.NONE),
        (AclOperation.CLUSTER_ACTION, ErrorCode.NONE),
        (AclOperation.DESCRIBE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_markers_need_a_right_on_the_cluster(operation: AclOperation, error: ErrorCode) -> None:
    broker = allowed((ResourceType.CLUSTER, CLUSTER_NAME, operation))
    topics = [WritableTxnMarkerTopic(name="orders", partition_indexes=[0])]

    answer = broker.ask(WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=5, topics=topics)]), 2)

    assert [p.error_code for row in answer.markers for t in row.topics for p in t.partitions] == [error]
