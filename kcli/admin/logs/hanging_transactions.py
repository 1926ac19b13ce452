"""Hanging transactions, open in a partition and known to no coordinator: plan their abort, and do it (KIP-664).

A marker that an administrator has written ends the transaction in one partition. It must not be written for a
transaction that a coordinator knows: the coordinator could commit the other partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.admin.logs.open_transactions import OpenTransaction, Producer, active_producers, survey_transactions
from kcli.admin.plan import Plan, Row
from kcli.admin.transactions import PERMANENT
from kcli.client.routing import ask_leaders
from kcli.errors import KcliError, NotFound, Refused
from kcli.structs import TopicPartition
from kcli.visible import shell_word

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.write_txn_markers import WriteTxnMarkersResponse


@dataclass(frozen=True)
class HangingAbort(Row[OpenTransaction]):
    """The abort of the transaction that starts at `start_offset`; the key is the partition."""

    start_offset: int = 0
    producer: Producer | None = None


def plan_marker(
    client: ConsumerNetworkClient, tp: TopicPartition, start_offset: int, deadline_ms: float
) -> Plan[HangingAbort]:
    """Plan the abort of a hanging transaction, in one row.

    Its error is NotFound without an open transaction at this offset, and Refused if a coordinator knows the
    transaction, or if one of them did not answer.
    """
    asked = active_producers(client, [tp], deadline_ms)
    if tp in asked.errors:
        return _plan(HangingAbort(tp, error=asked.errors[tp], start_offset=start_offset))
    open_producers = [producer for producer in asked.values[tp] if producer.transaction_start >= 0]
    producer = next((producer for producer in open_producers if producer.transaction_start == start_offset), None)
    if producer is None:
        starts = ", ".join(str(producer.transaction_start) for producer in open_producers)
        others = f"those that are open start at {starts}" if starts else "no transaction is open there"
        text = f"no open transaction of {tp} starts at offset {start_offset}; {others}"
        return _plan(HangingAbort(tp, error=NotFound(text), start_offset=start_offset))
    survey = survey_transactions(client, [tp], deadline_ms)
    found = next((transaction for transaction in survey.transactions if transaction.start_offset == start_offset), None)
    error: KcliError | None = None
    if found is None:
        error = NotFound(f"the transaction of {tp} that started at offset {start_offset} has just ended")
    elif survey.errors:
        where, first = next(iter(survey.errors.items()))
        error = Refused(f"it is not known whether a coordinator knows the transaction: {where}: {first.message}")
    elif not found.hanging:
        error = Refused(
            f"the coordinator of {found.transactional_id} knows the transaction (state {found.state}); abort it with "
            f"`kcli transaction abort -- {shell_word(str(found.transactional_id))}`"
        )
    return _plan(HangingAbort(tp, found, None, "abort", "", error, start_offset, producer))


def _plan(row: HangingAbort) -> Plan[HangingAbort]:
    return Plan("abort", (row,), permanent=PERMANENT)


def write_abort_marker(client: ConsumerNetworkClient, row: HangingAbort, deadline_ms: float) -> None:
    """Have the leader write a marker that aborts the planned transaction. Raise the error of the partition.

    A request with a lost response is repeated: without an open transaction, the marker changes nothing.
    """
    from kcli.protocol.messages.write_txn_markers import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )

    producer, tp = row.producer, row.key
    assert producer is not None
    marker = WritableTxnMarker(
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])],
        coordinator_epoch=max(0, producer.coordinator_epoch),
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    results = ask_leaders(client, [tp], lambda _node, _tps: request, _read_markers, deadline_ms)
    if tp in results.errors:
        raise results.errors[tp]


def _read_markers(response: WriteTxnMarkersResponse) -> Iterator[tuple[TopicPartition, int | KcliError]]:
    for marker in response.markers:
        for topic in marker.topics:
            for partition in topic.partitions:
                tp, code = TopicPartition(topic.name, partition.partition_index), partition.error_code
                yield tp, response.broker_error(code, api="WriteTxnMarkers", partition=tp) if code else 0
