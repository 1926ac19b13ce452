"""TxnOffsetCommit (28), v0-5: store offsets of a group that become valid with the commit of a transaction (KIP-98).

Unknown topics and partitions (3) and metadata that is too long (12) are refused one by one; the other checks cover all
other partitions together. The transaction's coordinator is asked first whether the group's partition of
`__consumer_offsets` takes part in the transaction; with v5 the coordinator adds it (KIP-890). Then the group checks the
member, if one is named (v3, KIP-447). Unknown partitions come first in the response, as in Apache Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator_log import coordinator_error
from kcli.broker.group.offset_store import NewOffset
from kcli.broker.serving.pending import Pending, completed
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.broker.broker import Broker
    from kcli.broker.log.producer_checks import Verification
    from kcli.broker.transaction.verification import Verdict

_ADDS_SINCE_VERSION = 5
_ABORTABLE_SINCE_VERSION = 4
_NO_SEQUENCE = -1
# Producers before 2.0 fail at 14; 15 makes them look up the coordinator again, as in Apache Kafka.
_LOADING_SINCE_VERSION = 2

_Row = tuple[TopicPartition, ErrorCode]


def handle(
    broker: Broker, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse | Pending[TxnOffsetCommitResponse]:
    """Return a result per partition."""
    allows, version = broker.authorizer.allows, context.api_version
    if not allows(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return refused(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, version)
    if not allows(context, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, version)
    rows: list[_Row] = []
    offsets: list[NewOffset] = []
    for topic in request.topics:
        existing = broker.cluster.topics.get(topic.name)
        is_allowed = allows(context, AclOperation.READ, ResourceType.TOPIC, topic.name)
        for row in topic.partitions:
            tp = TopicPartition(topic.name, row.partition_index)
            if not is_allowed:
                rows.append((tp, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif existing is None or tp.partition not in existing.partitions:
                rows.append((tp, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            else:
                offsets.append(NewOffset(tp, row.committed_offset, row.committed_leader_epoch, row.committed_metadata))
    if not offsets:
        return _response(rows, version)
    partitions = [offset.partition for offset in offsets]
    errors = _commit(broker, request, offsets, context)
    return errors.then(lambda codes: _response([*rows, *zip(partitions, codes, strict=True)], version))


def refused(request: TxnOffsetCommitRequest, error: ErrorCode, version: int) -> TxnOffsetCommitResponse:
    """Return the answer with an error for the whole request, which is in each row."""
    return _response(
        [
            (TopicPartition(topic.name, row.partition_index), error)
            for topic in request.topics
            for row in topic.partitions
        ],
        version,
    )


def _commit(
    broker: Broker, request: TxnOffsetCommitRequest, offsets: list[NewOffset], context: RequestContext
) -> Pending[list[ErrorCode]]:
    """Store offsets of partitions that exist, after the coordinator of the transaction has answered."""
    if request.group_id == "":
        return completed([ErrorCode.INVALID_GROUP_ID] * len(offsets))
    tp = broker.offsets.partition_for(request.group_id)

    def errors(verdicts: dict[TopicPartition, Verdict]) -> list[ErrorCode]:
        error, verification = verdicts[tp]
        return [_shown(error)] * len(offsets) if error else _store(broker, request, offsets, context, verification)

    return broker.verifier.verify(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        {tp: _NO_SEQUENCE},
        add=context.api_version >= _ADDS_SINCE_VERSION,
        knows_abortable=context.api_version >= _ABORTABLE_SINCE_VERSION,
    ).then(errors)


def _store(
    broker: Broker,
    request: TxnOffsetCommitRequest,
    offsets: list[NewOffset],
    context: RequestContext,
    verification: Verification | None,
) -> list[ErrorCode]:
    """Store offsets in a verified transaction, if the group accepts the member."""
    group_id = request.group_id
    error = broker.group_partitions.error_of(group_id)  # the group may have moved meanwhile
    error = error or broker.groups.check_commit(
        group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        api_version=context.api_version,
        is_transactional=True,
        partitions=[offset.partition for offset in offsets],
    )
    if error:
        return [error] * len(offsets)
    return broker.offsets.commit_pending(
        group_id, request.producer_id, request.producer_epoch, offsets, context.now_wall_ms, verification
    )


def _shown(error: ErrorCode) -> ErrorCode:
    """Return the error of a verification for the client: 14 for 13, which older producers do not expect here."""
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if error is ErrorCode.NETWORK_EXCEPTION else coordinator_error(error)


def _response(rows: Iterable[_Row], version: int) -> TxnOffsetCommitResponse:
    topics: dict[str, TxnOffsetCommitResponseTopic] = {}
    for tp, error in rows:
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_SINCE_VERSION:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        topic = topics.setdefault(tp.topic, TxnOffsetCommitResponseTopic(name=tp.topic, partitions=[]))
        topic.partitions.append(TxnOffsetCommitResponsePartition(partition_index=tp.partition, error_code=error))
    return TxnOffsetCommitResponse(topics=list(topics.values()))
