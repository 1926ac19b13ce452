"""OffsetDelete (47): delete offsets of a group (KIP-496). Never flexible."""

from kcli.protocol.wire import *


@struct
class OffsetDeleteRequestPartition:
    """One partition."""

    partition_index: Int32 = 0


@struct
class OffsetDeleteRequestTopic:
    """The partitions of one topic."""

    name: String = ""
    partitions: Array[OffsetDeleteRequestPartition] = []


@message(key=47, versions="0", flexible=None)
class OffsetDeleteRequest(Request["OffsetDeleteResponse"]):
    """Delete committed offsets of topics that no member subscribes to."""

    group_id: String = ""
    topics: Array[OffsetDeleteRequestTopic] = []


@struct
class OffsetDeleteResponsePartition:
    """The result for one partition; error 86: the group is subscribed to the topic."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic:
    """The results for one topic."""

    name: String = ""
    partitions: Array[OffsetDeleteResponsePartition] = []


@message(key=47, versions="0", flexible=None)
class OffsetDeleteResponse(Message):
    """The results by partition, or a top-level error for the group."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: Array[OffsetDeleteResponseTopic] = []
