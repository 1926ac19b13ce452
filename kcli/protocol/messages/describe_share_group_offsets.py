"""DescribeShareGroupOffsets (90): the start offsets of share groups by partition (KIP-932)."""

from kcli.protocol.wire import *


@struct
class DescribeShareGroupOffsetsRequestTopic:
    """Partitions of a topic."""

    topic_name: String = ""
    partitions: Array[Int32] = []


@struct
class DescribeShareGroupOffsetsRequestGroup:
    """One group with its partitions; null topics: all that it has started to read."""

    group_id: String = ""
    topics: NullableArray[DescribeShareGroupOffsetsRequestTopic] = []


@message(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest(Request["DescribeShareGroupOffsetsResponse"]):
    """Ask the coordinator for the start offsets of groups."""

    groups: Array[DescribeShareGroupOffsetsRequestGroup] = []


@struct
class DescribeShareGroupOffsetsResponsePartition:
    """The first record not yet completed (-1: not started); v1 adds the lag (KIP-1226), -1: unknown."""

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
    """The offsets of a group, or the error for it."""

    group_id: String = ""
    topics: Array[DescribeShareGroupOffsetsResponseTopic] = []
    error_code: Int16 = 0
    error_message: NullableString = None


@message(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse(Message):
    """The offsets, by group."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribeShareGroupOffsetsResponseGroup] = []
