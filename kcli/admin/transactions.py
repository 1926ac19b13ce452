"""Transactional ids as their coordinators know them: list, describe, abort (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.admin.plan import Plan, Row
from kcli.client.requests import Results, ask_nodes, half_deadline
from kcli.client.routing import TRANSACTION, Coordinators, all_brokers, ask_coordinator
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.structs import Node, TopicPartition
from kcli.text import did_you_mean

if TYPE_CHECKING:
    import re

    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.describe_transactions import DescribeTransactionsResponse

#: The states of a transactional id, in the spelling of brokers.
STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
    "PrepareEpochFence",
)
PERMANENT = "an abort cannot be undone: the records of the transaction stay invisible to readers with read_committed"
_OPEN_STATES = {"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"}


class ListedTransaction(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: Node


class Transaction(NamedTuple):
    """A transactional id as described by its coordinator. Times in ms; `started_ms` -1: no transaction is open.

    During the end of a transaction, `partitions` are those that have no marker so far.
    """

    transactional_id: str
    state: str
    producer_id: int
    started_ms: int
    timeout_ms: int
    partitions: frozenset[TopicPartition]
    producer_epoch: int = -1

    @property
    def is_open(self) -> bool:
        """A transaction is open, or is being ended."""
        return self.state in _OPEN_STATES


def list_transactions(
    client: ConsumerNetworkClient,
    deadline_ms: float,
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
) -> Results[Node, list[ListedTransaction]]:
    """Return by broker the transactional ids that it coordinates, sorted (Kafka 3.0 and later).

    `states` and `producer_ids` select; () means any. A broker that does not answer is an error under its node.
    """
    from kcli.protocol.messages.list_transactions import ListTransactionsRequest

    request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producer_ids))
    results = ask_nodes(client, all_brokers(client, deadline_ms), request, deadline_ms)
    listed = {
        node: sorted(
            ListedTransaction(state.transactional_id, state.transaction_state, state.producer_id, node)
            for state in response.transaction_states
        )
        for node, response in results.values.items()
    }
    return Results(listed, results.errors)


def describe_transactions(
    client: ConsumerNetworkClient, transactional_ids: Iterable[str], deadline_ms: float
) -> Results[str, Transaction]:
    """Return these transactional ids, each from its coordinator. An unknown one: TRANSACTIONAL_ID_NOT_FOUND."""
    from kcli.protocol.messages.describe_transactions import DescribeTransactionsRequest

    return Coordinators(client, TRANSACTION).ask(
        transactional_ids,
        lambda ids: DescribeTransactionsRequest(transactional_ids=ids),
        _read_transactions,
        deadline_ms,
    )


def _read_transactions(response: DescribeTransactionsResponse) -> Iterator[tuple[str, Transaction | KcliError]]:
    for state in response.transaction_states:
        if state.error_code:
            yield state.transactional_id, _described_error(response, state.error_code, state.transactional_id)
            continue
        yield (
            state.transactional_id,
            Transaction(
                state.transactional_id,
                state.transaction_state,
                state.producer_id,
                state.transaction_start_time_ms,
                state.transaction_timeout_ms,
                frozenset(TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions),
                state.producer_epoch,
            ),
        )


def _described_error(response: DescribeTransactionsResponse, code: int, transactional_id: str) -> BrokerError:
    if code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return BrokerError(code, f"there is no transactional id {transactional_id}")
    return response.broker_error(code, transactional_id=transactional_id)


class FoundTransactions(NamedTuple):
    """Listed transactional ids by name, sorted; their descriptions if requested; brokers that did not list theirs."""

    listed: dict[str, ListedTransaction]
    described: Results[str, Transaction] | None
    failed_brokers: dict[Node, KcliError]


def find_transactions(
    client: ConsumerNetworkClient,
    deadline_ms: float,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    pattern: re.Pattern[str] | None = None,
    describe: bool = True,
) -> FoundTransactions:
    """Return the transactional ids of all brokers; only those in one of `states`, of one of `producer_ids`, and with a
    match of `pattern`.
    """
    results = list_transactions(client, half_deadline(client, deadline_ms), states=states, producer_ids=producer_ids)
    listed = {
        row.transactional_id: row
        for rows in results.values.values()
        for row in rows
        if pattern is None or pattern.search(row.transactional_id)
    }
    listed = dict(sorted(listed.items()))
    described = describe_transactions(client, listed, deadline_ms) if describe else None
    return FoundTransactions(listed, described, results.errors)


def similar_ids(client: ConsumerNetworkClient, absent: Sequence[str], deadline_ms: float) -> dict[str, str]:
    """Return ` (did you mean payments?)` for each of these ids that has a similar name to an existing one."""
    if not absent:
        return {}
    try:
        listed = list_transactions(client, half_deadline(client, deadline_ms))
    except KcliError:
        return {}
    existing = sorted({row.transactional_id for rows in listed.values.values() for row in rows})
    return {name: hint for name in absent if (hint := did_you_mean(name, existing))}


def plan_abort(found: Results[str, Transaction], names: Iterable[str]) -> Plan[Row[Transaction]]:
    """Plan to abort the open transactions of these ids. Without an open one, an id is kept as it is. Pure."""
    rows: list[Row[Transaction]] = []
    for name in names:
        transaction = found.values.get(name)
        action = "abort" if transaction is None or transaction.is_open else "keep"
        rows.append(Row(name, transaction, action=action, error=found.errors.get(name)))
    return Plan("abort", tuple(rows), permanent=PERMANENT)


def abort_transactions(
    client: ConsumerNetworkClient, transactions: Iterable[Transaction], deadline_ms: float
) -> Results[str, int]:
    """Abort the open transactions of these ids and fence their producers. Return the new producer epochs by id.

    The coordinator gives a new epoch to each id, and aborts what is open: the same that a new producer with the id does
    at its start. A request with a lost response is repeated, which has the same result.
    """
    results: Results[str, int] = Results()
    for transaction in transactions:
        try:
            results.values[transaction.transactional_id] = _fence(client, transaction, deadline_ms)
        except KcliError as error:
            results.errors[transaction.transactional_id] = error
    return results


def _fence(client: ConsumerNetworkClient, transaction: Transaction, deadline_ms: float) -> int:
    from kcli.protocol.messages.init_producer_id import InitProducerIdRequest

    request = InitProducerIdRequest(
        transactional_id=transaction.transactional_id, transaction_timeout_ms=transaction.timeout_ms
    )
    response: Any = None
    for _ in client.attempts(deadline_ms):
        response = ask_coordinator(client, transaction.transactional_id, request, deadline_ms, key_type=TRANSACTION)
        if not ErrorCode.of(response.error_code).retriable:
            break  # retriable: CONCURRENT_TRANSACTIONS while markers are written
    if response.error_code:
        raise response.broker_error(response.error_code, transactional_id=transaction.transactional_id)
    epoch: int = response.producer_epoch
    return epoch
