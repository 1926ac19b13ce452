"""Which transactions hold the last stable offsets back: leaders name the producers, coordinators the transactions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.admin.explain.facts import OpenTransaction
from kcli.admin.transactions import Producer, Transaction, describe_transactions, list_transactions, producers_of

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.structs import TopicPartition

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
