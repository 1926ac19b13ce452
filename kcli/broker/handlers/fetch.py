"""Fetch (1), v4-18: slices of log files, returned at once or when `min_bytes` are available.

Incremental fetch sessions are served (KIP-227). The records are never decoded: a response carries ranges of log files.

Deliberately missing: followers, so there is no preferred read replica, and a fetch by a replica is refused (6).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.broker.delayed import DelayedFetch, FetchParams
from kcli.broker.fetch_sessions import FetchContext, PartitionKey
from kcli.broker.idle_fetch import IdleFetch
from kcli.broker.partition import PartitionFetch, PartitionRead
from kcli.broker.pending import Pending
from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

_IDS_SINCE_VERSION, _LEADERS_SINCE_VERSION = 13, 16
_READ_COMMITTED = 1
_NO_RECORDS = b""
# A row is a shallow copy of this one, because that takes a third of the time. Its nested parts are replaced, never
# changed in place.
_EMPTY_ROW = vars(PartitionData())
# The errors with which Apache Kafka returns an empty list of aborted transactions, not null.
_NOT_READ = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
_STALE_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(broker: Broker, request: FetchRequest, context: RequestContext) -> object:
    """Return the response, or a `Pending` of it while the request waits for records."""
    manager = broker.replica_manager
    fetch = manager.fetch_sessions.begin(
        request.session_id,
        request.session_epoch,
        _requested(request),
        _forgotten(request),
        by_id=context.api_version >= _IDS_SINCE_VERSION,
        now_ms=context.now_ms,
    )
    if fetch.error:
        return FetchResponse(error_code=fetch.error)
    if _is_by_replica(request):
        may_replicate = broker.authorizer.allows_cluster(context, AclOperation.CLUSTER_ACTION)
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if may_replicate else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return _response(broker, request, context, fetch, [PartitionRead(code)] * len(fetch.requested))
    denied = [] if broker.authorizer.is_open else _denied(broker, context, fetch)
    allowed = fetch.requested
    if denied:
        allowed = [one for at, one in enumerate(fetch.requested) if at not in set(denied)]
    reads = manager.fetch(_params(broker, request), allowed, now_ms=context.now_ms) if allowed else []
    if not isinstance(reads, DelayedFetch):
        return _response(broker, request, context, fetch, _with_denied(reads, denied))
    return _wait(broker, request, context, fetch, reads, denied)


def _denied(broker: Broker, context: RequestContext, fetch: FetchContext) -> list[int]:
    """Return the indexes of the requested partitions that the client must not read."""
    authorizer, manager = broker.authorizer, broker.replica_manager
    indexes = []
    for at, requested in enumerate(fetch.requested):
        name = requested.topic or manager.topic_name(requested.topic_id)
        if name and not authorizer.allows(context, AclOperation.READ, ResourceType.TOPIC, name):
            indexes.append(at)
    return indexes


def _with_denied(reads: Sequence[PartitionRead], denied: list[int]) -> Sequence[PartitionRead]:
    """Return the reads of all requested partitions: `denied` are the indexes that were not read."""
    if not denied:
        return reads
    merged = list(reads)
    for at in denied:
        merged.insert(at, PartitionRead(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return merged


def _wait(
    broker: Broker,
    request: FetchRequest,
    context: RequestContext,
    fetch: FetchContext,
    delayed: DelayedFetch,
    denied: list[int],
) -> Pending[FetchResponse]:
    pending: Pending[FetchResponse] = Pending()

    def respond(allowed_reads: Sequence[PartitionRead]) -> None:
        reads = _with_denied(allowed_reads, denied)
        response = _response(broker, request, context, fetch, reads)
        if delayed.is_unchanged and not response.error_code and IdleFetch.is_repeatable(request, fetch, reads):
            pending.repeatable = IdleFetch(
                broker.replica_manager,
                broker.authorizer,
                delayed,
                request,
                context,
                fetch,
                functools.partial(_response, broker),
            )
        pending.complete(response)

    delayed.outcome.on_done(respond)
    return pending


def _requested(request: FetchRequest) -> list[PartitionFetch]:
    return [
        PartitionFetch(
            topic.topic,
            topic.topic_id,
            partition.partition,
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
            partition.last_fetched_epoch,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]


def _forgotten(request: FetchRequest) -> list[PartitionKey]:
    return [(topic.topic or topic.topic_id, at) for topic in request.forgotten_topics_data for at in topic.partitions]


def _is_by_replica(request: FetchRequest) -> bool:
    return request.replica_id >= 0 or request.replica_state.replica_id >= 0


def _params(broker: Broker, request: FetchRequest) -> FetchParams:
    max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
    return FetchParams(
        request.max_wait_ms, min(request.min_bytes, max_bytes), max_bytes, request.isolation_level == _READ_COMMITTED
    )


def _response(
    broker: Broker,
    request: FetchRequest,
    context: RequestContext,
    fetch: FetchContext,
    reads: Sequence[PartitionRead],
) -> FetchResponse:
    """Build the response in the order of the request; adjacent partitions of a topic share an entry."""
    error, session_id, indexes = fetch.finish(reads)
    topics: list[FetchableTopicResponse] = []
    last_key: object = None
    for at in indexes:
        requested, read = fetch.requested[at], reads[at]
        key = requested.topic or requested.topic_id
        if key != last_key:
            topics.append(FetchableTopicResponse(topic=requested.topic, topic_id=requested.topic_id))
            last_key = key
        data = _error_row(requested, read) if read.error else _row(requested, read, request.isolation_level)
        if read.error in _STALE_LEADER and context.api_version >= _LEADERS_SINCE_VERSION:
            data.current_leader = _leader(broker, requested)
        topics[-1].partitions.append(data)
    return FetchResponse(error_code=error, session_id=session_id, responses=topics)


def _row(requested: PartitionFetch, read: PartitionRead, isolation_level: int) -> PartitionData:
    data = PartitionData.__new__(PartitionData)
    data.__dict__ = {
        **_EMPTY_ROW,
        "partition_index": requested.partition,
        "high_watermark": read.high_watermark,
        "last_stable_offset": read.last_stable_offset,
        "log_start_offset": read.log_start_offset,
        "aborted_transactions": _aborted(read) if isolation_level == _READ_COMMITTED else None,
        "records": _NO_RECORDS if read.records is None else read.records,
    }
    if read.diverging is not None:
        epoch, end_offset = read.diverging
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return data


def _aborted(read: PartitionRead) -> list[AbortedTransaction]:
    return [AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in read.aborted]


def _error_row(requested: PartitionFetch, read: PartitionRead) -> PartitionData:
    """Return a row with all offsets -1, as Kafka does."""
    return PartitionData(
        partition_index=requested.partition,
        error_code=read.error,
        high_watermark=-1,
        aborted_transactions=[] if read.error in _NOT_READ else None,
        records=_NO_RECORDS,
    )


def _leader(broker: Broker, requested: PartitionFetch) -> LeaderIdAndEpoch:
    """Return the current leader (KIP-951): with one node this broker, in the epoch that the client does not know."""
    manager = broker.replica_manager
    name = requested.topic or manager.topic_name(requested.topic_id)
    partition = manager.partition(TopicPartition(name, requested.partition)) if name else None
    if partition is None:
        return LeaderIdAndEpoch()
    return LeaderIdAndEpoch(leader_id=broker.config.node_id, leader_epoch=partition.leader_epoch)
