"""OffsetCommit (8): store the offsets of a group."""

from kcli.protocol.wire import *


@struct
class OffsetCommitRequestPartition:
    """The next offset to read, the leader epoch of the record before it (-1 unknown), and its metadata string."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(6, default=-1, ignorable=True)
    committed_metadata: NullableString = ""


@struct
class OffsetCommitRequestTopic:
    """The offsets in one topic, named until v9, by id from v10."""

    name: String = since(until=9, default="", ignorable=True)
    topic_id: Uuid = since(10, default_factory=zero_uuid, ignorable=True)
    partitions: Array[OffsetCommitRequestPartition] = []


@message(key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest(Request["OffsetCommitResponse"]):
    """Commit offsets, as a member or (generation -1, no member id) as an administrator.

    v5 drops the retention time, v6 leader epochs, v7 static members, v9 member epochs (KIP-848), v10 topic ids.
    """

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: NullableString = since(7, default=None)
    retention_time_ms: Int64 = since(until=4, default=-1, ignorable=True)
    topics: Array[OffsetCommitRequestTopic] = []


@struct
class OffsetCommitResponsePartition:
    """The result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic:
    """The results for one topic."""

    name: String = since(until=9, default="", ignorable=True)
    topic_id: Uuid = since(10, default_factory=zero_uuid, ignorable=True)
    partitions: Array[OffsetCommitResponsePartition] = []


@message(key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse(Message):
    """The results by partition."""

    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    topics: Array[OffsetCommitResponseTopic] = []
