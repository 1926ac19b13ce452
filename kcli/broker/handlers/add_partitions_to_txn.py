"""AddPartitionsToTxn (24), v0-5: add partitions to a transaction, or verify that they are in it.

Up to v3 from a producer about its own transaction. From v4 on from the leaders of partitions, about several
transactions; v5 adds a partition with the first records that its leader gets in a transaction (KIP-890).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import cluster_denied
from kcli.broker.serving.pending import Pending, completed, gathered
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kcli.structs import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

Errors = dict[TopicPartition, ErrorCode]

_FIRST_OF_BROKERS = 4
_FIRST_THAT_ADDS_FOR_CLIENTS = 5
# Older clients do not know PRODUCER_FENCED.
_FIRST_WITH_FENCED = 2


def handle(
    broker: Broker, request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse | Pending[AddPartitionsToTxnResponse]:
    """Return the outcome of each partition when all changes are stored."""
    is_broker = context.api_version >= _FIRST_OF_BROKERS
    if is_broker and not broker.authorizer.allows_cluster(context, AclOperation.CLUSTER_ACTION):
        return AddPartitionsToTxnResponse(error_code=cluster_denied(AclOperation.CLUSTER_ACTION).code)
    transactions = request.transactions if is_broker else [_of_client(request)]
    answers = [_process(broker, transaction, context) for transaction in transactions]

    def response(outcomes: list[Errors]) -> AddPartitionsToTxnResponse:
        if context.api_version < _FIRST_WITH_FENCED:
            outcomes = [{tp: _for_old_client(error) for tp, error in errors.items()} for errors in outcomes]
        if not is_broker:
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_rows(outcomes[0]))
        results = [
            AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=_rows(errors))
            for transaction, errors in zip(transactions, outcomes, strict=True)
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)

    return gathered(answers).then(response)


def _of_client(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _process(broker: Broker, transaction: AddPartitionsToTxnTransaction, context: RequestContext) -> Pending[Errors]:
    """Return the error of each partition of one transaction."""
    partitions = dict.fromkeys(_partitions(transaction.topics))
    is_client = context.api_version < _FIRST_OF_BROKERS
    name = transaction.transactional_id
    if is_client and not broker.authorizer.allows(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return completed(dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    refused = _refused(broker, partitions, context)
    if refused:
        # One such partition refuses all of them.
        return completed({tp: refused.get(tp, ErrorCode.OPERATION_NOT_ATTEMPTED) for tp in partitions})
    return broker.transactions.add_or_verify(
        name,
        transaction.producer_id,
        transaction.producer_epoch,
        partitions,
        verify_only=transaction.verify_only,
        client_version=2 if context.api_version >= _FIRST_THAT_ADDS_FOR_CLIENTS else 0,
    )


def _partitions(topics: Collection[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _refused(broker: Broker, partitions: Collection[TopicPartition], context: RequestContext) -> Errors:
    """Return the errors of partitions that do not exist, or that the client must not write to."""
    errors: Errors = {}
    for tp in partitions:
        needs_right = context.api_version < _FIRST_OF_BROKERS
        if needs_right and (
            tp.topic in INTERNAL_TOPICS
            or not broker.authorizer.allows(context, AclOperation.WRITE, ResourceType.TOPIC, tp.topic)
        ):
            errors[tp] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif broker.cluster.partition_state(tp) is None:
            errors[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return errors


def _for_old_client(error: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error


def _rows(errors: Mapping[TopicPartition, ErrorCode]) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for tp, error in errors.items():
        topic = topics.setdefault(tp.topic, AddPartitionsToTxnTopicResult(name=tp.topic, results_by_partition=[]))
        topic.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=tp.partition, partition_error_code=error)
        )
    return list(topics.values())
