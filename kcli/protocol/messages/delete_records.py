"""DeleteRecords (21): move the start of partitions forward (KIP-107)."""

from kcli.protocol.wire import *


@struct
class DeleteRecordsPartition:
    """The new first offset; -1: the high watermark."""

    partition_index: Int32 = 0
    offset: Int64 = 0


@struct
class DeleteRecordsTopic:
    """The partitions of one topic."""

    name: String = ""
    partitions: Array[DeleteRecordsPartition] = []


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest(Request["DeleteRecordsResponse"]):
    """Delete the records below an offset, by partition."""

    topics: Array[DeleteRecordsTopic] = []
    timeout_ms: Int32 = 0


@struct
class DeleteRecordsPartitionResult:
    """The new low watermark; -1 with an error."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult:
    """The results for one topic."""

    name: String = ""
    partitions: Array[DeleteRecordsPartitionResult] = []


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse(Message):
    """The results by partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[DeleteRecordsTopicResult] = []
