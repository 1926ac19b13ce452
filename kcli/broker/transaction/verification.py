"""The leader's question to the coordinator whether its partition takes part in a transaction (KIP-890).

Before the first batch of a transaction, the partition's leader asks the transaction's coordinator: here by a call, on
another node by AddPartitionsToTxn. Clients since Produce v12 and TxnOffsetCommit v5 do not add partitions themselves,
so for them the coordinator adds it. A record can thus not be written to a transaction that has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.coordinator_log import find_coordinator
from kcli.broker.log.producer_checks import NOT_VERIFIED, Verification
from kcli.broker.node.peers import PeerError
from kcli.broker.serving.pending import Pending, completed
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kcli.structs import TRANSACTIONS_TOPIC, TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from kcli.broker.cluster.view import ClusterView
    from kcli.broker.delayed import FindPartition
    from kcli.broker.node.peers import Peers
    from kcli.broker.transaction.transaction_coordinator import TransactionCoordinator
    from kcli.clock import Clock

_PURPOSE = "transaction verification"

Errors = Mapping[TopicPartition, ErrorCode]


class Verdict(NamedTuple):
    """The outcome for a partition. `verification` goes with the batch; None if the log has the open transaction."""

    error: ErrorCode = ErrorCode.NONE
    verification: Verification | None = None


class _Question(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    add: bool
    on_errors: Callable[[Errors], None]

    def fail(self, error: ErrorCode) -> None:
        self.on_errors(dict.fromkeys(self.partitions, error))


class PartitionVerifier:
    """Verifies the transactions of producers for the partitions that this broker leads.

    `coordinator` returns the local coordinator, and is called only while this broker leads the partition of
    `__transaction_state`. `peers` reach the other brokers; None for a single broker. Used from the loop thread only.
    """

    def __init__(
        self,
        cluster: ClusterView,
        coordinator: Callable[[], TransactionCoordinator],
        find_partition: FindPartition,
        peers: Peers | None,
        clock: Clock,
    ) -> None:
        self._cluster = cluster
        self._coordinator = coordinator
        self._find_partition = find_partition
        self._peers = peers
        self._clock = clock
        self._waiting: dict[int, dict[str, _Question]] = {}  # by node, while a request to it is on its way

    def __repr__(self) -> str:
        return f"<PartitionVerifier {sum(map(len, self._waiting.values()))} waiting>"

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        sequences: Mapping[TopicPartition, int],
        *,
        add: bool,
        knows_abortable: bool = True,
    ) -> Pending[dict[TopicPartition, Verdict]]:
        """Verify the partitions before batches with these first sequence numbers (-1: none) are appended to them.

        `add`: the coordinator adds them to the transaction. The answer is a verdict for each partition; with an error
        its batch must not be appended. The errors are those of the coordinator, except that 90 becomes 47, that a lost
        connection is NETWORK_EXCEPTION (13), and that TRANSACTION_ABORTABLE (120) becomes INVALID_TXN_STATE (48) unless
        the client `knows_abortable`.
        """
        if not add and not self._cluster.settings.transaction_partition_verification_enable:
            return completed(dict.fromkeys(sequences, Verdict(verification=NOT_VERIFIED)))
        verdicts: dict[TopicPartition, Verdict] = {}
        now_wall_ms = self._clock.wall_ms()
        for tp, sequence in sequences.items():
            try:
                verification = self._find_partition(tp).start_verification(
                    producer_id, producer_epoch, sequence, adds=add, now_wall_ms=now_wall_ms
                )
            except BrokerError as error:
                verdicts[tp] = Verdict(error.code)
            else:
                verdicts[tp] = Verdict(verification=verification)
        partitions = tuple(tp for tp, verdict in verdicts.items() if verdict.verification is not None)
        if not partitions:
            return completed(verdicts)
        answer: Pending[dict[TopicPartition, Verdict]] = Pending()

        def on_errors(errors: Errors) -> None:
            for tp in partitions:
                error = _shown_to_producers(errors.get(tp, ErrorCode.NETWORK_EXCEPTION), knows_abortable)
                if error:
                    verdicts[tp] = Verdict(error)
            answer.complete(verdicts)

        self._ask(_Question(transactional_id, producer_id, producer_epoch, partitions, add, on_errors))
        return answer

    def _ask(self, question: _Question) -> None:
        node_id = find_coordinator(self._cluster, TRANSACTIONS_TOPIC, question.transactional_id)
        if node_id < 0:
            question.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif node_id == self._cluster.node_id:
            transactional_id, producer_id, epoch, partitions, add, on_errors = question
            self._coordinator().add_or_verify(
                transactional_id, producer_id, epoch, partitions, verify_only=not add
            ).on_done(on_errors)
        elif node_id in self._waiting:
            self._wait(node_id, question)
        else:
            self._waiting[node_id] = {}
            self._request(node_id, [question])

    def _wait(self, node_id: int, question: _Question) -> None:
        """Wait for the request that is on its way. A request has a transactional id once, so a newer question wins."""
        waiting = self._waiting[node_id]
        earlier = waiting.get(question.transactional_id)
        if earlier is not None and earlier.producer_epoch > question.producer_epoch:
            question.fail(ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        waiting[question.transactional_id] = question
        if earlier is not None:
            is_retry = earlier.producer_epoch == question.producer_epoch
            earlier.fail(ErrorCode.NETWORK_EXCEPTION if is_retry else ErrorCode.INVALID_PRODUCER_EPOCH)

    def _request(self, node_id: int, questions: Collection[_Question]) -> None:
        assert self._peers is not None
        request = AddPartitionsToTxnRequest(transactions=[_row(question) for question in questions])
        on_done = partial(self._on_answer, node_id, questions)
        timeout_ms = self._cluster.settings.request_timeout_ms
        self._peers.to(node_id, _PURPOSE).send(request, on_done, timeout_ms=timeout_ms)

    def _on_answer(
        self, node_id: int, questions: Collection[_Question], answer: AddPartitionsToTxnResponse | PeerError
    ) -> None:
        waiting = self._waiting.pop(node_id)
        if waiting:
            self._waiting[node_id] = {}
            self._request(node_id, list(waiting.values()))
        if isinstance(answer, PeerError):
            failure = ErrorCode.NETWORK_EXCEPTION
        elif answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            failure = ErrorCode.INVALID_TXN_STATE  # a right of this broker is missing, not one of the client
        else:
            failure = ErrorCode.of(answer.error_code)
        if isinstance(answer, PeerError) or failure:
            for question in questions:
                question.fail(failure)
            return
        errors = _errors_by_transaction(answer)
        for question in questions:
            question.on_errors(errors.get(question.transactional_id, {}))


def _shown_to_producers(error: ErrorCode, knows_abortable: bool) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error


def _row(question: _Question) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=not question.add,
        topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=numbers)
            for topic, numbers in numbers_by_topic(question.partitions).items()
        ],
    )


def _errors_by_transaction(answer: AddPartitionsToTxnResponse) -> dict[str, Errors]:
    return {
        result.transactional_id: {
            TopicPartition(topic.name, row.partition_index): ErrorCode.of(row.partition_error_code)
            for topic in result.topic_results
            for row in topic.results_by_partition
        }
        for result in answer.results_by_transaction
    }
