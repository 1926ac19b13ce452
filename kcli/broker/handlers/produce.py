"""Produce (0), v3-13: append batches, and answer when the replicas that `acks` requires have them.

v0-2 are advertised, because old librdkafka looks for them, and close the connection, both as in Apache Kafka 4. With
acks=0 there is no answer; an error closes the connection. Of several entries for one partition only the last is used
and answered, as in Apache Kafka. If a client is over its quota (producer_byte_rate), the response has
throttle_time_ms, and the connection is muted for that time. From v10 the answer has the leaders of partitions that this
broker does not lead (KIP-951). A batch of a transaction is verified at the transaction's coordinator first (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.delayed import ProduceOutcome
from kcli.broker.quotas import PRODUCE_RATE
from kcli.broker.serving.pending import Pending, completed
from kcli.broker.serving.request_context import CloseConnection, RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.fetch import NodeEndpoint
from kcli.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kcli.protocol.records.batch import CODEC_MASK, HEADER_BYTES, MAGIC_AT, TRANSACTIONAL_BIT
from kcli.structs import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from kcli.broker.broker import Broker
    from kcli.protocol.primitives import Buffer

_ATTRIBUTES_AT = 22  # the low byte of two
_ZSTD, _ZSTD_SINCE_VERSION = 4, 7
_IDS_SINCE_VERSION = 13
_LEADERS_SINCE_VERSION = 10
_NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
#: Only Kafka's own admin tools may write to internal topics.
_ADMIN_CLIENT_ID = "__admin_client"

# For each partition of the request, in order: its error, or the partition whose append gives the outcome.
_Verdict = ProduceOutcome | TopicPartition


def handle(broker: Broker, request: ProduceRequest, context: RequestContext) -> object:
    """Return the response or a `Pending` of it, None for acks=0. CloseConnection for an error with acks=0."""
    _remove_duplicates(request)
    entries: dict[TopicPartition, Buffer] = {}
    if any(_has_bit(row.records, TRANSACTIONAL_BIT) for topic in request.topic_data for row in topic.partition_data):
        verdicts = list(_verdicts(broker, request, context, entries, _denial(broker, request, context)))
        appended = _append_verified(broker, request, context, verdicts, entries)
    else:
        verdicts = list(_verdicts(broker, request, context, entries, ErrorCode.NONE))
        appended = broker.replica_manager.append(
            entries,
            acks=request.acks,
            timeout_ms=request.timeout_ms,
            now_ms=context.now_ms,
            now_wall_ms=context.now_wall_ms,
        )
    size = 0 if broker.replica_manager.client_quotas is None else sum(map(len, entries.values()))

    def answer(outcomes: dict[TopicPartition, ProduceOutcome]) -> ProduceResponse | None:
        response = _response(broker, request, context, verdicts, outcomes)
        if size:
            _throttle(broker, context, size, response)
        return response

    def answer_later(outcomes: dict[TopicPartition, ProduceOutcome]) -> object:
        try:
            return answer(outcomes)
        except CloseConnection as closing:
            return closing

    return answer(appended.value) if appended.is_done else appended.then(answer_later)


def _throttle(broker: Broker, context: RequestContext, size: int, response: ProduceResponse | None) -> None:
    quotas = broker.replica_manager.client_quotas
    if quotas is None:
        return
    wait_ms = quotas.throttle_ms(PRODUCE_RATE, context.principal, context.client_id, size, context.now_ms)
    if wait_ms:
        broker.server.throttle(context.connection_id, wait_ms)
        if response is not None:
            response.throttle_time_ms = wait_ms


def _remove_duplicates(request: ProduceRequest) -> None:
    if len(request.topic_data) == 1 and len(request.topic_data[0].partition_data) == 1:
        return
    last: dict[tuple[str | UUID, int], PartitionProduceData] = {}
    count = 0
    for topic in request.topic_data:
        for data in topic.partition_data:
            last[topic.name or topic.topic_id, data.index] = data
        count += len(topic.partition_data)
    if len(last) == count:
        return
    for topic in request.topic_data:
        name = topic.name or topic.topic_id
        topic.partition_data = [data for data in topic.partition_data if last[name, data.index] is data]
    request.topic_data = [topic for topic in request.topic_data if topic.partition_data]


def _append_verified(
    broker: Broker,
    request: ProduceRequest,
    context: RequestContext,
    verdicts: list[_Verdict],
    entries: dict[TopicPartition, Buffer],
) -> Pending[dict[TopicPartition, ProduceOutcome]]:
    """Append batches of a transaction after its coordinator has confirmed that the partitions are in it."""
    from kcli.broker.transaction.verified_append import append_verified

    try:
        return append_verified(broker, request, context.api_version, entries)
    except BrokerError as error:  # of the whole request
        verdicts[:] = [ProduceOutcome(error.code, message=error.detail)] * len(verdicts)
        return completed({})


def _verdicts(
    broker: Broker,
    request: ProduceRequest,
    context: RequestContext,
    entries: dict[TopicPartition, Buffer],
    request_error: ErrorCode,
) -> Iterator[_Verdict]:
    """Validate each partition: yield the outcome if it is refused, otherwise add its batch to `entries`."""
    authorizer = broker.authorizer
    for topic in request.topic_data:
        name: str | None = topic.name
        if context.api_version >= _IDS_SINCE_VERSION:
            name = broker.replica_manager.topic_name(topic.topic_id)
        topic_error = request_error
        if not (
            authorizer.is_open
            or topic_error
            or name is None
            or authorizer.allows(context, AclOperation.WRITE, ResourceType.TOPIC, name)
        ):
            topic_error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for data in topic.partition_data:
            code = topic_error or _partition_error(broker, name, data, context)
            if code or name is None or data.records is None:
                yield ProduceOutcome(code)
                continue
            tp = TopicPartition(name, data.index)
            entries[tp] = data.records
            yield tp


def _denial(broker: Broker, request: ProduceRequest, context: RequestContext) -> ErrorCode:
    """Return the error of a transactional request without a transactional id, or without the right to write to it."""
    name = request.transactional_id
    if name is None or not broker.authorizer.allows(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _partition_error(
    broker: Broker, name: str | None, data: PartitionProduceData, context: RequestContext
) -> ErrorCode:
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    tp = TopicPartition(name, data.index)
    if broker.replica_manager.partition(tp) is None:
        return broker.replica_manager.error_without_replica(tp)
    if data.records is None:
        return ErrorCode.INVALID_RECORD
    if context.api_version < _ZSTD_SINCE_VERSION and _codec(data.records) == _ZSTD:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if name in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT_ID:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.NONE


def _has_bit(records: Buffer | None, bit: int) -> bool:
    return records is not None and len(records) >= HEADER_BYTES and bool(records[_ATTRIBUTES_AT] & bit)


def _codec(records: Buffer) -> int:
    is_batch = len(records) >= HEADER_BYTES and records[MAGIC_AT] == 2
    return records[_ATTRIBUTES_AT] & CODEC_MASK if is_batch else 0


def _response(
    broker: Broker,
    request: ProduceRequest,
    context: RequestContext,
    verdicts: list[_Verdict],
    appended: dict[TopicPartition, ProduceOutcome],
) -> ProduceResponse | None:
    outcomes = [appended[verdict] if isinstance(verdict, TopicPartition) else verdict for verdict in verdicts]
    if request.acks == 0:
        _close_if_refused(outcomes)
        return None
    next_outcome = iter(outcomes)
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _partition_response(data.index, next(next_outcome)) for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
    if context.api_version >= _LEADERS_SINCE_VERSION and any(outcome.error is _NOT_LEADER for outcome in outcomes):
        from kcli.broker.handlers.current_leader import add_leaders

        rows = [
            (TopicPartition(topic.name or broker.replica_manager.topic_name(topic.topic_id) or "", row.index), row)
            for topic in response.responses
            for row in topic.partition_responses
            if row.error_code == _NOT_LEADER
        ]
        response.node_endpoints = add_leaders(broker, rows, context.listener, NodeEndpoint)
    return response


def _partition_response(index: int, outcome: ProduceOutcome) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=outcome.error,
        base_offset=outcome.base_offset,
        log_append_time_ms=outcome.log_append_time_ms,
        log_start_offset=outcome.log_start_offset,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=index_in_batch, batch_index_error_message=text)
            for index_in_batch, text in outcome.record_errors
        ],
        error_message=outcome.message,
    )


def _close_if_refused(outcomes: list[ProduceOutcome]) -> None:
    refused = sorted({outcome.error.name for outcome in outcomes if outcome.error})
    if refused:
        raise CloseConnection(f"a Produce with acks=0 was refused: {', '.join(refused)}")
