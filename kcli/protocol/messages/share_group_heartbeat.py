"""ShareGroupHeartbeat (76): join, stay in and leave a share group (KIP-932)."""

from kcli.protocol.wire import (
    Array,
    Int16,
    Int32,
    Message,
    Nullable,
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


@message(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"]):
    """Report changes; null means unchanged. `member_epoch`: 0 join, -1 leave. The member chooses its id."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: NullableString = None
    subscribed_topic_names: NullableArray[String] = None


@struct
class TopicPartitions:
    """Partitions of a topic, by its id."""

    topic_id: Uuid = since(default_factory=zero_uuid)
    partitions: Array[Int32] = []


@struct
class Assignment:
    """The partitions that the member may fetch from; other members may have them, too."""

    topic_partitions: Array[TopicPartitions] = []


@message(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse(Message):
    """The member's epoch, the heartbeat interval, and the assignment if it changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Nullable[Assignment] = None
