"""Produce in a transaction: what the leader asks the coordinator, and what the producer is told (KIP-890).

The codes are those of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid5

import pytest

from kcli.broker.cluster.cluster_values import PartitionState, TopicState
from kcli.broker.log.producer_checks import TransactionMarker
from kcli.broker.node.peers import PeerError
from kcli.broker.serving.pending import Pending
from kcli.broker.transaction.verification import PartitionVerifier
from kcli.error_codes import ErrorCode
from kcli.protocol.messages import add_partitions_to_txn as messages
from kcli.protocol.messages import describe_producers
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.structs import TRANSACTIONS_TOPIC, TopicPartition
from tests.broker.replication.leader_rig import LeaderRig
from tests.broker.rig import Answer, batch

NAMES = UUID(int=7)
T0 = TopicPartition("t", 0)
NEWEST = 13
VERIFIES, KNOWS_ABORTABLE, ADDS = 10, 11, 12
NONE, NOT_LEADER, NETWORK, LOADING, NOT_AVAILABLE, NOT_COORDINATOR, NOT_ENOUGH = 0, 6, 13, 14, 15, 16, 19
OLD_EPOCH, INVALID_STATE, ID_MAPPING, CONCURRENT, FENCED, ABORTABLE = 47, 48, 49, 51, 90, 120


class Coordinator:
    """A local coordinator that answers what the test says, at once or later."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int, list[TopicPartition], bool]] = []
        self.error = NONE
        self.is_slow = False
        self._waiting: list[Callable[[], None]] = []

    def add_or_verify(
        self, id: str, producer: int, epoch: int, partitions: Any, *, verify_only: bool
    ) -> Pending[dict[TopicPartition, ErrorCode]]:
        self.asked.append((id, producer, epoch, list(partitions), verify_only))
        answer: Pending[dict[TopicPartition, ErrorCode]] = Pending()
        self._waiting.append(lambda: answer.complete(dict.fromkeys(partitions, ErrorCode.of(self.error))))
        if not self.is_slow:
            self.answer()
        return answer

    def answer(self) -> None:
        """Answer all questions that wait."""
        while self._waiting:
            self._waiting.pop(0)()


class Leader(LeaderRig):
    """Node 1 leads t; the node `coordinator_id` coordinates all transactions."""

    def __init__(self, coordinator_id: int = 1, **properties: Any) -> None:
        super().__init__(**properties)
        self.coordinator = Coordinator()
        for name in ("t", "u"):
            self.new_topic(name)
        self.new_topic(TRANSACTIONS_TOPIC, replicas=(coordinator_id,))
        for name in ("t", "u", TRANSACTIONS_TOPIC):
            self.cluster.topics[name] = TopicState(name, uuid5(NAMES, name), {0: PartitionState((1,), (1,), 1)})
        self.verifier = PartitionVerifier(
            self.cluster,
            lambda: self.coordinator,
            self.replica_manager.partition_or_error,
            self.network.peers(1),
            self.clock,
        )

    def write(
        self,
        *values: str,
        sequence: int = 0,
        version: int = NEWEST,
        names: tuple[str, ...] = ("t",),
        transaction: str = "x",
        **options: Any,
    ) -> Answer:
        """Send a batch of producer 5 to the partition of each topic."""
        fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": sequence, "transactional": True, **options}
        records = batch(*values, **fields)
        topics = [
            TopicProduceData(
                name=name,
                topic_id=uuid5(NAMES, name),
                partition_data=[PartitionProduceData(index=0, records=records)],
            )
            for name in names
        ]
        return self.send(
            ProduceRequest(transactional_id=transaction, acks=1, timeout_ms=2000, topic_data=topics), version
        )

    def end(self, name: str = "t") -> int:
        return self.partition(name).log.log_end_offset


def code(answer: Answer, topic: int = 0) -> int:
    assert answer.is_there, "the request waits"
    return int(answer.value.responses[topic].partition_responses[0].error_code)


@pytest.fixture
def leader() -> Leader:
    return Leader()


