"""Offsets in transactions on a cluster in memory: coordinators of groups and of transactions on different nodes."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.error_codes import ErrorCode
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kcli.structs import OFFSETS_TOPIC, TopicPartition
from tests.broker.transaction.requests import END, END_WITH_EPOCH, add_offsets, end, init
from tests.broker.transaction.scenarios_offsets import OFFSETS, OFFSETS_THAT_ADD, codes, offsets
from tests.broker.transaction.test_moving_coordinator import settle
from tests.broker.transaction.transaction_cluster import ORDERS, TransactionCluster

NAME, GROUP = "mover", "readers"
GROUPS = TopicPartition(OFFSETS_TOPIC, 0)
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.fixture
def cluster() -> TransactionCluster:
    """Node 1 coordinates the transactions, and node 3 the groups; node 2 can replace both."""
    cluster = TransactionCluster()
    cluster.create(OFFSETS_TOPIC, [3, 2], cleanup_policy="compact", min_insync_replicas=1)
    cluster.run(600)
    return cluster


def start(cluster: TransactionCluster) -> Any:
    return cluster.ask(init(NAME), 5)


def pend(cluster: TransactionCluster, producer: Any, offset: int, version: int = OFFSETS_THAT_ADD) -> None:
    request = offsets(NAME, producer, GROUP, (ORDERS, 0, offset))
    assert codes(cluster.ask(request, version, GROUPS)) == [0]


def fetched(cluster: TransactionCluster) -> tuple[int, int]:
    """Return (offset, error) of the group with require_stable."""
    topics = [OffsetFetchRequestTopics(name=ORDERS, partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)], require_stable=True)
    [found] = cluster.ask(request, 9, GROUPS).groups
    row = found.topics[0].partitions[0]
    return row.committed_offset, row.error_code


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", [OFFSETS, OFFSETS_THAT_ADD])
def test_offsets_are_verified_and_ended_over_the_network(
    cluster: TransactionCluster, version: int, is_commit: bool
) -> None:
    producer = start(cluster)
    if version == OFFSETS:
        assert cluster.ask(add_offsets(NAME, producer, GROUP), 4).error_code == 0
    pend(cluster, producer, 7, version)
    assert fetched(cluster) == (-1, UNSTABLE)

    assert cluster.ask(end(NAME, producer, is_commit), END if version == OFFSETS else END_WITH_EPOCH).error_code == 0
    settle(cluster, NAME)

    assert fetched(cluster) == ((7, 0) if is_commit else (-1, 0))


def test_pending_offsets_are_at_the_next_coordinator_of_the_group(cluster: TransactionCluster) -> None:
    producer = start(cluster)
    pend(cluster, producer, 7)

    cluster.node(3).kill()
    cluster.expire()
    assert cluster.leader(GROUPS) is cluster.node(2)
    assert fetched(cluster) == (-1, UNSTABLE)
    assert cluster.ask(end(NAME, producer, True), END_WITH_EPOCH).error_code == 0
    settle(cluster, NAME)

    assert fetched(cluster) == (7, 0)


def test_marker_waits_for_the_next_coordinator_of_the_group(cluster: TransactionCluster) -> None:
    producer = start(cluster)
    pend(cluster, producer, 7)
    cluster.node(3).kill()

    assert cluster.ask(end(NAME, producer, True), END_WITH_EPOCH).error_code == 0
    cluster.expire()
    settle(cluster, NAME)

    assert fetched(cluster) == (7, 0)


def test_marker_is_sent_again_while_groups_are_loaded(
    cluster: TransactionCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker that came before the pending offset is read would be applied too early, and lost."""
    producer = start(cluster)
    pend(cluster, producer, 7)
    two = cluster.node(2)
    sections = iter(range(1000))

    def load_slowly(*arguments: Any) -> Any:
        for _ in sections:
            yield
        yield from read_at_once(*arguments)

    partitions = two.group_parts().partitions
    read_at_once = partitions._load
    monkeypatch.setattr(partitions, "_load", load_slowly)
    cluster.node(3).kill()
    assert cluster.ask(end(NAME, producer, True), END_WITH_EPOCH).error_code == 0
    cluster.expire()
    settle(cluster, NAME)

    assert next(sections, None) is None, "the partition was loaded in steps"
    assert fetched(cluster) == (7, 0)


def test_offsets_without_the_transactions_coordinator_are_refused(cluster: TransactionCluster) -> None:
    producer = start(cluster)
    cluster.network.cut(3, 1)

    answer = cluster.node(3).send(offsets(NAME, producer, GROUP, (ORDERS, 0, 7)), OFFSETS_THAT_ADD)
    for _ in range(1000):
        if answer.is_there:
            break
        cluster.run(100)

    assert codes(answer.value) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]  # as in Apache Kafka, for old producers
    assert fetched(cluster) == (-1, 0)


def test_a_node_that_coordinates_nothing_refuses_offsets(cluster: TransactionCluster) -> None:
    producer = start(cluster)

    def refused(group: str) -> list[int]:
        return codes(cluster.node(1).send(offsets(NAME, producer, group, (ORDERS, 0, 7)), OFFSETS_THAT_ADD).value)

    assert refused(GROUP) == [ErrorCode.NOT_COORDINATOR]
    assert refused("") == [ErrorCode.INVALID_GROUP_ID]
