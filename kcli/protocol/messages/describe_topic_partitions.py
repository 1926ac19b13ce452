"""DescribeTopicPartitions (75): topics with their partitions, page by page (KIP-966)."""

from kcli.protocol.wire import *


@struct
class TopicRequest:
    """A topic by name."""

    name: String = ""


@struct
class Cursor:
    """The partition at which a page starts; topics are in the order of their names."""

    topic_name: String = ""
    partition_index: Int32 = 0


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"]):
    """Ask about topics (none named: all) from `cursor` on, up to a number of partitions."""

    topics: Array[TopicRequest] = []
    response_partition_limit: Int32 = 2000
    cursor: Nullable[Cursor] = None


@struct
class DescribeTopicPartitionsResponsePartition:
    """Leader (-1: none), leader epoch and replicas of a partition, and replicas eligible as leader without an ISR."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = since(default=-1, ignorable=True)
    replica_nodes: Array[Int32] = []
    isr_nodes: Array[Int32] = []
    eligible_leader_replicas: NullableArray[Int32] = None
    last_known_elr: NullableArray[Int32] = None
    offline_replicas: Array[Int32] = since(default=[], ignorable=True)


@struct
class DescribeTopicPartitionsResponseTopic:
    """A topic with its partitions, or the error for it."""

    error_code: Int16 = 0
    name: NullableString = ""
    topic_id: Uuid = since(default_factory=zero_uuid, ignorable=True)
    is_internal: Bool = since(default=False, ignorable=True)
    partitions: Array[DescribeTopicPartitionsResponsePartition] = []
    topic_authorized_operations: Int32 = -2147483648


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse(Message):
    """A page of topics; `next_cursor` is the start of the next page, null: this is the last one."""

    throttle_time_ms: Int32 = since(default=0, ignorable=True)
    topics: Array[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: Nullable[Cursor] = None
