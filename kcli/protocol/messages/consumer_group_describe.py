"""ConsumerGroupDescribe (69): the state and members of groups with server-side assignment (KIP-848)."""

from kcli.protocol.wire import *


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest(Request["ConsumerGroupDescribeResponse"]):
    """Ask the coordinator for groups."""

    group_ids: Array[String] = []
    include_authorized_operations: Bool = False


@struct
class TopicPartitions:
    """Partitions of a topic, by id and name."""

    topic_id: Uuid = since(default_factory=zero_uuid)
    topic_name: String = ""
    partitions: Array[Int32] = []


@struct
class Assignment:
    """The partitions of a member; in a share group, other members may share them."""

    topic_partitions: Array[TopicPartitions] = []


@struct
class Member:
    """A member with its current and its target assignment. v1 `member_type`: 0 classic, 1 consumer, -1 unknown."""

    member_id: String = ""
    instance_id: NullableString = None
    rack_id: NullableString = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = []
    subscribed_topic_regex: NullableString = None
    assignment: Assignment = since(default_factory=Assignment)
    target_assignment: Assignment = since(default_factory=Assignment)
    member_type: Int8 = since(1, default=-1, ignorable=True)


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


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse(Message):
    """The groups."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup] = []
