"""Open transactions, which hold back last stable offsets (KIP-664): from leaders and transaction coordinators."""

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


class Producer(NamedTuple):
    """A producer in the state of a partition's leader. `last_write_ms` is the time of its last batch, -1 unknown.

    `transaction_start` is the first offset of its open transaction in this partition; -1: there is none.
    """

    id: int
    epoch: int
    last_write_ms: int = -1
    transaction_start: int = -1


class Transaction(NamedTuple):
    """A transactional id at its coordinator. Times in ms; `started_ms` is -1 without an open transaction."""

    transactional_id: str
    state: str
    producer_id: int
    started_ms: int
    timeout_ms: int
    partitions: frozenset[TopicPartition]


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition since `start_offset` and holds back the last stable offset.

    `last_write_ms` and `started_ms` are wall-clock times. Transactional id, state, start and time-out are those of the
    coordinator, None if no coordinator returned them. `hanging`: all coordinators answered, and none knows it as open.
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


def producers_of(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], deadline_ms: float
) -> Results[TopicPartition, list[Producer]]:
    """Return the active producers of these partitions, from the leaders. Needs brokers of 2.8 or later."""
    return ask_leaders(client, partitions, lambda _node, tps: _producers_request(tps), _read_producers, deadline_ms)


def list_transactions(
    client: ConsumerNetworkClient, producer_ids: Sequence[int], deadline_ms: float
) -> Results[Node, dict[int, str]]:
    """Return the transactional ids of these producers by broker and producer id. Needs brokers of 3.0 or later."""
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
    """Return the transactions of these transactional ids, from their coordinators."""
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
    for state in response.transaction_states:
        if state.error_code:
            yield state.transactional_id, BrokerError(state.error_code, transactional_id=state.transactional_id)
            continue
        partitions = frozenset(TopicPartition(topic.topic, p) for topic in state.topics for p in topic.partitions)
        yield (
            state.transactional_id,
            Transaction(
                state.transactional_id,
                state.transaction_state,
                state.producer_id,
                state.transaction_start_time_ms,
                state.transaction_timeout_ms,
                partitions,
            ),
        )


_OPEN = {"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"}


def transactions_holding_back(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], deadline_ms: float
) -> tuple[OpenTransaction, ...]:
    """Return the open transactions of these partitions, with the state at their coordinators.

    A partition or coordinator that does not answer is left out. A transaction that no coordinator knows as open is
    requested again from the leader before it is reported as hanging, because it may have ended between the requests.
    """
    held = _open_producers(client, partitions, deadline_ms)
    if not held:
        return ()
    producer_ids = sorted({producer.id for _, producer in held})
    listed = list_transactions(client, producer_ids, deadline_ms)
    names = {producer_id: name for ids in listed.values.values() for producer_id, name in ids.items()}
    described = describe_transactions(client, sorted(set(names.values())), deadline_ms)
    complete = not listed.errors and not described.errors
    transactions = [
        join(tp, producer, described.values.get(names.get(producer.id, "")), complete) for tp, producer in held
    ]
    if any(transaction.hanging for transaction in transactions):
        still_open = {(tp, p.id) for tp, p in _open_producers(client, {t.tp for t in transactions}, deadline_ms)}
        transactions = [t for t in transactions if (t.tp, t.producer_id) in still_open]
    return tuple(transactions)


def join(tp: TopicPartition, producer: Producer, known: Transaction | None, complete: bool) -> OpenTransaction:
    """Return the open transaction of a producer, with the state at its coordinator if `known`. Pure.

    `complete`: all coordinators answered.
    """
    is_open = known is not None and known.state in _OPEN and tp in known.partitions
    transaction = OpenTransaction(tp, producer.id, producer.epoch, producer.transaction_start, producer.last_write_ms)
    transaction = transaction._replace(hanging=complete and not is_open)
    if known is None:
        return transaction
    transaction = transaction._replace(transactional_id=known.transactional_id, state=known.state)
    if not is_open:
        return transaction
    return transaction._replace(
        started_ms=known.started_ms if known.started_ms >= 0 else None, timeout_ms=known.timeout_ms
    )


def _open_producers(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], deadline_ms: float
) -> list[tuple[TopicPartition, Producer]]:
    results = producers_of(client, partitions, deadline_ms)
    return [
        (tp, producer)
        for tp, producers in sorted(results.values.items())
        for producer in sorted(producers, key=lambda p: p.transaction_start)
        if producer.transaction_start >= 0
    ]