class TestLocalCoordinator:
    def test_first_batch_is_verified_and_the_next_ones_are_not(self, leader: Leader) -> None:
        assert code(leader.write("a", version=VERIFIES)) == NONE
        assert code(leader.write("b", sequence=1, version=VERIFIES)) == NONE
        assert leader.coordinator.asked == [("x", 5, 0, [T0], True)]
        assert leader.end() == 2

    def test_new_clients_have_the_leader_add_the_partition(self, leader: Leader) -> None:
        assert code(leader.write("a", version=KNOWS_ABORTABLE)) == NONE
        assert code(leader.write("a", version=ADDS, producer_id=6)) == NONE
        assert [verify_only for *_, verify_only in leader.coordinator.asked] == [True, False]

    def test_all_partitions_of_a_request_are_one_question(self, leader: Leader) -> None:
        answer = leader.write("a", names=("t", "u"))
        assert [code(answer, 0), code(answer, 1)] == [NONE, NONE]
        assert leader.coordinator.asked == [("x", 5, 0, [T0, TopicPartition("u", 0)], False)]

    def test_partition_that_is_not_led_here_is_not_asked_about(self, leader: Leader) -> None:
        leader.change("u", leader=2)
        answer = leader.write("a", names=("t", "u"))
        assert [code(answer, 0), code(answer, 1)] == [NONE, NOT_LEADER]
        assert leader.coordinator.asked == [("x", 5, 0, [T0], False)]

    @pytest.mark.parametrize(
        ("error", "version", "shown"),
        [
            (FENCED, ADDS, OLD_EPOCH),
            (INVALID_STATE, ADDS, INVALID_STATE),
            (ID_MAPPING, ADDS, ID_MAPPING),
            (LOADING, ADDS, NOT_ENOUGH),
            (NOT_AVAILABLE, ADDS, NOT_ENOUGH),
            (NOT_COORDINATOR, ADDS, NOT_ENOUGH),
            (CONCURRENT, VERIFIES, NOT_ENOUGH),
            (CONCURRENT, KNOWS_ABORTABLE, NOT_ENOUGH),
            (ABORTABLE, VERIFIES, INVALID_STATE),
            (ABORTABLE, KNOWS_ABORTABLE, ABORTABLE),
            (ABORTABLE, ADDS, ABORTABLE),
        ],
    )
    def test_errors_of_the_coordinator_as_producers_know_them(
        self, leader: Leader, error: int, version: int, shown: int
    ) -> None:
        leader.coordinator.error = error
        assert code(leader.write("a", version=version)) == shown
        assert leader.end() == 0

    def test_refused_partition_gets_a_row_and_the_other_batch_is_appended(self, leader: Leader) -> None:
        assert code(leader.write("a")) == NONE
        leader.coordinator.error = INVALID_STATE
        answer = leader.write("b", sequence=1, names=("t", "u"))
        assert [code(answer, 0), code(answer, 1)] == [NONE, INVALID_STATE]
        row = answer.value.responses[1].partition_responses[0]
        assert (row.base_offset, row.log_start_offset) == (-1, -1)
        assert "not added" in row.error_message

    def test_next_produce_before_the_marker_is_verified_again_until_the_transaction_has_ended(
        self, leader: Leader
    ) -> None:
        leader.coordinator.error = CONCURRENT
        answer = leader.write("a")
        leader.wait(20)
        leader.wait(20)
        assert not answer.is_there
        leader.coordinator.error = NONE
        leader.wait(20)
        assert code(answer) == NONE
        assert len(leader.coordinator.asked) == 4
        assert leader.end() == 1

    def test_coordinator_that_stays_busy_is_asked_for_a_tenth_of_a_second(self, leader: Leader) -> None:
        leader.coordinator.error = CONCURRENT
        answer = leader.write("a")
        for _ in range(4):
            leader.wait(20)
        assert not answer.is_there
        leader.wait(20)
        assert code(answer) == CONCURRENT

    def test_abort_during_the_verification_keeps_the_record_out(self, leader: Leader) -> None:
        leader.coordinator.is_slow = True
        answer = leader.write("late", version=VERIFIES)
        assert not answer.is_there
        leader.replica_manager.append_markers(TransactionMarker(5, 0, 0, is_commit=False), [T0])
        leader.coordinator.answer()
        assert code(answer) == INVALID_STATE
        assert leader.end() == 1, "only the marker is in the log"

    def test_two_batches_wait_for_the_verification_and_keep_their_order(self, leader: Leader) -> None:
        leader.coordinator.is_slow = True
        first, second = leader.write("a"), leader.write("b", sequence=1)
        leader.coordinator.answer()
        assert (code(first), code(second)) == (NONE, NONE)
        assert leader.end() == 2

    def test_verification_can_be_switched_off_for_old_clients(self) -> None:
        leader = Leader(transaction_partition_verification_enable="false")
        assert code(leader.write("a", version=VERIFIES)) == NONE
        assert leader.coordinator.asked == []
        assert code(leader.write("a", version=ADDS, producer_id=6)) == NONE
        assert len(leader.coordinator.asked) == 1

    def test_old_epoch_is_refused_without_a_question(self, leader: Leader) -> None:
        assert code(leader.write("a", producer_epoch=3)) == NONE
        assert code(leader.write("a", producer_epoch=2)) == OLD_EPOCH
        assert len(leader.coordinator.asked) == 1

    def test_batches_of_two_producers_refuse_the_request(self, leader: Leader) -> None:
        def records(producer: int) -> bytes:
            return batch("a", producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)

        topics = [
            TopicProduceData(topic_id=uuid5(NAMES, name), partition_data=[PartitionProduceData(records=records(id))])
            for name, id in (("t", 5), ("u", 6))
        ]
        request = ProduceRequest(transactional_id="x", acks=1, timeout_ms=2000, topic_data=topics)
        answer = leader.send(request, NEWEST)
        assert [code(answer, 0), code(answer, 1)] == [ID_MAPPING, ID_MAPPING]
        assert leader.coordinator.asked == []

    def test_without_the_topic_of_transactions_there_is_no_coordinator(self, leader: Leader) -> None:
        del leader.cluster.topics[TRANSACTIONS_TOPIC]
        assert code(leader.write("a")) == NOT_ENOUGH

    def test_without_a_leader_of_its_partition_there_is_no_coordinator(self, leader: Leader) -> None:
        leader.change(TRANSACTIONS_TOPIC, leader=-1)
        assert code(leader.write("a")) == NOT_ENOUGH

    def test_batch_without_a_transaction_needs_no_question(self, leader: Leader) -> None:
        assert code(leader.write("a", transactional=False)) == NONE
        assert leader.coordinator.asked == []


