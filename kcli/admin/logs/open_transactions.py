"""Open transactions of partitions, from the leaders and the transaction coordinators (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.transactions import describe_transactions, list_transactions
from kcli.client.requests import Results
from kcli.client.routing import ask_leaders
from kcli.errors import KcliError
from kcli.structs import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from kcli.admin.transactions import Transaction
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition from `start_offset` on.

    `last_write_ms` (-1: unknown) and `started_ms` are wall-clock times. The transactional id, state, start and timeout
    come from the coordinator; None if no coordinator knows the transaction or the coordinator did not answer.
    `hanging`: every coordinator answered and none knows the transaction as open, so no timeout will end it.
    """

    tp: TopicPartition
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_write_ms: int = -1
    transactional_id: str | None = None
    state: str | None = None
    started_ms: int | None = None
    timeout_ms: int | None = None
    hanging: bool = False


class Producer(NamedTuple):
    """An active producer of a partition. `last_write_ms` is the time of its last batch; -1: unknown.

    `transaction_start` is the first offset of its open transaction; -1: no transaction is open in the partition.
    `coordinator_epoch` is that of the last marker; -1: none.
    """

    id: int
    epoch: int
    last_write_ms: int = -1
    transaction_start: int = -1
    coordinator_epoch: int = -1


def active_producers(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], deadline_ms: float
) -> Results[TopicPartition, list[Producer]]:
    """Return the active producers of these partitions, from their leaders (Kafka 2.8 and later)."""
    return ask_leaders(client, partitions, lambda _node, tps: _producers_request(tps), _read_producers, deadline_ms)


def _producers_request(partitions: Iterable[TopicPartition]) -> DescribeProducersRequest:
    from kcli.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest

    return DescribeProducersRequest(
        topics=[
            TopicRequest(name=name, partition_indexes=numbers) for name, numbers in numbers_by_topic(partitions).items()
        ]
    )


def _read_producers(response: DescribeProducersResponse) -> Iterator[tuple[TopicPartition, list[Producer] | KcliError]]:
    for topic in response.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code:
                code, message = partition.error_code, partition.error_message
                yield tp, response.broker_error(code, message, api="DescribeProducers", partition=tp)
            else:
                yield (
                    tp,
                    [
                        Producer(
                            p.producer_id,
                            p.producer_epoch,
                            p.last_timestamp,
                            p.current_txn_start_offset,
                            p.coordinator_epoch,
                        )
                        for p in partition.active_producers
                    ],
                )


class TransactionSurvey(NamedTuple):
    """Open transactions, and the errors by partition, broker or transactional id that may hide others."""

    transactions: tuple[OpenTransaction, ...] = ()
    errors: Mapping[str, KcliError] = {}


def survey_transactions(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], deadline_ms: float
) -> TransactionSurvey:
    """Return the open transactions of these partitions.

    A transaction that no coordinator knows may have ended between the requests, and its producer may have begun another
    one. Therefore its leader is asked again before it is returned as hanging.
    """
    asked = active_producers(client, partitions, deadline_ms)
    errors = {str(tp): error for tp, error in asked.errors.items()}
    producers = _with_open_transaction(asked)
    if not producers:
        return TransactionSurvey((), errors)
    ids = sorted({producer.id for _, producer in producers})
    listed = list_transactions(client, deadline_ms, producer_ids=ids)
    names = {row.producer_id: row.transactional_id for rows in listed.values.values() for row in rows}
    described = describe_transactions(client, sorted(set(names.values())), deadline_ms)
    errors.update({f"broker {node.id}": error for node, error in listed.errors.items()})
    errors.update(described.errors)
    all_answered = not listed.errors and not described.errors
    transactions = [
        join_transaction(tp, producer, described.values.get(names.get(producer.id, "")), all_answered)
        for tp, producer in producers
    ]
    if any(transaction.hanging for transaction in transactions):
        again = active_producers(client, {t.tp for t in transactions}, deadline_ms)
        still_open = {(tp, producer.id, producer.transaction_start) for tp, producer in _with_open_transaction(again)}
        transactions = [t for t in transactions if (t.tp, t.producer_id, t.start_offset) in still_open]
        errors.update({str(tp): error for tp, error in again.errors.items()})
    return TransactionSurvey(tuple(transactions), errors)


def join_transaction(
    tp: TopicPartition, producer: Producer, described: Transaction | None, all_answered: bool
) -> OpenTransaction:
    """Join the leader's view of a producer with its coordinator's view of the transaction. Pure.

    `all_answered`: every coordinator answered; otherwise an unknown transaction is not hanging.
    """
    is_open = described is not None and described.is_open and tp in described.partitions
    transaction = OpenTransaction(tp, producer.id, producer.epoch, producer.transaction_start, producer.last_write_ms)
    transaction = transaction._replace(hanging=all_answered and not is_open)
    if described is None:
        return transaction
    transaction = transaction._replace(transactional_id=described.transactional_id, state=described.state)
    if not is_open:
        return transaction
    started_ms = described.started_ms if described.started_ms >= 0 else None
    return transaction._replace(started_ms=started_ms, timeout_ms=described.timeout_ms)


def _with_open_transaction(results: Results[TopicPartition, list[Producer]]) -> list[tuple[TopicPartition, Producer]]:
    return [
        (tp, producer)
        for tp, producers in sorted(results.values.items())
        for producer in sorted(producers, key=lambda p: p.transaction_start)
        if producer.transaction_start >= 0
    ]
