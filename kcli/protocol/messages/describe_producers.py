"""DescribeProducers (61): the producers known to a partition's leader, with their open transactions (KIP-664)."""

from kcli.protocol.wire import *


@struct
class TopicRequest:
    """Partitions of a topic; the broker must lead them."""

    name: String = ""
    partition_indexes: Array[Int32] = []


@message(key=61, versions="0", flexible="0+")
class DescribeProducersRequest(Request["DescribeProducersResponse"]):
    """Ask the leader of partitions for their producers with a producer id."""

    topics: Array[TopicRequest] = []


@struct
class ProducerState:
    """One producer. `last_timestamp` in ms is that of its last batch; `current_txn_start_offset` -1: none is open."""

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


@struct
class PartitionResponse:
    """The producers of a partition, or the error for it."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    active_producers: Array[ProducerState] = []


@struct
class TopicResponse:
    """The partitions of a topic."""

    name: String = ""
    partitions: Array[PartitionResponse] = []


@message(key=61, versions="0", flexible="0+")
class DescribeProducersResponse(Message):
    """Producers by partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[TopicResponse] = []
