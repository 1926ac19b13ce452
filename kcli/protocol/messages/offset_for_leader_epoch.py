"""OffsetForLeaderEpoch (23): the end of a leader epoch, to detect a truncated log (KIP-101, KIP-320)."""

from kcli.protocol.wire import *


@struct
class OffsetForLeaderPartition:
    """The requested epoch, and the known current leader epoch."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


@struct
class OffsetForLeaderTopic:
    """The partitions of one topic."""

    topic: String = ""
    partitions: Array[OffsetForLeaderPartition] = []


@message(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"]):
    """Ask leaders for the end of an epoch. `replica_id` -2: a consumer (v3)."""

    replica_id: Int32 = since(3, default=-2, ignorable=True)
    topics: Array[OffsetForLeaderTopic] = []


@struct
class EpochEndOffset:
    """The largest epoch not above the requested one, and the offset after its last record; -1: unknown."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult:
    """The results for one topic."""

    topic: String = ""
    partitions: Array[EpochEndOffset] = []


@message(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse(Message):
    """The end of the requested epoch by partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[OffsetForLeaderTopicResult] = []
