"""Requests of a transactional producer, with a coordinator that answers late, twice, not at all, or with errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcli.client.config import ProducerConfig
from kcli.error_codes import ErrorCode
from kcli.errors import (
    BrokerError,
    ConfigError,
    KcliError,
    OutcomeUnknown,
    TimeoutExpired,
    TransactionFailed,
    WakeupError,
)
from kcli.producer.producer import Producer
from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kcli.protocol.messages.api_versions import ApiVersionsResponse, FinalizedFeatureKey
from kcli.protocol.messages.end_txn import EndTxnResponse
from kcli.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kcli.protocol.messages.init_producer_id import InitProducerIdResponse
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kcli.protocol.records.batch import HEADER, TRANSACTIONAL_BIT
from kcli.protocol.registry import ApiKey
from kcli.structs import GroupMetadata, OffsetAndMetadata, TopicPartition
from tests.network.memory import MemoryPeer
from tests.producer.fake_log import FakeLog, Fault

ORDERS = TopicPartition("orders", 0)
DROP, SILENT = -100, -101  # in `errors`: close the connection, or do not answer


class FakeTransactions(FakeLog):
    """A cluster with one coordinator. `errors` are the codes of the next responses, by API; then it agrees."""

    def __init__(self, transaction_version: int = 2) -> None:
        super().__init__("kafka-1:9092", topics={"orders": {0: (1, 0), 1: (1, 0)}})
        self.transaction_version = transaction_version
        self.epoch = -1
        self.errors: dict[ApiKey, list[int]] = {}
        #: The ends that were carried out: committed or not.
        self.ends: list[bool] = []
        self.answers[ApiKey.API_VERSIONS] = self._with_features
        self.answers[ApiKey.FIND_COORDINATOR] = self._coordinator
        self._scripted(ApiKey.INIT_PRODUCER_ID, self._init)
        self._scripted(ApiKey.ADD_PARTITIONS_TO_TXN, self._add)
        self._scripted(ApiKey.ADD_OFFSETS_TO_TXN, lambda _request, error: AddOffsetsToTxnResponse(error_code=error))
        self._scripted(ApiKey.TXN_OFFSET_COMMIT, self._commit_offsets)
        self._scripted(ApiKey.END_TXN, self._end)

    def producer(self, **properties: str | int | bool) -> Producer:
        return super().producer(**{"transactional_id": "t", "max_block_ms": 5000, **properties})

    def apis(self) -> list[str]:
        """The requests for transactions and records, in order."""
        common = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.FIND_COORDINATOR)
        names = [type(it.request).__name__.removesuffix("Request") for it in self.asked]
        return [name for name, it in zip(names, self.asked, strict=True) if it.request.API_KEY not in common]

    def _scripted(self, key: ApiKey, answer: Callable[[Any, int], Any]) -> None:
        def respond(peer: MemoryPeer | None, request: Any, _version: int) -> Any:
            errors = self.errors.get(key, [])
            error = errors.pop(0) if errors else 0
            if error in (DROP, SILENT):
                if key == ApiKey.END_TXN:
                    answer(request, 0)  # carried out, but the response is lost
                if error == DROP:
                    assert peer is not None
                    peer.hang_up()
                return None
            return answer(request, error)

        self.answers[key] = respond

    def _with_features(self, _peer: MemoryPeer, _request: Any, _version: int) -> ApiVersionsResponse:
        level = FinalizedFeatureKey(name="transaction.version", max_version_level=self.transaction_version)
        return ApiVersionsResponse(api_keys=self.offered(), finalized_features=[level], finalized_features_epoch=1)

    def _coordinator(self, _peer: MemoryPeer, request: Any, _version: int) -> FindCoordinatorResponse:
        found = [Coordinator(key=key, node_id=1, host="kafka-1", port=9092) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)

    def _init(self, request: Any, error: int) -> InitProducerIdResponse:
        if error:
            return InitProducerIdResponse(error_code=error)
        self.epoch += 1
        return InitProducerIdResponse(producer_id=7, producer_epoch=self.epoch)

    def _add(self, request: Any, error: int) -> AddPartitionsToTxnResponse:
        topics = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=error)
                    for number in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)

    def _commit_offsets(self, request: Any, error: int) -> TxnOffsetCommitResponse:
        topics = [
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=it.partition_index, error_code=error)
                    for it in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return TxnOffsetCommitResponse(topics=topics)

    def _end(self, request: Any, error: int) -> EndTxnResponse:
        if error:
            return EndTxnResponse(error_code=error)
        if self.asked[-1].version < 5:
            self.ends.append(request.committed)
            return EndTxnResponse()
        if request.producer_epoch == self.epoch:
            self.ends.append(request.committed)
            self.epoch += 1
        else:
            assert request.producer_epoch == self.epoch - 1  # a repetition
        return EndTxnResponse(producer_id=7, producer_epoch=self.epoch)


def failure(call: Callable[[], object], kind: type[KcliError]) -> KcliError:
    with pytest.raises(kind) as error:
        call()
    return error.value


def send_in_transaction(producer: Producer) -> None:
    with producer.transaction():
        producer.send("orders", b"v")


def identities(cluster: FakeLog) -> list[tuple[int, int]]:
    """The epoch and the first sequence number of each batch."""
    return [(epoch, sequence) for _, _, epoch, sequence, _ in cluster.batches]


def test_version_2_sends_no_additions_and_takes_a_new_epoch_with_each_end() -> None:
    cluster = FakeTransactions()
    producer = cluster.producer()
    for number in range(2):
        with producer.transaction():
            producer.send("orders", b"%d" % number, partition=0)
    assert cluster.apis() == ["InitProducerId", "Produce", "EndTxn", "Produce", "EndTxn"]
    assert identities(cluster) == [(0, 0), (1, 0)]
    assert [(it.version, it.request.transactional_id) for it in cluster.requests(ApiKey.PRODUCE)] == [(12, "t")] * 2
    assert {it.version for it in cluster.requests(ApiKey.END_TXN)} == {5}
    data = cluster.requests(ApiKey.PRODUCE)[0].request.topic_data[0].partition_data[0].records
    assert HEADER.unpack_from(bytes(data))[5] & TRANSACTIONAL_BIT


def test_before_version_2_partitions_and_groups_are_added_once_and_the_epoch_stays() -> None:
    cluster = FakeTransactions(1)
    producer = cluster.producer()
    for _ in range(2):
        with producer.transaction():
            for partition in (0, 1, 0):
                producer.send("orders", b"v", partition=partition)
            producer.flush()
            producer.send("orders", b"v", partition=0)
            producer.send_offsets({ORDERS: OffsetAndMetadata(3)}, GroupMetadata("g", 4, "m", "i"))
            producer.send_offsets({ORDERS: OffsetAndMetadata(4)}, "g")
    one = ["AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "TxnOffsetCommit", "Produce"]
    assert cluster.apis() == ["InitProducerId", *one, "EndTxn", *one, "EndTxn"]
    assert identities(cluster) == [(0, 0), (0, 0), (0, 2), (0, 3), (0, 1), (0, 5)]
    versions = {ApiKey.PRODUCE: 11, ApiKey.ADD_PARTITIONS_TO_TXN: 3, ApiKey.TXN_OFFSET_COMMIT: 4, ApiKey.END_TXN: 4}
    assert {key: {it.version for it in cluster.requests(key)} for key in versions} == {
        key: {version} for key, version in versions.items()
    }
    first, second = (it.request for it in cluster.requests(ApiKey.TXN_OFFSET_COMMIT)[:2])
    assert (first.generation_id, first.member_id, first.group_instance_id) == (4, "m", "i")
    assert (second.generation_id, second.member_id, second.group_instance_id) == (-1, "", None)


def test_a_cluster_that_takes_up_version_2_gets_a_new_epoch_first() -> None:
    cluster = FakeTransactions(1)
    producer = cluster.producer()
    with producer.transaction():
        producer.send("orders", b"1")
    cluster.transaction_version = 2
    producer._client.disconnect(producer._client.metadata.cluster.nodes[1])
    with producer.transaction():
        producer.send("orders", b"2")
    with producer.transaction():
        producer.send("orders", b"3")
    assert cluster.apis()[4:] == [
        "AddPartitionsToTxn", "Produce", "EndTxn", "InitProducerId", "Produce", "EndTxn"
    ]  # fmt: skip
    assert identities(cluster) == [(0, 0), (0, 1), (1, 0)]


def test_a_transaction_without_records_sends_nothing() -> None:
    cluster = FakeTransactions()
    producer = cluster.producer()
    with producer.transaction():
        pass
    producer.begin_transaction()
    producer.abort_transaction()
    assert cluster.apis() == ["InitProducerId"]


@pytest.mark.parametrize("lost", [DROP, SILENT])
def test_a_commit_whose_response_is_lost_is_repeated(lost: int) -> None:
    cluster = FakeTransactions()
    cluster.errors[ApiKey.END_TXN] = [lost, ErrorCode.CONCURRENT_TRANSACTIONS]
    producer = cluster.producer(request_timeout_ms=1000, delivery_timeout_ms=2000)
    with producer.transaction():
        producer.send("orders", b"v")
    assert cluster.ends == [True]
    assert len(cluster.requests(ApiKey.END_TXN)) == 3


def test_an_unknown_outcome_is_reported_and_the_next_commit_finds_out() -> None:
    cluster = FakeTransactions()
    cluster.errors[ApiKey.END_TXN] = [SILENT]
    producer = cluster.producer(max_block_ms=500)
    producer.begin_transaction()
    producer.send("orders", b"v")
    error = failure(producer.commit_transaction, OutcomeUnknown)
    assert error.message.startswith("unknown whether the transaction was committed: ")
    failure(producer.abort_transaction, OutcomeUnknown)  # it may be committed
    failure(producer.begin_transaction, KcliError)
    producer.commit_transaction()
    assert cluster.ends == [True]
    producer.begin_transaction()


def test_a_producer_that_is_fenced_after_a_lost_response_does_not_know_the_outcome() -> None:
    cluster = FakeTransactions()
    cluster.errors[ApiKey.END_TXN] = [DROP, ErrorCode.PRODUCER_FENCED]
    producer = cluster.producer()
    producer.begin_transaction()
    producer.send("orders", b"v")
    assert "then: PRODUCER_FENCED" in failure(producer.commit_transaction, OutcomeUnknown).message
    failure(producer.begin_transaction, BrokerError)


def test_a_commit_that_no_coordinator_received_has_timed_out_and_can_be_aborted() -> None:
    cluster = FakeTransactions()
    cluster.errors[ApiKey.END_TXN] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 99
    producer = cluster.producer(max_block_ms=500)
    producer.begin_transaction()
    producer.send("orders", b"v")
    failure(producer.commit_transaction, TimeoutExpired)
    cluster.errors.clear()
    producer.abort_transaction()
    assert cluster.ends == [False]


def test_an_interrupted_commit_goes_on_with_the_next_call() -> None:
    cluster = FakeTransactions()
    producer = cluster.producer()
    producer.begin_transaction()
    producer.send("orders", b"v")
    producer.flush()
    producer._client.wakeup()
    with pytest.raises(WakeupError):
        producer.commit_transaction()
    producer.commit_transaction()
    assert cluster.ends == [True]


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED])
def test_a_fenced_producer_can_only_be_closed(code: ErrorCode) -> None:
    cluster = FakeTransactions()
    cluster.errors[ApiKey.END_TXN] = [code]
    producer = cluster.producer()
    producer.begin_transaction()
    producer.send("orders", b"v")
    error = failure(producer.commit_transaction, BrokerError)
    assert error.message == "PRODUCER_FENCED: another producer with the same transactional id has taken over"
    for call in (producer.begin_transaction, producer.commit_transaction, producer.abort_transaction):
        assert failure(call, BrokerError).message == error.message
    producer.close()
    assert len(cluster.requests(ApiKey.END_TXN)) == 1


def test_the_timeout_of_a_transaction_is_named_as_the_reason_of_the_fencing() -> None:
    cluster = FakeTransactions()
    producer = cluster.producer(transaction_timeout_ms=2000)
    producer.begin_transaction()
    producer.send("orders", b"v")
    producer.flush()
    producer._client.sleep(3000)
    cluster.errors[ApiKey.END_TXN] = [ErrorCode.INVALID_PRODUCER_EPOCH]
    message = failure(producer.commit_transaction, BrokerError).message
    assert "open for 3 s, longer than transaction.timeout.ms=2000, so the coordinator has aborted it" in message


def test_a_commit_that_the_coordinator_wants_aborted_is_aborted() -> None:
    cluster = FakeTransactions()
    cluster.errors[ApiKey.END_TXN] = [ErrorCode.TRANSACTION_ABORTABLE]
    producer = cluster.producer()
    with pytest.raises(TransactionFailed, match="TRANSACTION_ABORTABLE"), producer.transaction():
        producer.send("orders", b"v")
    assert cluster.ends == [False]
    with producer.transaction():
        producer.send("orders", b"v")
    assert cluster.ends == [False, True]


@pytest.mark.parametrize("version", [1, 2])
def test_a_batch_that_may_be_stored_leads_to_a_new_epoch(version: int) -> None:
    cluster = FakeTransactions(version)
    producer = cluster.producer(retries=1)
    with producer.transaction():
        producer.send("orders", b"1", partition=0)
    cluster.faults = [Fault(error=ErrorCode.REQUEST_TIMED_OUT)] * 2
    producer.begin_transaction()
    future = producer.send("orders", b"2", partition=0)
    failure(producer.commit_transaction, TransactionFailed)
    assert future.error is not None
    assert future.error.possibly_stored
    producer.abort_transaction()
    with producer.transaction():
        producer.send("orders", b"3", partition=0)
    assert cluster.ends == [True, False, True]
    assert [cluster.batches[index][2:4] for index in (0, -1)] == [(0, 0), (1 if version == 1 else 2, 0)]
    bumps = [it.request for it in cluster.requests(ApiKey.INIT_PRODUCER_ID)][1:]
    assert [(it.producer_id, it.producer_epoch) for it in bumps] == ([(7, 0)] if version == 1 else [])


def test_lost_sequence_numbers_abort_the_transaction() -> None:
    """Without a transaction, the producer goes on with a new producer id; that would split the transaction."""
    cluster = FakeTransactions()
    cluster.faults = [Fault(error=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)]
    producer = cluster.producer()
    producer.begin_transaction()
    producer.send("orders", b"v")
    failure(producer.commit_transaction, TransactionFailed)
    assert len(cluster.requests(ApiKey.PRODUCE)) == len(cluster.requests(ApiKey.INIT_PRODUCER_ID)) == 1


def test_records_that_wait_are_given_up_by_an_abort() -> None:
    cluster = FakeTransactions()
    producer = cluster.producer(linger_ms=1000)
    producer.begin_transaction()
    sent = producer.send("orders", b"1", partition=0)
    producer.flush()
    waiting = [producer.send("orders", b"2", partition=0) for _ in range(3)]
    producer.abort_transaction()
    assert sent.error is None
    assert {type(future.error) for future in waiting} == {TransactionFailed}
    assert cluster.ends == [False]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TransactionFailed),
        (ErrorCode.TRANSACTION_ABORTABLE, TransactionFailed),
        (ErrorCode.INVALID_PRODUCER_EPOCH, BrokerError),
        (ErrorCode.INVALID_TXN_STATE, BrokerError),
    ],
)
def test_a_partition_that_cannot_be_added(code: ErrorCode, kind: type[KcliError]) -> None:
    cluster = FakeTransactions(1)
    cluster.errors[ApiKey.ADD_PARTITIONS_TO_TXN] = [ErrorCode.CONCURRENT_TRANSACTIONS, code]
    producer = cluster.producer()
    producer.begin_transaction()
    future = producer.send("orders", b"v")
    failure(producer.commit_transaction, kind)
    assert isinstance(future.error, kind)
    assert cluster.requests(ApiKey.PRODUCE) == []


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_offsets_that_are_refused_abort_the_transaction(code: ErrorCode) -> None:
    cluster = FakeTransactions()
    cluster.errors[ApiKey.TXN_OFFSET_COMMIT] = [ErrorCode.NOT_COORDINATOR, code]
    producer = cluster.producer()
    producer.begin_transaction()
    error = failure(lambda: producer.send_offsets({ORDERS: OffsetAndMetadata(1)}, "g"), BrokerError)
    assert isinstance(error, BrokerError)
    assert error.code == code
    failure(producer.commit_transaction, TransactionFailed)
    producer.abort_transaction()
    assert cluster.ends == [False]


def test_a_negative_offset_is_refused_and_the_transaction_goes_on() -> None:
    cluster = FakeTransactions()
    producer = cluster.producer()
    producer.begin_transaction()
    with pytest.raises(ValueError, match="offset must not be negative; got -3 for orders-"):
        producer.send_offsets({ORDERS: OffsetAndMetadata(-3)}, "g")
    assert "TxnOffsetCommit" not in cluster.apis()
    producer.abort_transaction()


def test_a_refused_start_can_be_repeated() -> None:
    cluster = FakeTransactions()
    cluster.errors[ApiKey.INIT_PRODUCER_ID] = [ErrorCode.INVALID_TRANSACTION_TIMEOUT]
    producer = cluster.producer()
    error = failure(producer.init_transactions, BrokerError)
    assert error.message.startswith("INVALID_TRANSACTION_TIMEOUT")
    producer.init_transactions()
    producer.init_transactions()
    assert cluster.apis() == ["InitProducerId"] * 2


def test_a_dead_coordinator_does_not_keep_close_without_a_flush_for_long() -> None:
    cluster = FakeTransactions()
    producer = cluster.producer(max_block_ms=60_000)
    producer.begin_transaction()
    producer.send("orders", b"v")
    producer.flush()
    cluster.errors[ApiKey.END_TXN] = [SILENT] * 9
    before_ms = cluster.clock.now_ms()
    producer.close(flush=False)
    assert cluster.clock.now_ms() - before_ms <= 6000


def test_calls_without_an_open_transaction() -> None:
    cluster = FakeTransactions()
    producer = cluster.producer()
    calls = [
        producer.commit_transaction,
        producer.abort_transaction,
        lambda: producer.send("orders", b"v"),
        lambda: producer.send_offsets({ORDERS: OffsetAndMetadata(1)}, "g"),
    ]
    for call in calls:
        assert "no transaction is open" in failure(call, KcliError).message
    producer.init_transactions()
    for call in calls:
        assert "no transaction is open" in failure(call, KcliError).message
    producer.begin_transaction()
    producer.send("orders", b"v")
    producer.flush()
    cluster.errors[ApiKey.END_TXN] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 99
    failure(lambda: producer.commit_transaction(200), TimeoutExpired)
    assert "is being committed" in failure(lambda: producer.send("orders", b"v"), KcliError).message


def test_calls_that_need_a_transactional_id() -> None:
    cluster = FakeLog()
    producer = cluster.producer()
    for call in (producer.init_transactions, producer.begin_transaction, producer.commit_transaction):
        assert "requires transactional.id" in failure(call, ConfigError).message


def test_an_empty_transactional_id_is_none() -> None:
    assert ProducerConfig.from_properties({"transactional.id": ""}).transactional_id is None
