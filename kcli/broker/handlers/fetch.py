"""Fetch v4-18: slices of the log, now or when there are enough bytes, with incremental sessions (KIP-227).

Records are never read here: a response carries runs of the log's files. There are no followers, so nobody is sent to
another replica, and a fetch by a replica is refused. There are no transactions, so none are aborted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.broker.delayed import FetchParams
from kcli.broker.fetch_sessions import FetchContext, PartitionKey
from kcli.broker.partition import FetchWanted, PartitionRead
from kcli.broker.pending import Pending
from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

_IDS_SINCE_VERSION, _LEADERS_SINCE_VERSION = 13, 16
_READ_COMMITTED = 1
_NO_RECORDS = b""
# A row is made by copying this one, parts included: they are replaced, never changed. It takes a third of the time.
_EMPTY_ROW = vars(PartitionData())
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_STALE_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(broker: Broker, request: FetchRequest, context: RequestContext) -> object:
    """The response, or a `Pending` of it."""
    manager = broker.replica_manager
    fetch = manager.fetch_sessions.begin(
        request.session_id,
        request.session_epoch,
        _wanted(request),
        _forgotten(request),
        by_id=context.api_version >= _IDS_SINCE_VERSION,
        now_ms=context.now_ms,
    )
    if fetch.error:
        return FetchResponse(error_code=fetch.error)
    if _is_by_replica(request):
        return _answer(
            broker, request, context, fetch, [PartitionRead(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * len(fetch.wanted)
        )
    reads = manager.fetch(_params(broker, request), fetch.wanted, now_ms=context.now_ms)
    if reads.is_done:
        return _answer(broker, request, context, fetch, reads.value)
    answer: Pending[FetchResponse] = Pending()
    reads.on_done(lambda found: answer.complete(_answer(broker, request, context, fetch, found)))
    return answer


def _wanted(request: FetchRequest) -> list[FetchWanted]:
    return [
        FetchWanted(
            topic.topic,
            topic.topic_id,
            one.partition,
            one.fetch_offset,
            one.partition_max_bytes,
            one.current_leader_epoch,
            one.last_fetched_epoch,
        )
        for topic in request.topics
        for one in topic.partitions
    ]


def _forgotten(request: FetchRequest) -> list[PartitionKey]:
    return [(topic.topic or topic.topic_id, at) for topic in request.forgotten_topics_data for at in topic.partitions]


def _is_by_replica(request: FetchRequest) -> bool:
    return request.replica_id >= 0 or request.replica_state.replica_id >= 0


def _params(broker: Broker, request: FetchRequest) -> FetchParams:
    most = min(request.max_bytes, broker.config.fetch_max_bytes)
    return FetchParams(
        request.max_wait_ms, min(request.min_bytes, most), most, request.isolation_level == _READ_COMMITTED
    )


def _answer(
    broker: Broker,
    request: FetchRequest,
    context: RequestContext,
    fetch: FetchContext,
    reads: Sequence[PartitionRead],
) -> FetchResponse:
    """Neighbouring partitions of a topic share an entry; the order stays that of the request."""
    error, session_id, told = fetch.finish(reads)
    topics: list[FetchableTopicResponse] = []
    last: object = None
    for at in told:
        wanted, read = fetch.wanted[at], reads[at]
        key = wanted.topic or wanted.topic_id
        if key != last:
            topics.append(FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id))
            last = key
        data = _refusal(wanted, read) if read.error else _found(wanted, read, request.isolation_level)
        if read.error in _STALE_LEADER and context.api_version >= _LEADERS_SINCE_VERSION:
            data.current_leader = _leader(broker, wanted)
        topics[-1].partitions.append(data)
    return FetchResponse(error_code=error, session_id=session_id, responses=topics)


def _found(wanted: FetchWanted, read: PartitionRead, isolation_level: int) -> PartitionData:
    data = PartitionData.__new__(PartitionData)
    data.__dict__ = {
        **_EMPTY_ROW,
        "partition_index": wanted.partition,
        "high_watermark": read.high_watermark,
        "last_stable_offset": read.last_stable_offset,
        "log_start_offset": read.log_start_offset,
        "aborted_transactions": [] if isolation_level == _READ_COMMITTED else None,
        "records": _NO_RECORDS if read.records is None else read.records,
    }
    if read.diverging is not None:
        epoch, end_offset = read.diverging
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return data


def _refusal(wanted: FetchWanted, read: PartitionRead) -> PartitionData:
    """All offsets -1, as Kafka has it."""
    return PartitionData(
        partition_index=wanted.partition,
        error_code=read.error,
        high_watermark=-1,
        aborted_transactions=[] if read.error in _UNKNOWN else None,
        records=_NO_RECORDS,
    )


def _leader(broker: Broker, wanted: FetchWanted) -> LeaderIdAndEpoch:
    """Whom to ask instead (KIP-951): with one node, us, under the epoch that the client did not know yet."""
    partition = broker.replica_manager.partition_wanted(wanted)
    if partition is None:
        return LeaderIdAndEpoch()
    return LeaderIdAndEpoch(leader_id=broker.config.node_id, leader_epoch=partition.leader_epoch)
