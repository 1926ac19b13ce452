"""ListPartitionReassignments (46): partitions that are being moved between brokers (KIP-455)."""

from kcli.protocol.wire import *


@struct
class ListPartitionReassignmentsTopics:
    """Partitions of a topic."""

    name: String = ""
    partition_indexes: Array[Int32] = []


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"]):
    """Ask about these partitions; null: all."""

    timeout_ms: Int32 = 60000
    topics: NullableArray[ListPartitionReassignmentsTopics] = None


@struct
class OngoingPartitionReassignment:
    """The replicas of a partition that is being moved, with those being added and removed."""

    partition_index: Int32 = 0
    replicas: Array[Int32] = []
    adding_replicas: Array[Int32] = []
    removing_replicas: Array[Int32] = []


@struct
class OngoingTopicReassignment:
    """The partitions of a topic that are being moved."""

    name: String = ""
    partitions: Array[OngoingPartitionReassignment] = []


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse(Message):
    """The partitions being moved, by topic."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    topics: Array[OngoingTopicReassignment] = []
