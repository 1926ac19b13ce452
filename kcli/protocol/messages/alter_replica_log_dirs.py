"""AlterReplicaLogDirs (34): move replicas to another log directory of the broker (KIP-113)."""

from kcli.protocol.wire import *


@struct
class AlterReplicaLogDirTopic:
    """Partitions of a topic."""

    name: String = ""
    partitions: Array[Int32] = []


@struct
class AlterReplicaLogDir:
    """A directory, and the partitions to move there."""

    path: String = ""
    topics: Array[AlterReplicaLogDirTopic] = []


@message(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest(Request["AlterReplicaLogDirsResponse"]):
    """Ask a broker to move its replicas."""

    dirs: Array[AlterReplicaLogDir] = []


@struct
class AlterReplicaLogDirPartitionResult:
    """The outcome for a partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class AlterReplicaLogDirTopicResult:
    """The outcomes for the partitions of a topic."""

    topic_name: String = ""
    partitions: Array[AlterReplicaLogDirPartitionResult] = []


@message(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse(Message):
    """Outcomes by partition."""

    throttle_time_ms: Int32 = 0
    results: Array[AlterReplicaLogDirTopicResult] = []