class TestRemoteCoordinator:
    @pytest.fixture
    def leader(self) -> Leader:
        """The coordinator is node 2. `requests` has what it got, `answer_of` decides its answer."""
        leader = Leader(coordinator_id=2)
        leader.requests = []
        leader.answer_of = lambda request: accepted(request)

        def handle(request: messages.AddPartitionsToTxnRequest, sender: int) -> Any:
            leader.requests.append(request)
            return leader.answer_of(request)

        leader.network.serve(2, handle)
        return leader

    def test_partitions_are_added_by_a_request(self, leader: Any) -> None:
        answer = leader.write("a", names=("t", "u"))
        assert not answer.is_there
        leader.network.run()
        assert code(answer) == NONE
        [request] = leader.requests
        [row] = request.transactions
        assert (row.transactional_id, row.producer_id, row.producer_epoch, row.verify_only) == ("x", 5, 0, False)
        assert {topic.name: topic.partitions for topic in row.topics} == {"t": [0], "u": [0]}
        assert leader.coordinator.asked == []

    def test_questions_wait_for_the_request_on_its_way_and_share_the_next_one(self, leader: Any) -> None:
        first = leader.write("a")
        others = [leader.write("a", producer_id=id, transaction=f"x{id}") for id in (6, 7, 8)]
        leader.network.run()
        assert [code(answer) for answer in (first, *others)] == [NONE] * 4
        assert [len(request.transactions) for request in leader.requests] == [1, 3]

    def test_retry_of_the_producer_replaces_its_waiting_question(self, leader: Any) -> None:
        leader.write("a")
        replaced, retried = leader.write("b", names=("u",)), leader.write("b", names=("u",))
        assert code(replaced) == NOT_ENOUGH
        leader.network.run()
        assert code(retried) == NONE

    def test_waiting_question_of_an_older_epoch_is_fenced_by_a_newer_one(self, leader: Any) -> None:
        leader.write("a")
        old = leader.write("b", names=("u",))
        new = leader.write("b", names=("u",), producer_epoch=1)
        assert code(old) == OLD_EPOCH
        late = leader.write("b", names=("u",))
        assert code(late) == OLD_EPOCH
        leader.network.run()
        assert code(new) == NONE

    def test_lost_connection_is_an_error_that_every_producer_retries(self, leader: Any) -> None:
        leader.answer_of = lambda request: PeerError("connection lost")
        answer = leader.write("a")
        leader.network.run()
        assert code(answer) == NOT_ENOUGH
        leader.answer_of = accepted
        again = leader.write("a")
        leader.network.run()
        assert code(again) == NONE

    def test_missing_right_of_the_broker_is_not_shown_to_the_producer(self, leader: Any) -> None:
        leader.answer_of = lambda request: messages.AddPartitionsToTxnResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )
        answer = leader.write("a")
        leader.network.run()
        assert code(answer) == INVALID_STATE

    def test_partition_without_a_row_is_not_verified(self, leader: Any) -> None:
        leader.answer_of = lambda request: messages.AddPartitionsToTxnResponse()
        answer = leader.write("a")
        leader.network.run()
        assert code(answer) == NOT_ENOUGH
        assert leader.end() == 0


