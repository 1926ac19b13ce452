"""Open transactions: which producers hold partitions back, and what their coordinators know of them (KIP-664)."""

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
    from kcli.structs import Node


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
