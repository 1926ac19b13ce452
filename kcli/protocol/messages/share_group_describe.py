"""ShareGroupDescribe (77): the state and members of share groups (KIP-932)."""

from kcli.protocol.messages.consumer_group_describe import Assignment
from kcli.protocol.wire import *


@message(key=77, versions="1", flexible="0+")
class ShareGroupDescribeRequest(Request["ShareGroupDescribeResponse"]):
    """Ask the coordinator for groups."""

    group_ids: Array[String] = []
    include_authorized_operations: Bool = False


@struct
class Member:
    """A member with its partitions."""

    member_id: String = ""
    rack_id: NullableString = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = []
    assignment: Assignment = since(default_factory=Assignment)


@struct
class DescribedGroup:
    """A group by its state, epochs and members, or the error for it."""

    error_code: Int16 = 0
    error_message: NullableString = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: Array[Member] = []
    authorized_operations: Int32 = -2147483648


@message(key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse(Message):
    """The groups."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup] = []
