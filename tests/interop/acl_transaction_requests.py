"""Requests of the APIs of transactions for `test_acl_stories`: the transactional id "mine", and topics of a `Stage`."""

from __future__ import annotations

import time
from typing import Any

from kcli.error_codes import ErrorCode
from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kcli.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kcli.protocol.messages.end_txn import EndTxnRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.list_transactions import ListTransactionsRequest
from tests.interop.acl_requests import Stage, in_order
from tests.interop.acl_scene import PATIENCE_S

_TRANSACTION = 1
_NOT_READY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


def with_transaction(stage: Stage) -> None:
    """Let the super user open a transaction of "mine" with the topics that exist."""
    admin = stage.scene.admin
    found = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[stage.mine])
    _wait(lambda: admin.ask(found, 4).coordinators[0])
    init = InitProducerIdRequest(transactional_id=stage.mine, transaction_timeout_ms=100_000)
    producer = _wait(lambda: admin.ask(init, 4))
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in (stage.mine, stage.other)]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=stage.mine,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics,
    )
    for topic in admin.ask(request, 3).results_by_topic_v3_and_below:
        assert topic.results_by_partition[0].partition_error_code == 0


def _wait(ask: Any) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while (response := ask()).error_code in _NOT_READY:
        assert time.monotonic() < deadline, response
        time.sleep(0.02)
    assert not response.error_code, response
    return response


def find(stage: Stage) -> Any:
    response = stage.ask(FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[stage.mine]), 4)
    return response.coordinators[0].error_code


def init(stage: Stage) -> Any:
    """With a timeout that is not valid, so that no producer is fenced."""
    response = stage.ask(InitProducerIdRequest(transactional_id=stage.mine, transaction_timeout_ms=-1), 4)
    return response.error_code, response.producer_epoch


def add_partitions(stage: Stage) -> Any:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=stage.mine,
        v3_and_below_producer_id=1 << 40,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in stage.names],
    )
    return _codes(stage, stage.ask(request, 3).results_by_topic_v3_and_below)


def add_partitions_of_broker(stage: Stage) -> Any:
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in (stage.mine, stage.other)]
    transaction = AddPartitionsToTxnTransaction(transactional_id=stage.mine, producer_id=1 << 40, topics=topics)
    response = stage.ask(AddPartitionsToTxnRequest(transactions=[transaction]), 4)
    return response.error_code, [_codes(stage, one.topic_results) for one in response.results_by_transaction]


def _codes(stage: Stage, topics: Any) -> str:
    return in_order({stage.alias(one.name): one.results_by_partition[0].partition_error_code for one in topics})


def add_offsets(stage: Stage) -> Any:
    request = AddOffsetsToTxnRequest(transactional_id=stage.mine, producer_id=1 << 40, group_id=stage.mine)
    return stage.ask(request, 3).error_code


def end(stage: Stage) -> Any:
    response = stage.ask(EndTxnRequest(transactional_id=stage.mine, producer_id=1 << 40, committed=True), 5)
    return response.error_code, response.producer_id, response.producer_epoch


def listed(stage: Stage) -> Any:
    response = stage.ask(ListTransactionsRequest(), 0)
    return response.error_code, [stage.alias(one.transactional_id) for one in response.transaction_states]


def describe(stage: Stage) -> Any:
    (row,) = stage.ask(DescribeTransactionsRequest(transactional_ids=[stage.mine]), 0).transaction_states
    return row.error_code, row.transaction_state, " ".join(sorted(stage.alias(one.topic) for one in row.topics))
