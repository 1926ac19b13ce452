"""MarkerSender: each partition's leader gets the marker until it has stored it, as Kafka's coordinator sends it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.broker.cluster.cluster_values import PartitionState
from kcli.broker.log.producer_checks import TransactionMarker
from kcli.broker.node.peers import PeerError
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.timer import Timer
from kcli.broker.transaction.markers import MarkerSender
from kcli.clock import ManualClock
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kcli.structs import TopicPartition

HERE, TWO, THREE = 1, 2, 3
MARKER = TransactionMarker(7000, 5, 9, is_commit=True, transaction_version=2)
OTHER = MARKER._replace(producer_id=7001, is_commit=False)
A, B, C = (TopicPartition("orders", number) for number in range(3))


class Request:
    """A request on its way: its rows as (producer, partitions), and the function that takes its answer."""

    def __init__(self, node_id: int, request: WriteTxnMarkersRequest, on_done: Any) -> None:
        self.node_id, self.request, self.on_done = node_id, request, on_done
        self.rows = [
            (row.producer_id, [TopicPartition(t.name, number) for t in row.topics for number in t.partition_indexes])
            for row in request.markers
        ]

    def answer(self, **errors: ErrorCode) -> None:
        """Answer all partitions, with an error for some of them: A=..., B=..."""
        named = {globals()[name]: error for name, error in errors.items()}
        results = [
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=tp.topic,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=tp.partition, error_code=named.get(tp, ErrorCode.NONE)
                            )
                        ],
                    )
                    for tp in partitions
                ],
            )
            for producer_id, partitions in self.rows
        ]
        self.on_done(WriteTxnMarkersResponse(markers=results))


class Rig:
    """A sender on node 1; tests decide who leads, and what leaders answer."""

    def __init__(self) -> None:
        self.clock, self.timer = ManualClock(), Timer()
        self.leaders: dict[TopicPartition, int] = {A: HERE, B: TWO, C: THREE}
        self.requests: list[Request] = []
        self.written: list[tuple[TransactionMarker, tuple[TopicPartition, ...]]] = []
        self.write_errors: dict[TopicPartition, ErrorCode] = {}
        self.done: list[TransactionMarker] = []
        cluster: Any = SimpleNamespace(node_id=HERE, partition_state=self._state)
        peers: Any = SimpleNamespace(to=lambda node_id, purpose: SimpleNamespace(send=self._send_to(node_id)))
        self.sender = MarkerSender(cluster, self._write, peers, self.timer, self.clock)

    def send(self, marker: TransactionMarker, *partitions: TopicPartition) -> None:
        self.sender.send(marker, partitions, lambda: self.done.append(marker))

    def take(self) -> Request:
        """Take the only request on its way."""
        [request] = self.requests
        self.requests.clear()
        return request

    def wait(self, ms: float) -> None:
        self.clock.advance(ms)
        self.timer.advance(self.clock.now_ms())

    def _state(self, tp: TopicPartition) -> PartitionState | None:
        leader = self.leaders.get(tp)
        return None if leader is None else PartitionState((1, 2, 3), (1, 2, 3), leader)

    def _send_to(self, node_id: int) -> Any:
        return lambda request, on_done: self.requests.append(Request(node_id, request, on_done))

    def _write(
        self, marker: TransactionMarker, partitions: Sequence[TopicPartition]
    ) -> Pending[dict[TopicPartition, ErrorCode]]:
        self.written.append((marker, tuple(partitions)))
        outcome: Pending[dict[TopicPartition, ErrorCode]] = Pending()
        outcome.complete({tp: self.write_errors.get(tp, ErrorCode.NONE) for tp in partitions})
        return outcome


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_marker_is_done_when_all_leaders_have_it(rig: Rig) -> None:
    rig.send(MARKER, A, B)

    assert rig.written == [(MARKER, (A,))]
    request = rig.take()
    [row] = request.request.markers
    assert (request.node_id, request.rows) == (TWO, [(7000, [B])])
    assert (row.producer_epoch, row.coordinator_epoch, row.transaction_result, row.transaction_version) == (
        5,
        9,
        True,
        2,
    )
    assert rig.done == []

    request.answer()
    assert (rig.done, len(rig.sender)) == ([MARKER], 0)


def test_a_transaction_without_partitions_is_done_at_once(rig: Rig) -> None:
    rig.send(MARKER)

    assert rig.done == [MARKER]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_an_error_is_tried_again_at_the_new_leader(rig: Rig, error: ErrorCode) -> None:
    rig.send(MARKER, A, B)
    rig.take().answer(B=error)
    assert (rig.requests, rig.done) == ([], [])

    rig.leaders[B] = THREE
    rig.wait(20)

    request = rig.take()
    assert (request.node_id, request.rows) == (THREE, [(7000, [B])])
    request.answer()
    assert (rig.done, len(rig.written)) == ([MARKER], 1)


def test_an_error_here_is_tried_again(rig: Rig) -> None:
    rig.write_errors = {A: ErrorCode.NOT_ENOUGH_REPLICAS}
    rig.send(MARKER, A)

    rig.write_errors = {}
    rig.wait(20)

    assert (rig.done, rig.written) == ([MARKER], [(MARKER, (A,)), (MARKER, (A,))])


@pytest.mark.parametrize("error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_a_fenced_epoch_ends_the_sending_without_a_result(rig: Rig, error: ErrorCode) -> None:
    rig.send(MARKER, B, C)
    to_two, to_three = rig.requests
    rig.requests.clear()

    to_two.answer(B=error)
    to_three.answer(C=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    rig.wait(10_000)

    assert (rig.requests, rig.done, len(rig.sender)) == ([], [], 0)
    assert error.name in rig.sender.reports[0]


def test_a_partition_without_transactions_has_nothing_to_end(rig: Rig) -> None:
    rig.send(MARKER, B)

    rig.take().answer(B=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)

    assert rig.done == [MARKER]


def test_a_deleted_partition_has_nothing_to_end(rig: Rig) -> None:
    del rig.leaders[A]
    rig.send(MARKER, A, B)
    del rig.leaders[B]

    rig.take().answer(B=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    rig.wait(20)

    assert (rig.done, rig.written) == ([MARKER], [])


def test_a_partition_without_a_leader_waits_for_one(rig: Rig) -> None:
    rig.leaders[A] = -1
    rig.send(MARKER, A)
    rig.wait(1000)
    assert rig.done == []

    rig.leaders[A] = HERE
    rig.wait(2000)

    assert rig.done == [MARKER]


def test_a_lost_connection_is_tried_again_with_growing_pauses(rig: Rig) -> None:
    rig.send(MARKER, B)

    pauses = []
    for _ in range(8):
        rig.take().on_done(PeerError("lost"))
        before = rig.clock.now_ms()
        while not rig.requests:
            rig.wait(10)
        pauses.append(rig.clock.now_ms() - before)

    assert pauses == [20, 40, 80, 160, 320, 640, 1000, 1000]


def test_markers_that_wait_for_a_request_to_a_node_share_the_next_one(rig: Rig) -> None:
    rig.leaders = dict.fromkeys((A, B, C), TWO)
    rig.send(MARKER, A)
    first = rig.take()
    rig.send(OTHER, A)
    rig.send(OTHER._replace(producer_id=7002), B, C)
    assert rig.requests == []

    first.answer()

    second = rig.take()
    assert second.rows == [(7001, [A]), (7002, [B, C])]
    second.answer()
    assert [one.producer_id for one in rig.done] == [7000, 7001, 7002]


def test_two_markers_of_a_producer_are_not_in_one_request(rig: Rig) -> None:
    """An answer has its rows by producer, so it could not be told which marker an error belongs to."""
    rig.leaders = dict.fromkeys((A, B, C), TWO)
    later = MARKER._replace(producer_epoch=6)
    rig.send(OTHER, A)
    first = rig.take()
    rig.send(MARKER, A)
    rig.send(later, B)

    first.answer()
    second = rig.take()
    assert second.rows == [(7000, [A])]
    second.answer()
    third = rig.take()
    assert third.rows == [(7000, [B])]
    third.answer()
    assert rig.done == [OTHER, MARKER, later]


def test_a_missing_row_in_the_answer_is_tried_again(rig: Rig) -> None:
    rig.send(MARKER, B)
    rig.take().on_done(WriteTxnMarkersResponse(markers=[]))

    rig.wait(20)

    assert rig.take().rows == [(7000, [B])]


def test_stopped_markers_are_not_sent_again_and_not_done(rig: Rig) -> None:
    rig.send(MARKER, B)
    rig.send(OTHER, C)
    to_two, to_three = rig.requests
    rig.requests.clear()

    rig.sender.stop(lambda marker: marker.producer_id == 7000)
    to_two.answer()
    to_three.answer(C=ErrorCode.REQUEST_TIMED_OUT)
    rig.wait(20)

    rig.take().answer()
    assert rig.done == [OTHER]
