"""AlterPartitionReassignments (45): move partitions to other replicas, or cancel that (KIP-455)."""

from kcli.protocol.wire import *


@struct
class ReassignablePartition:
    """The new replicas of a partition, in order of preference; null cancels a reassignment."""

    partition_index: Int32 = 0
    replicas: NullableArray[Int32] = None


@struct
class ReassignableTopic:
    """Partitions of a topic."""

    name: String = ""
    partitions: Array[ReassignablePartition] = []


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Request["AlterPartitionReassignmentsResponse"]):
    """Ask the controller to begin or to cancel reassignments. v1 can forbid a changed replication factor."""

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = since(1, default=True)
    topics: Array[ReassignableTopic] = []


@struct
class ReassignablePartitionResponse:
    """The outcome for a partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""


@struct
class ReassignableTopicResponse:
    """The outcomes for the partitions of a topic."""

    name: String = ""
    partitions: Array[ReassignablePartitionResponse] = []


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Message):
    """Outcomes by partition."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = since(1, default=True, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = ""
    responses: Array[ReassignableTopicResponse] = []