def accepted(request: messages.AddPartitionsToTxnRequest) -> messages.AddPartitionsToTxnResponse:
    return messages.AddPartitionsToTxnResponse(
        results_by_transaction=[
            messages.AddPartitionsToTxnResult(
                transactional_id=row.transactional_id,
                topic_results=[
                    messages.AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            messages.AddPartitionsToTxnPartitionResult(partition_index=number)
                            for number in topic.partitions
                        ],
                    )
                    for topic in row.topics
                ],
            )
            for row in request.transactions
        ]
    )


class TestDescribeProducers:
    def describe(self, leader: Leader, name: str = "t", number: int = 0) -> Any:
        topic = describe_producers.TopicRequest(name=name, partition_indexes=[number])
        [row] = leader.ask(describe_producers.DescribeProducersRequest(topics=[topic]), 0).topics
        [partition] = row.partitions
        return partition

    def test_producers_with_and_without_an_open_transaction(self, leader: Leader) -> None:
        leader.write("a", "b", producer_id=6)
        leader.write("c", transactional=False)
        leader.replica_manager.append_markers(TransactionMarker(6, 1, 3, True, 2), [T0])
        leader.write("d", producer_id=7, producer_epoch=4)
        rows = self.describe(leader).active_producers
        shown = [
            (
                row.producer_id,
                row.producer_epoch,
                row.last_sequence,
                row.coordinator_epoch,
                row.current_txn_start_offset,
            )
            for row in rows
        ]
        assert shown == [(5, 0, 0, -1, -1), (6, 1, -1, 3, -1), (7, 4, 0, -1, 4)]

    def test_follower_answers_too(self, leader: Leader) -> None:
        leader.write("a")
        leader.change(leader=2)
        assert [row.producer_id for row in self.describe(leader).active_producers] == [5]

    @pytest.mark.parametrize(("name", "number", "error"), [("t", 4, 3), ("none", 0, 3), ("a b", 0, 17)])
    def test_errors(self, leader: Leader, name: str, number: int, error: int) -> None:
        assert self.describe(leader, name, number).error_code == error
