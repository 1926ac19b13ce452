"""Transaction coordinators that move with the leadership of __transaction_state, told on a cluster in memory.

Error codes are those of Apache Kafka 4.3.1: 14 while loading, 15 after the timeout, 16 where the id is not coordinated.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcli.broker import coordinator_log
from kcli.error_codes import ErrorCode
from kcli.structs import TopicPartition
from tests.broker.transaction.requests import (
    ADD,
    END,
    END_WITH_EPOCH,
    PRODUCE_THAT_ADDS,
    add,
    commit,
    describe,
    end,
    init,
    listing,
    produce,
)
from tests.broker.transaction.transaction_cluster import ORDERS, STATE, TransactionCluster

LOADING, TIMED_OUT, NOT_COORDINATOR = 14, 15, 16


@pytest.fixture
def cluster() -> TransactionCluster:
    return TransactionCluster()


def start(cluster: TransactionCluster, name: str = "mover", *, timeout_ms: int = 60_000) -> Any:
    producer = cluster.ask(init(name, timeout_ms=timeout_ms), 5)
    assert producer.error_code == 0, producer
    return producer


def write(cluster: TransactionCluster, producer: Any, value: bytes, *, sequence: int = 0, name: str = "mover") -> None:
    """Write a value to both partitions in the producer's transaction."""
    for number in range(2):
        time_ms = cluster.clock.wall_ms()
        request = produce(name, producer, ORDERS, value, partition=number, sequence=sequence, time_ms=time_ms)
        answer = cluster.ask(request, PRODUCE_THAT_ADDS, TopicPartition(ORDERS, number))
        assert answer.responses[0].partition_responses[0].error_code == 0, answer


def state_of(cluster: TransactionCluster, name: str = "mover") -> Any:
    return cluster.ask(describe(name), 0).transaction_states[0]


def settle(cluster: TransactionCluster, name: str = "mover") -> str:
    """Wait until no transaction is open; return the state."""
    for _ in range(1000):
        state = str(state_of(cluster, name).transaction_state)
        if state in ("Empty", "CompleteCommit", "CompleteAbort"):
            return state
        cluster.run(100)
    raise AssertionError(state)


def test_markers_go_to_the_leaders_on_other_nodes(cluster: TransactionCluster) -> None:
    producer = start(cluster)
    for number in range(3):
        write(cluster, producer, b"%d" % number)
        producer = cluster.ask(end("mover", producer, number != 1), END_WITH_EPOCH)
        assert producer.error_code == 0
    settle(cluster)
    assert [cluster.committed(number) for number in range(2)] == [[b"0", b"2"]] * 2


def test_description_has_the_partitions_without_a_marker(cluster: TransactionCluster) -> None:
    producer = start(cluster)
    write(cluster, producer, b"a")
    cluster.network.cut(1, 3)
    assert cluster.node(1).send(commit("mover", producer), END_WITH_EPOCH)
    cluster.run(1000)
    found = cluster.node(1).send(describe("mover"), 0).value.transaction_states[0]
    assert found.transaction_state == "PrepareCommit"
    assert [(one.topic, one.partitions) for one in found.topics] == [(ORDERS, [1])]
    cluster.network.heal()
    assert settle(cluster) == "CompleteCommit"


def test_requests_get_51_while_markers_are_written(cluster: TransactionCluster) -> None:
    producer = start(cluster)
    write(cluster, producer, b"a")
    cluster.network.cut(1, 3)
    node = cluster.node(1)
    answer = node.send(commit("mover", producer), END_WITH_EPOCH)
    cluster.run(1000)
    following = answer.value
    assert (following.error_code, following.producer_epoch) == (0, 1)
    for request, version in (
        (init("mover"), 5),
        (commit("mover", producer), END_WITH_EPOCH),
        (commit("mover", following), END_WITH_EPOCH),
        (commit("mover", following), END),
    ):
        assert node.send(request, version).value.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert node.send(commit("mover", producer), END).value.error_code == ErrorCode.PRODUCER_FENCED  # its epoch is over
    added = node.send(add("mover", following, (ORDERS, 0)), ADD).value
    assert (
        added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        == ErrorCode.CONCURRENT_TRANSACTIONS
    )
    cluster.network.heal()
    assert settle(cluster) == "CompleteCommit"


def test_next_coordinator_completes_a_decided_transaction(cluster: TransactionCluster) -> None:
    producer = start(cluster)
    write(cluster, producer, b"a")
    cluster.network.cut(1, 3)
    answer = cluster.node(1).send(commit("mover", producer), END_WITH_EPOCH)
    cluster.run(1000)
    assert answer.value.error_code == 0
    assert cluster.committed(1) == []
    cluster.node(1).kill()
    cluster.expire()
    assert cluster.coordinator() is cluster.node(2)
    assert settle(cluster) == "CompleteCommit"
    assert [cluster.committed(number) for number in range(2)] == [[b"a"]] * 2
    again = cluster.ask(commit("mover", producer), END_WITH_EPOCH)
    assert (again.error_code, again.producer_epoch) == (0, 1)


