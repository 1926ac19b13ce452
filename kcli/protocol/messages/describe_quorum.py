"""DescribeQuorum (55): the state of the metadata quorum (KIP-595, KIP-853)."""

from kcli.protocol.wire import *


@struct
class PartitionRequest:
    """A partition, always 0."""

    partition_index: Int32 = 0


@struct
class TopicRequest:
    """The topic of the metadata log."""

    topic_name: String = ""
    partitions: Array[PartitionRequest] = []


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest(Request["DescribeQuorumResponse"]):
    """Ask for the state of the quorum."""

    topics: Array[TopicRequest] = []


@struct
class ReplicaState:
    """A voter or observer: its log end offset, and the wall-clock times of its last fetch and of being caught up."""

    replica_id: Int32 = 0
    replica_directory_id: Uuid = since(2, default_factory=zero_uuid)
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Int64 = since(1, default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = since(1, default=-1, ignorable=True)


@struct
class PartitionResult:
    """The leader, its epoch, the high watermark, and the replicas of the metadata log."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = since(2, default="", ignorable=True)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: Array[ReplicaState] = []
    observers: Array[ReplicaState] = []


@struct
class TopicResult:
    """The partitions of the metadata log."""

    topic_name: String = ""
    partitions: Array[PartitionResult] = []


@struct
class Listener:
    """A listener of a controller."""

    name: String = since(2, default="")
    host: String = since(2, default="")
    port: UInt16 = since(2, default=0)


@struct
class Node:
    """A controller and its listeners."""

    node_id: Int32 = since(2, default=0)
    listeners: Array[Listener] = since(2, default=[])


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse(Message):
    """The state of the quorum."""

    error_code: Int16 = 0
    error_message: NullableString = since(2, default="", ignorable=True)
    topics: Array[TopicResult] = []
    nodes: Array[Node] = since(2, default=[])
