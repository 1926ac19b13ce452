"""Open transactions of partitions, from the leaders and the transaction coordinators (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.client.requests import Results
from kcli.client.routing import TRANSACTION, Coordinators, ask_leaders
from kcli.errors import BrokerError, KcliError
from kcli.structs import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
    from kcli.protocol.messages.describe_transactions import DescribeTransactionsResponse
    from kcli.structs import Node, TopicPartition


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
    """

    id: int
    epoch: int
    last_write_ms: int = -1
    transaction_start: int = -1


class Transaction(NamedTuple):
    """A transactional id as described by its coordinator. Times in ms; `started_ms` -1: no transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    started_ms: int
    timeout_ms: int
    partitions: frozenset[TopicPartition]


def active_producers(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], deadline_ms: float
) -> Results[TopicPartition, list[Producer]]:
    """Return the active producers of these partitions, from their leaders (Kafka 2.8 and later)."""
    return ask_leaders(client, partitions, lambda _node, tps: _producers_request(tps), _read_producers, deadline_ms)


def list_transactions(
    client: ConsumerNetworkClient, producer_ids: Sequence[int], deadline_ms: float
) -> Results[Node, dict[int, str]]:
    """Return by broker the transactional ids that it coordinates for these producer ids (Kafka 3.0 and later)."""
    from kcli.client.requests import ask_nodes
    from kcli.client.routing import all_brokers
    from kcli.protocol.messages.list_transactions import ListTransactionsRequest

    request = ListTransactionsRequest(producer_id_filters=list(producer_ids))
    results = ask_nodes(client, all_brokers(client, deadline_ms), request, deadline_ms)
    listed = {
        node: {transaction.producer_id: transaction.transactional_id for transaction in response.transaction_states}
        for node, response in results.values.items()
    }
    return Results(listed, results.errors)


def describe_transactions(
    client: ConsumerNetworkClient, transactional_ids: Iterable[str], deadline_ms: float
) -> Results[str, Transaction]:
    """Return these transactional ids, each from its coordinator."""
    from kcli.protocol.messages.describe_transactions import DescribeTransactionsRequest

    return Coordinators(client, TRANSACTION).ask(
        transactional_ids,
        lambda ids: DescribeTransactionsRequest(transactional_ids=ids),
        _read_transactions,
        deadline_ms,
    )


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
                error = BrokerError(
                    partition.error_code, partition.error_message, api="DescribeProducers", partition=tp
                )
                yield tp, error
            else:
                yield (
                    tp,
                    [
                        Producer(p.producer_id, p.producer_epoch, p.last_timestamp, p.current_txn_start_offset)
                        for p in partition.active_producers
                    ],
                )


def _read_transactions(response: DescribeTransactionsResponse) -> Iterator[tuple[str, Transaction | KcliError]]:
    for transaction in response.transaction_states:
        if transaction.error_code:
            yield (
                transaction.transactional_id,
                BrokerError(
                    transaction.error_code,
                    request="DescribeTransactions",
                    transactional_id=transaction.transactional_id,
                ),
            )
            continue
        partitions = frozenset(
            TopicPartition(topic.topic, number) for topic in transaction.topics for number in topic.partitions
        )
        yield (
            transaction.transactional_id,
            Transaction(
                transaction.transactional_id,
                transaction.transaction_state,
                transaction.producer_id,
                transaction.transaction_start_time_ms,
                transaction.transaction_timeout_ms,
                partitions,
            ),
        )


_OPEN_STATES = {"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"}


def find_open_transactions(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], deadline_ms: float
) -> tuple[OpenTransaction, ...]:
    """Return the open transactions of these partitions. A partition whose leader does not answer is left out.

    A transaction that no coordinator knows may have ended between the requests. Therefore its leader is asked again
    before it is returned as hanging.
    """
    producers = _open_producers(client, partitions, deadline_ms)
    if not producers:
        return ()
    listed = list_transactions(client, sorted({producer.id for _, producer in producers}), deadline_ms)
    names = {producer_id: name for by_id in listed.values.values() for producer_id, name in by_id.items()}
    described = describe_transactions(client, sorted(set(names.values())), deadline_ms)
    all_answered = not listed.errors and not described.errors
    transactions = [
        join_transaction(tp, producer, described.values.get(names.get(producer.id, "")), all_answered)
        for tp, producer in producers
    ]
    if any(transaction.hanging for transaction in transactions):
        still_open = {(tp, p.id) for tp, p in _open_producers(client, {t.tp for t in transactions}, deadline_ms)}
        transactions = [t for t in transactions if (t.tp, t.producer_id) in still_open]
    return tuple(transactions)


def join_transaction(
    tp: TopicPartition, producer: Producer, described: Transaction | None, all_answered: bool
) -> OpenTransaction:
    """Join the leader's view of a producer with its coordinator's view of the transaction. Pure.

    `all_answered`: every coordinator answered; otherwise an unknown transaction is not hanging.
    """
    is_open = described is not None and described.state in _OPEN_STATES and tp in described.partitions
    transaction = OpenTransaction(tp, producer.id, producer.epoch, producer.transaction_start, producer.last_write_ms)
    transaction = transaction._replace(hanging=all_answered and not is_open)
    if described is None:
        return transaction
    transaction = transaction._replace(transactional_id=described.transactional_id, state=described.state)
    if not is_open:
        return transaction
    started_ms = described.started_ms if described.started_ms >= 0 else None
    return transaction._replace(started_ms=started_ms, timeout_ms=described.timeout_ms)


def _open_producers(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], deadline_ms: float
) -> list[tuple[TopicPartition, Producer]]:
    results = active_producers(client, partitions, deadline_ms)
    return [
        (tp, producer)
        for tp, producers in sorted(results.values.items())
        for producer in sorted(producers, key=lambda p: p.transaction_start)
        if producer.transaction_start >= 0
    ]