def test_open_transaction_is_continued_at_the_next_coordinator(cluster: TransactionCluster) -> None:
    producer = start(cluster)
    write(cluster, producer, b"a")
    cluster.node(1).kill()
    cluster.expire()
    write(cluster, producer, b"b", sequence=1)
    assert cluster.ask(commit("mover", producer), END_WITH_EPOCH).error_code == 0
    assert settle(cluster) == "CompleteCommit"
    assert [cluster.committed(number) for number in range(2)] == [[b"a", b"b"]] * 2


def test_overdue_transaction_is_aborted_by_the_next_coordinator(cluster: TransactionCluster) -> None:
    producer = start(cluster, timeout_ms=20_000)
    write(cluster, producer, b"a")
    cluster.node(1).kill()
    cluster.expire()
    cluster.run(40_000, step_ms=500)
    assert settle(cluster) == "CompleteAbort"
    assert cluster.ask(commit("mover", producer), END_WITH_EPOCH).error_code == ErrorCode.INVALID_TXN_STATE


def test_outcome_is_told_when_the_in_sync_replicas_have_it(cluster: TransactionCluster) -> None:
    producer = start(cluster)
    write(cluster, producer, b"a")
    cluster.stop_replication_from(1)
    answer = cluster.node(1).send(commit("mover", producer), END_WITH_EPOCH)
    cluster.run(2000)
    assert not answer.is_there
    assert cluster.node(1).send(init("mover"), 5).value.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert cluster.committed(0) == []
    cluster.network.heal()
    cluster.run(1500)
    assert answer.value.error_code == 0
    assert settle(cluster) == "CompleteCommit"


def test_outcome_that_is_not_replicated_in_time_is_refused(cluster: TransactionCluster) -> None:
    producer = start(cluster, timeout_ms=5000)
    write(cluster, producer, b"a")
    cluster.stop_replication_from(1)
    answer = cluster.node(1).send(commit("mover", producer), END_WITH_EPOCH)
    cluster.run(5200)
    assert answer.value.error_code == TIMED_OUT
    cluster.network.heal()
    cluster.run(1500)
    again = cluster.ask(commit("mover", producer), END_WITH_EPOCH)
    assert again.error_code in (0, 90)  # 90: the scan for overdue transactions was first
    settle(cluster)
    assert cluster.committed(0) == cluster.committed(1)


def test_coordinator_that_lost_its_leadership_refuses(cluster: TransactionCluster) -> None:
    producer = start(cluster)
    write(cluster, producer, b"a")
    old = cluster.node(1)
    cluster.network.cut(0, 1)
    cluster.stop_replication_from(1)
    answer = old.send(commit("mover", producer), END_WITH_EPOCH)
    cluster.expire()
    assert not answer.is_there
    cluster.network.heal()
    cluster.run(3000)
    assert answer.value.error_code == NOT_COORDINATOR
    assert cluster.coordinator() is not old
    for request, version in ((init("mover"), 5), (commit("mover", producer), END), (init("other"), 5)):
        assert old.send(request, version).value.error_code == NOT_COORDINATOR
    assert old.send(describe("mover"), 0).value.transaction_states[0].error_code == NOT_COORDINATOR
    assert old.send(listing(), 2).value.transaction_states == []
    assert cluster.ask(commit("mover", producer), END_WITH_EPOCH).error_code == 0
    assert settle(cluster) == "CompleteCommit"
    assert [cluster.committed(number) for number in range(2)] == [[b"a"]] * 2


def test_ids_are_refused_while_they_are_loaded(cluster: TransactionCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_log, "READ_BYTES", 1)
    producer = start(cluster)
    for number in range(10):
        start(cluster, f"other-{number}")
    cluster.node(1).kill()
    cluster.expire()
    cluster.run(2000)
    node = cluster.coordinator()
    assert node is not None
    partitions = node.parts_of_broker().transactions.partitions
    partitions.on_leadership(0, None)
    partitions.on_leadership(0, 7)
    assert partitions.is_loading
    assert node.send(init("mover"), 5).value.error_code == LOADING
    assert node.send(commit("mover", producer), END).value.error_code == LOADING
    assert node.send(describe("mover"), 0).value.transaction_states[0].error_code == LOADING
    assert node.send(listing(), 2).value.error_code == LOADING
    cluster.run(500)
    assert not partitions.is_loading
    assert len(node.send(listing(), 2).value.transaction_states) == 11


@pytest.mark.parametrize("is_commit", [True, False])
def test_coordinator_dies_at_any_write_of_an_end(is_commit: bool) -> None:
    """The client repeats its request until it has an answer: the outcome is that of the answer, in all partitions."""
    for operations in range(0, 12, 2):
        cluster = TransactionCluster()
        producer = start(cluster)
        write(cluster, producer, b"a")
        cluster.node(1).die_after(operations)
        answer = cluster.ask(end("mover", producer, is_commit), END_WITH_EPOCH)
        assert (answer.error_code, answer.producer_epoch) == (0, 1), operations
        assert settle(cluster) == ("CompleteCommit" if is_commit else "CompleteAbort")
        assert [cluster.committed(number) for number in range(2)] == [[b"a"] if is_commit else []] * 2
        if not cluster.node(1).is_alive:
            cluster.node(1).start()
            cluster.run(3000)
        following = answer
        write(cluster, following, b"b")
        assert cluster.ask(commit("mover", following), END_WITH_EPOCH).error_code == 0
        settle(cluster)
        assert cluster.committed(0)[-1] == b"b"
        assert cluster.state(STATE).leader in (1, 2, 3)
