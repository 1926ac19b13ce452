"""ElectLeaders (43): elect the preferred replica, or any live one, as leader of partitions (KIP-460)."""

from kcli.protocol.wire import *


@struct
class TopicPartitions:
    """Partitions of a topic."""

    topic: String = ""
    partitions: Array[Int32] = []


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest(Request["ElectLeadersResponse"]):
    """Ask the controller to elect leaders; null means all partitions.

    `election_type`: 0 the preferred replica, 1 any live replica (unclean). `timeout_ms` bounds the wait.
    """

    election_type: Int8 = since(1, default=0)
    topic_partitions: NullableArray[TopicPartitions] = []
    timeout_ms: Int32 = 60000


@struct
class PartitionResult:
    """The outcome for a partition; 84 means that the desired leader already leads."""

    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""


@struct
class ReplicaElectionResult:
    """The outcomes for the partitions of a topic."""

    topic: String = ""
    partition_result: Array[PartitionResult] = []


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse(Message):
    """Outcomes by partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(1, default=0)
    replica_election_results: Array[ReplicaElectionResult] = []
