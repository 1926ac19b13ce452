"""Requests of the stories of transactions."""

from __future__ import annotations

from typing import Any

from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kcli.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kcli.protocol.messages.end_txn import EndTxnRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.list_transactions import ListTransactionsRequest
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.record import NewRecord
from tests.broker.transaction.harness import TIME_MS, Recorder

#: The newest versions of clients with one epoch for all transactions, and of those with one for each (KIP-890).
ADD = 3
ADD_OF_BROKER = 5
VERIFY_OF_BROKER = 4
END = 4
END_WITH_EPOCH = 5
PRODUCE = 11
PRODUCE_THAT_ADDS = 12


def init(name: str | None, *, producer_id: int = -1, epoch: int = -1, timeout_ms: int = 60_000) -> Any:
    return InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=producer_id, producer_epoch=epoch
    )


def topics_of(*partitions: tuple[str, int]) -> list[AddPartitionsToTxnTopic]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return [AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()]


def add(name: str, producer: Any, *partitions: tuple[str, int], epoch: int | None = None) -> Any:
    """AddPartitionsToTxn of a client. `producer`: an answer with the producer id and epoch."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch if epoch is None else epoch,
        v3_and_below_topics=topics_of(*partitions),
    )


def row(
    name: str, producer: Any, *partitions: tuple[str, int], verify_only: bool = False, epoch: int | None = None
) -> Any:
    return AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch if epoch is None else epoch,
        verify_only=verify_only,
        topics=topics_of(*partitions),
    )


def of_broker(*rows: Any) -> Any:
    """AddPartitionsToTxn of the leader of partitions."""
    return AddPartitionsToTxnRequest(transactions=list(rows))


def add_offsets(name: str, producer: Any, group: str, *, epoch: int | None = None) -> Any:
    return AddOffsetsToTxnRequest(
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch if epoch is None else epoch,
        group_id=group,
    )


def end(name: str, producer: Any, committed: bool, *, epoch: int | None = None, producer_id: int | None = None) -> Any:
    return EndTxnRequest(
        transactional_id=name,
        producer_id=producer.producer_id if producer_id is None else producer_id,
        producer_epoch=producer.producer_epoch if epoch is None else epoch,
        committed=committed,
    )


def commit(name: str, producer: Any, **changes: Any) -> Any:
    return end(name, producer, True, **changes)


def abort(name: str, producer: Any, **changes: Any) -> Any:
    return end(name, producer, False, **changes)


def describe(*names: str) -> Any:
    return DescribeTransactionsRequest(transactional_ids=list(names))


def listing(
    states: tuple[str, ...] = (), ids: tuple[int, ...] = (), duration_ms: int = -1, pattern: str | None = None
) -> Any:
    return ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(ids),
        duration_filter=duration_ms,
        transactional_id_pattern=pattern,
    )


def produce(
    name: str,
    producer: Any,
    topic: str,
    *values: bytes,
    partition: int = 0,
    sequence: int = 0,
    epoch: int | None = None,
    time_ms: int = TIME_MS,
) -> Any:
    """Produce a transactional batch."""
    batch = build_batch(
        [NewRecord(None, value, time_ms) for value in values],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch if epoch is None else epoch,
        base_sequence=sequence,
        transactional=True,
    )
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])]
    return ProduceRequest(transactional_id=name, acks=-1, timeout_ms=5000, topic_data=data)


# ---- steps that stories share ----


def new_producer(broker: Recorder, name: str, **options: Any) -> Any:
    """InitProducerId in the newest version; return the answer."""
    return broker.settled(init(name, **options), 5)


def completed(broker: Recorder, name: str) -> Any:
    """Wait until the markers of the ended transaction are written, and record its description."""
    return broker.until(describe(name), 0, lambda answer: answer.transaction_states[0].transaction_state in IDLE)


IDLE = ("Empty", "CompleteCommit", "CompleteAbort")


def errors_of(answer: Any) -> list[int]:
    """The errors of an AddPartitionsToTxn, in the order of topics and partitions."""
    topics = answer.results_by_topic_v3_and_below or [
        topic for one in answer.results_by_transaction for topic in one.topic_results
    ]
    rows = sorted(
        (topic.name, one.partition_index, one.partition_error_code)
        for topic in topics
        for one in topic.results_by_partition
    )
    return [error for _, _, error in rows]
