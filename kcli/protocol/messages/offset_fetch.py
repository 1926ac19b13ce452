"""OffsetFetch (9): the committed offsets of groups."""

from kcli.protocol.wire import *


@struct
class OffsetFetchRequestTopic:
    """The partitions of one topic, up to v7."""

    name: String = ""
    partition_indexes: Array[Int32] = []


@struct
class OffsetFetchRequestTopics:
    """The partitions of one topic, named until v9, by id from v10."""

    name: String = since(until=9, default="", ignorable=True)
    topic_id: Uuid = since(10, default_factory=zero_uuid, ignorable=True)
    partition_indexes: Array[Int32] = []


@struct
class OffsetFetchRequestGroup:
    """One group with its partitions; null topics: all with a committed offset."""

    group_id: String = ""
    member_id: NullableString = since(9, default=None, ignorable=True)
    member_epoch: Int32 = since(9, default=-1, ignorable=True)
    topics: NullableArray[OffsetFetchRequestTopics] = []


@message(key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest(Request["OffsetFetchResponse"]):
    """Ask for committed offsets.

    v2: null topics mean all; v7 adds require_stable, v8 many groups, v9 the member's epoch (KIP-848), v10 topic ids.
    """

    group_id: String = since(until=7, default="")
    topics: NullableArray[OffsetFetchRequestTopic] = since(until=7, default=[], nullable_from=2)
    groups: Array[OffsetFetchRequestGroup] = since(8, default=[])
    require_stable: Bool = since(7, default=False)


@struct
class OffsetFetchResponsePartition:
    """A committed offset, up to v7; -1: none."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(5, default=-1, ignorable=True)
    metadata: NullableString = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopic:
    """The offsets in one topic, up to v7."""

    name: String = ""
    partitions: Array[OffsetFetchResponsePartition] = []


@struct
class OffsetFetchResponsePartitions:
    """A committed offset with its leader epoch and metadata string; -1: none."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: NullableString = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopics:
    """The offsets in one topic, named until v9, by id from v10."""

    name: String = since(until=9, default="", ignorable=True)
    topic_id: Uuid = since(10, default_factory=zero_uuid, ignorable=True)
    partitions: Array[OffsetFetchResponsePartitions] = []


@struct
class OffsetFetchResponseGroup:
    """The offsets of one group, or the error for it."""

    group_id: String = ""
    topics: Array[OffsetFetchResponseTopics] = []
    error_code: Int16 = 0


@message(key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse(Message):
    """The committed offsets; v8: by group."""

    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    topics: Array[OffsetFetchResponseTopic] = since(until=7, default=[])
    error_code: Int16 = since(2, until=7, default=0, ignorable=True)
    groups: Array[OffsetFetchResponseGroup] = since(8, default=[])
