"""Metadata (3): the brokers of a cluster and the leaders of its partitions."""

from kcli.protocol.wire import *


@struct
class MetadataRequestTopic:
    """A topic by name, or from v12 on by id with a null name."""

    topic_id: Uuid = since(10, default_factory=zero_uuid, ignorable=True)
    name: NullableString = since(default="", nullable_from=10)


@message(key=3, versions="0-13", flexible="9+")
class MetadataRequest(Request["MetadataResponse"]):
    """Ask about topics: null means all, an empty list none (v0: empty means all).

    v4 can forbid the creation of unknown topics; v8 adds authorized operations, v10 topic ids, v12 lookup by id.
    """

    topics: NullableArray[MetadataRequestTopic] = since(default=[], nullable_from=1)
    allow_auto_topic_creation: Bool = since(4, default=True)
    include_cluster_authorized_operations: Bool = since(8, until=10, default=False)
    include_topic_authorized_operations: Bool = since(8, default=False)


@struct
class MetadataResponseBroker:
    """The address of a broker."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = since(1, default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    """Leader (-1: none), leader epoch, replicas and in-sync replicas of a partition."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = since(7, default=-1, ignorable=True)
    replica_nodes: Array[Int32] = []
    isr_nodes: Array[Int32] = []
    offline_replicas: Array[Int32] = since(5, default=[], ignorable=True)


@struct
class MetadataResponseTopic:
    """A topic with its partitions, or the error for it."""

    error_code: Int16 = 0
    name: NullableString = since(default="", nullable_from=12)
    topic_id: Uuid = since(10, default_factory=zero_uuid, ignorable=True)
    is_internal: Bool = since(1, default=False, ignorable=True)
    partitions: Array[MetadataResponsePartition] = []
    topic_authorized_operations: Int32 = since(8, default=-2147483648)


@message(key=3, versions="0-13", flexible="9+")
class MetadataResponse(Message):
    """Brokers, controller and topics. v5 adds offline replicas, v7 leader epochs, v10 topic ids, v13 an error code."""

    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    brokers: Array[MetadataResponseBroker] = []
    cluster_id: NullableString = since(2, default=None, ignorable=True)
    controller_id: Int32 = since(1, default=-1, ignorable=True)
    topics: Array[MetadataResponseTopic] = []
    cluster_authorized_operations: Int32 = since(8, until=10, default=-2147483648)
    error_code: Int16 = since(13, default=0, ignorable=True)
