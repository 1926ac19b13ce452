"""DescribeShareGroupOffsets (90): where share groups are in each partition (KIP-932)."""

from kcli.protocol.wire import (
    Array,
    Int16,
    Int32,
    Int64,
    Message,
    NullableArray,
    NullableString,
    Request,
    String,
    Uuid,
    message,
    since,
    struct,
    zero_uuid,
)


@struct
class DescribeShareGroupOffsetsRequestTopic:
    """Some partitions of a topic."""

    topic_name: String = ""
    partitions: Array[Int32] = []


@struct
class DescribeShareGroupOffsetsRequestGroup:
    """What to tell of one group; null topics are all it has begun to read."""

    group_id: String = ""
    topics: NullableArray[DescribeShareGroupOffsetsRequestTopic] = []


@message(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest(Request["DescribeShareGroupOffsetsResponse"]):
    """Ask the coordinator for the start offsets of groups."""

    groups: Array[DescribeShareGroupOffsetsRequestGroup] = []


@struct
class DescribeShareGroupOffsetsResponsePartition:
    """The first record that is not done with (-1: not begun); v1 the lag (KIP-1226), -1: not known."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Int64 = since(1, default=-1, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = None


@struct
class DescribeShareGroupOffsetsResponseTopic:
    """The partitions of a topic."""

    topic_name: String = ""
    topic_id: Uuid = since(default_factory=zero_uuid)
    partitions: Array[DescribeShareGroupOffsetsResponsePartition] = []


@struct
class DescribeShareGroupOffsetsResponseGroup:
    """Where a group is, or why that is not told."""

    group_id: String = ""
    topics: Array[DescribeShareGroupOffsetsResponseTopic] = []
    error_code: Int16 = 0
    error_message: NullableString = None


@message(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse(Message):
    """The offsets, by group."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribeShareGroupOffsetsResponseGroup] = []
