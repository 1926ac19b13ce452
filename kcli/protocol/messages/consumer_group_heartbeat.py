"""ConsumerGroupHeartbeat (68): join, stay in and leave a group with server-side assignment (KIP-848)."""

from kcli.protocol.wire import *


@struct
class TopicPartitions:
    """Partitions of a topic, by its id."""

    topic_id: Uuid = since(default_factory=zero_uuid)
    partitions: Array[Int32] = []


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"]):
    """Report changes; null (timeout: -1) means unchanged. `member_epoch`: 0 join, -1 leave, -2 leave as static member.

    v1 subscribes by regular expression and lets the client choose its member id.
    """

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: NullableArray[String] = None
    subscribed_topic_regex: NullableString = since(1, default=None)
    server_assignor: NullableString = None
    topic_partitions: NullableArray[TopicPartitions] = None


@struct
class Assignment:
    """The partitions that the member may read now; in a share group, other members may have them, too."""

    topic_partitions: Array[TopicPartitions] = []


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(Message):
    """The member's epoch, the heartbeat interval, and the assignment if it changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Nullable[Assignment] = None
