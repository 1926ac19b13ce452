"""ListOffsets (2): the offset for a time, or the start or end of a partition."""

from kcli.protocol.wire import *


@struct
class ListOffsetsPartition:
    """A time in ms, or -1 end, -2 start, -3 largest timestamp (v7), -4 local start (v8), -5 tiered (v9), -6 (v11)."""

    partition_index: Int32 = 0
    current_leader_epoch: Int32 = since(4, default=-1, ignorable=True)
    timestamp: Int64 = 0


@struct
class ListOffsetsTopic:
    """The partitions of one topic to look up."""

    name: String = ""
    partitions: Array[ListOffsetsPartition] = []


@message(key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest(Request["ListOffsetsResponse"]):
    """Ask leaders for offsets by time. v2 adds the isolation level, v4 the leader epoch, v10 a timeout."""

    replica_id: Int32 = 0
    isolation_level: Int8 = since(2, default=0)
    topics: Array[ListOffsetsTopic] = []
    timeout_ms: Int32 = since(10, default=0, ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    """The first offset at or after the requested time; offset -1: no such record."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = since(4, default=-1)


@struct
class ListOffsetsTopicResponse:
    """The results for one topic."""

    name: String = ""
    partitions: Array[ListOffsetsPartitionResponse] = []


@message(key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse(Message):
    """One offset and timestamp per partition."""

    throttle_time_ms: Int32 = since(2, default=0, ignorable=True)
    topics: Array[ListOffsetsTopicResponse] = []
