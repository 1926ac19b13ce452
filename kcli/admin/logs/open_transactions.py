"""Open transactions: which producers hold partitions back, and what their coordinators know of them (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.explain.observations import OpenTransaction
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
    """A producer that a partition's leader remembers. `last_write_ms`: of its last batch, -1 unknown.

    `transaction_start`: the offset at which its open transaction begins; -1: it has none in this partition.
    """

    id: int
    epoch: int
    last_write_ms: int = -1
    transaction_start: int = -1


class Transaction(NamedTuple):
    """A transactional id as its coordinator describes it. Times in ms; `started_ms` -1: no transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    started_ms: int
    timeout_ms: int
    partitions: frozenset[TopicPartition]


def producers_of(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], deadline_ms: float
) -> Results[TopicPartition, list[Producer]]:
    """The producers that the leaders of these partitions remember. From brokers of 2.8 on."""
    return ask_leaders(client, partitions, lambda _node, tps: _producers_request(tps), _read_producers, deadline_ms)


def list_transactions(
    client: ConsumerNetworkClient, producer_ids: Sequence[int], deadline_ms: float
) -> Results[Node, dict[int, str]]:
    """By broker, which it coordinates of these producers: producer id -> transactional id. From brokers of 3.0 on."""
    from kcli.client.requests import ask_nodes
    from kcli.client.routing import all_brokers
    from kcli.protocol.messages.list_transactions import ListTransactionsRequest

    request = ListTransactionsRequest(producer_id_filters=list(producer_ids))
    told = ask_nodes(client, all_brokers(client, deadline_ms), request, deadline_ms)
    listed = {
        node: {transaction.producer_id: transaction.transactional_id for transaction in answer.transaction_states}
        for node, answer in told.values.items()
    }
    return Results(listed, told.errors)


def describe_transactions(
    client: ConsumerNetworkClient, transactional_ids: Iterable[str], deadline_ms: float
) -> Results[str, Transaction]:
    """These transactional ids, each from its coordinator."""
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
        for it in topic.partitions:
            tp = TopicPartition(topic.name, it.partition_index)
            if it.error_code:
                yield tp, BrokerError(it.error_code, it.error_message, api="DescribeProducers", partition=tp)
            else:
                yield (
                    tp,
                    [
                        Producer(p.producer_id, p.producer_epoch, p.last_timestamp, p.current_txn_start_offset)
                        for p in it.active_producers
                    ],
                )


def _read_transactions(response: DescribeTransactionsResponse) -> Iterator[tuple[str, Transaction | KcliError]]:
    for it in response.transaction_states:
        if it.error_code:
            yield it.transactional_id, BrokerError(it.error_code, transactional_id=it.transactional_id)
            continue
        partitions = frozenset(TopicPartition(topic.topic, p) for topic in it.topics for p in topic.partitions)
        yield (
            it.transactional_id,
            Transaction(
                it.transactional_id,
                it.transaction_state,
                it.producer_id,
                it.transaction_start_time_ms,
                it.transaction_timeout_ms,
                partitions,
            ),
        )


_OPEN = {"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"}


def transactions_holding_back(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], deadline_ms: float
) -> tuple[OpenTransaction, ...]:
    """The transactions open in these partitions, with what their coordinators tell; what cannot be asked is left out.

    One that no coordinator knows as open is asked for once more at the leader before it is said to hang: it may have
    ended between the questions.
    """
    held = _open_producers(client, partitions, deadline_ms)
    if not held:
        return ()
    producer_ids = sorted({producer.id for _, producer in held})
    listed = list_transactions(client, producer_ids, deadline_ms)
    names = {producer_id: name for told in listed.values.values() for producer_id, name in told.items()}
    described = describe_transactions(client, sorted(set(names.values())), deadline_ms)
    all_heard = not listed.errors and not described.errors
    found = [join(tp, producer, described.values.get(names.get(producer.id, "")), all_heard) for tp, producer in held]
    if any(transaction.hanging for transaction in found):
        still = {(tp, p.id) for tp, p in _open_producers(client, {t.tp for t in found}, deadline_ms)}
        found = [transaction for transaction in found if (transaction.tp, transaction.producer_id) in still]
    return tuple(found)


def join(tp: TopicPartition, producer: Producer, known: Transaction | None, all_heard: bool) -> OpenTransaction:
    """What the leader told of a producer, with the transaction that its coordinator knows; pure."""
    is_open = known is not None and known.state in _OPEN and tp in known.partitions
    told = OpenTransaction(tp, producer.id, producer.epoch, producer.transaction_start, producer.last_write_ms)
    told = told._replace(hanging=all_heard and not is_open)
    if known is None:
        return told
    told = told._replace(transactional_id=known.transactional_id, state=known.state)
    if not is_open:
        return told
    return told._replace(started_ms=known.started_ms if known.started_ms >= 0 else None, timeout_ms=known.timeout_ms)


def _open_producers(
    client: ConsumerNetworkClient, partitions: Iterable[TopicPartition], deadline_ms: float
) -> list[tuple[TopicPartition, Producer]]:
    told = producers_of(client, partitions, deadline_ms)
    return [
        (tp, producer)
        for tp, producers in sorted(told.values.items())
        for producer in sorted(producers, key=lambda p: p.transaction_start)
        if producer.transaction_start >= 0
    ]
