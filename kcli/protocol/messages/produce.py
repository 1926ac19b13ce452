"""Produce (0): append record batches to partitions."""

from kcli.protocol.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from kcli.protocol.wire import *


@struct
class PartitionProduceData:
    """One record batch for one partition."""

    index: Int32 = 0
    records: NullableRecords = None


@struct
class TopicProduceData:
    """The batches for one topic, named until v12, by id from v13."""

    name: String = since(until=12, default="", ignorable=True)
    topic_id: Uuid = since(13, default_factory=zero_uuid, ignorable=True)
    partition_data: Array[PartitionProduceData] = []


@message(key=0, versions="3-13", flexible="9+")
class ProduceRequest(Request["ProduceResponse"]):
    """Append batches. `acks`: 0 none, 1 leader, -1 all in-sync replicas.

    v3 batch format 2 with transactional id, v7 zstd, v12 implicit AddPartitionsToTxn (KIP-890),
    v13 topic ids instead of names.
    """

    transactional_id: NullableString = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: Array[TopicProduceData] = []


@struct
class BatchIndexAndErrorMessage:
    """An invalid record, by its index in the rejected batch."""

    batch_index: Int32 = 0
    batch_index_error_message: NullableString = None


@struct
class PartitionProduceResponse:
    """The base offset of the batch, or the error; append time -1 unless the topic uses append time."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    record_errors: Array[BatchIndexAndErrorMessage] = since(8, default=[], ignorable=True)
    error_message: NullableString = since(8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = since(10, default_factory=LeaderIdAndEpoch, tag=0)


@struct
class TopicProduceResponse:
    """The results for one topic."""

    name: String = since(until=12, default="", ignorable=True)
    topic_id: Uuid = since(13, default_factory=zero_uuid, ignorable=True)
    partition_responses: Array[PartitionProduceResponse] = []


@message(key=0, versions="3-13", flexible="9+")
class ProduceResponse(Message):
    """The results by partition. v5 adds the log start, v8 the invalid records (KIP-467), v10 new leaders (KIP-951)."""

    responses: Array[TopicProduceResponse] = []
    throttle_time_ms: Int32 = 0
    node_endpoints: Array[NodeEndpoint] = since(10, default=[], tag=0)
