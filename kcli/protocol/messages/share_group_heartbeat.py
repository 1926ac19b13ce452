"""ShareGroupHeartbeat (76): join, stay in and leave a share group (KIP-932)."""

from kcli.protocol.messages.consumer_group_heartbeat import Assignment
from kcli.protocol.wire import *


@message(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"]):
    """Report changes; null means unchanged. `member_epoch`: 0 join, -1 leave. The member chooses its id."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: NullableString = None
    subscribed_topic_names: NullableArray[String] = None


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
