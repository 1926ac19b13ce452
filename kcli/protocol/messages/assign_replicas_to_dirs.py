"""AssignReplicasToDirs (73): tell the controller in which log directory replicas are (KIP-858)."""

from kcli.protocol.wire import *


@struct
class PartitionRequest:
    """A partition."""

    partition_index: Int32 = 0


@struct
class TopicRequest:
    """Partitions of a topic."""

    topic_id: Uuid = since(default_factory=zero_uuid)
    partitions: Array[PartitionRequest] = []


@struct
class DirectoryRequest:
    """Partitions by log directory."""

    id: Uuid = since(default_factory=zero_uuid)
    topics: Array[TopicRequest] = []


@message(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsRequest(Request["AssignReplicasToDirsResponse"]):
    """The directories of replicas of a broker."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    directories: Array[DirectoryRequest] = []


@struct
class PartitionResult:
    """The outcome for a partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class TopicResult:
    """The outcomes for a topic."""

    topic_id: Uuid = since(default_factory=zero_uuid)
    partitions: Array[PartitionResult] = []


@struct
class DirectoryResult:
    """The outcomes for a directory."""

    id: Uuid = since(default_factory=zero_uuid)
    topics: Array[TopicResult] = []


@message(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsResponse(Message):
    """Outcomes by partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    directories: Array[DirectoryResult] = []
