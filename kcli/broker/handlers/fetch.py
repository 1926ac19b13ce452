"""Fetch (1), v4-18: slices of log files, returned at once or when `min_bytes` are available.

Incremental fetch sessions are served (KIP-227). The records are never decoded: a response carries ranges of log files.

In a cluster, followers fetch to the log end, and the leader learns from their fetches what they have. A consumer may
read from a follower since v11, and with a rack the leader may send it to one (KIP-392). A broker that is a cluster of
its own has no replicas elsewhere: a fetch by one is refused (6). A consumer that is over its quota (consumer_byte_rate)
gets no records, and is not read from for a while. Missing: one over request_percentage gets them, with the time to
wait, where Kafka sends none; and only the time in the handler counts towards that quota, not that of sending.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.broker.delayed import DelayedFetch
from kcli.broker.fetch_sessions import NO_SESSION, FetchContext, PartitionKey
from kcli.broker.partition import FetchParams, PartitionFetch, PartitionRead
from kcli.broker.quotas import FETCH_RATE
from kcli.broker.serving.idle_fetch import IdleFetch
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

_RACKS_SINCE_VERSION, _IDS_SINCE_VERSION, _LEADERS_SINCE_VERSION = 11, 13, 16
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
    replica_id, broker_epoch = _replica(request)
    fetch = manager.fetch_sessions.begin(
        request.session_id,
        request.session_epoch,
        _requested(request) if replica_id < 0 else _requested_by_replica(request),
        _forgotten(request),
        by_id=context.api_version >= _IDS_SINCE_VERSION,
        now_ms=context.now_ms,
    )
    if fetch.error:
        return FetchResponse(error_code=fetch.error)
    params = _params(broker, request, context, replica_id, broker_epoch)
    if replica_id >= 0:
        code = _refuses_replica(broker, context)
        if code:
            return _response(broker, request, context, fetch, [PartitionRead(code)] * len(fetch.requested))
    denied = [] if broker.authorizer.is_open or replica_id >= 0 else _denied(broker, context, fetch)
    allowed = fetch.requested
    if denied:
        allowed = [row for at, row in enumerate(fetch.requested) if at not in set(denied)]
    reads = manager.fetch(params, allowed, now_ms=context.now_ms) if allowed else []
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
        is_idle = delayed.is_unchanged and not response.error_code and delayed.params.replica_id < 0
        if is_idle and IdleFetch.is_repeatable(request, fetch, reads):
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


def _requested_by_replica(request: FetchRequest) -> list[PartitionFetch]:
    rows = [row for topic in request.topics for row in topic.partitions]
    return [
        requested._replace(log_start_offset=row.log_start_offset, high_watermark=row.high_watermark)
        for requested, row in zip(_requested(request), rows, strict=True)
    ]


def _replica(request: FetchRequest) -> tuple[int, int]:
    """Return the id and broker epoch of the fetching replica, -1 for a consumer and for an unknown epoch."""
    state = request.replica_state
    return (state.replica_id, state.replica_epoch) if state.replica_id >= 0 else (request.replica_id, -1)


def _refuses_replica(broker: Broker, context: RequestContext) -> ErrorCode:
    if not broker.authorizer.allows_cluster(context, AclOperation.CLUSTER_ACTION):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if broker.replica_manager.replicas is None else ErrorCode.NONE


def _params(
    broker: Broker, request: FetchRequest, context: RequestContext, replica_id: int, broker_epoch: int
) -> FetchParams:
    max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
    quotas = broker.replica_manager.client_quotas
    if quotas is not None and replica_id < 0:
        max_bytes = int(min(max_bytes, quotas.burst_bytes(context.principal, context.client_id)))
    is_committed_only = request.isolation_level == _READ_COMMITTED and replica_id < 0
    leader_only = replica_id >= 0 or context.api_version < _RACKS_SINCE_VERSION
    return FetchParams(
        request.max_wait_ms,
        min(request.min_bytes, max_bytes),
        max_bytes,
        is_committed_only,
        replica_id,
        broker_epoch,
        leader_only,
        request.rack_id,
    )


def _response(
    broker: Broker,
    request: FetchRequest,
    context: RequestContext,
    fetch: FetchContext,
    reads: Sequence[PartitionRead],
) -> FetchResponse:
    """Build the response in the order of the request; adjacent partitions of a topic share an entry."""
    if broker.replica_manager.client_quotas is not None and _replica(request)[0] < 0:
        wait_ms = _throttle_ms(broker, context, reads)
        if wait_ms:  # without records, and without a word about the partitions, as in Apache Kafka
            session_id = NO_SESSION if fetch.session is None else fetch.session.id
            return FetchResponse(throttle_time_ms=wait_ms, session_id=session_id)
    error, session_id, indexes = fetch.finish(reads)
    metrics, is_replica = broker.replica_manager.metrics, _replica(request)[0] >= 0
    topics: list[FetchableTopicResponse] = []
    stale: list[tuple[TopicPartition, PartitionData]] = []
    last_key: object = None
    for at in indexes:
        requested, read = fetch.requested[at], reads[at]
        key = requested.topic or requested.topic_id
        if key != last_key:
            topics.append(FetchableTopicResponse(topic=requested.topic, topic_id=requested.topic_id))
            last_key = key
        data = _error_row(requested, read) if read.error else _row(requested, read)
        if read.error in _STALE_LEADER and context.api_version >= _LEADERS_SINCE_VERSION:
            stale.append((TopicPartition(_topic_name(broker, requested), requested.partition), data))
        topics[-1].partitions.append(data)
        if is_replica:
            metrics.replication_bytes_out += read.size
        elif read.records is not None:
            metrics.of(_topic_name(broker, requested)).bytes_out += read.size
    endpoints: list[NodeEndpoint] = []
    if stale:
        from kcli.broker.handlers.current_leader import add_leaders

        endpoints = add_leaders(broker, stale, context.listener, NodeEndpoint)
    if is_replica:
        endpoints = []  # as in Apache Kafka: a replica knows the brokers from the metadata log
    return FetchResponse(error_code=error, session_id=session_id, responses=topics, node_endpoints=endpoints)


def _topic_name(broker: Broker, requested: PartitionFetch) -> str:
    return requested.topic or broker.replica_manager.topic_name(requested.topic_id) or ""


def _throttle_ms(broker: Broker, context: RequestContext, reads: Sequence[PartitionRead]) -> int:
    """Return for how long a consumer over its quota must wait, 0 if it is within. Its connection is not read then."""
    quotas = broker.replica_manager.client_quotas
    size = sum(read.size for read in reads)
    if quotas is None or not size:
        return 0
    client = FETCH_RATE, context.principal, context.client_id
    now_ms = broker.clock.now_ms()
    wait_ms = quotas.throttle_ms(*client, size, now_ms)
    if wait_ms:
        quotas.take_back(*client, size, now_ms)
        broker.server.throttle(context.connection_id, wait_ms)
    return wait_ms


def _row(requested: PartitionFetch, read: PartitionRead) -> PartitionData:
    data = PartitionData.__new__(PartitionData)
    data.__dict__ = {
        **_EMPTY_ROW,
        "partition_index": requested.partition,
        "high_watermark": read.high_watermark,
        "last_stable_offset": read.last_stable_offset,
        "log_start_offset": read.log_start_offset,
        "aborted_transactions": _aborted(read),
        "records": _NO_RECORDS if read.records is None else read.records,
    }
    if read.preferred_replica >= 0:
        data.preferred_read_replica = read.preferred_replica
    if read.diverging is not None:
        epoch, end_offset = read.diverging
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return data


def _aborted(read: PartitionRead) -> list[AbortedTransaction] | None:
    if read.aborted is None:
        return None
    return [AbortedTransaction(producer_id=row.producer_id, first_offset=row.first_offset) for row in read.aborted]


def _error_row(requested: PartitionFetch, read: PartitionRead) -> PartitionData:
    """Return a row with all offsets -1, as Kafka does."""
    return PartitionData(
        partition_index=requested.partition,
        error_code=read.error,
        high_watermark=-1,
        aborted_transactions=[] if read.error in _NOT_READ else None,
        records=_NO_RECORDS,
    )
