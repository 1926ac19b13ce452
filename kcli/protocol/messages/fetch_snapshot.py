"""FetchSnapshot (59): a section of a snapshot of the metadata log (KIP-630)."""

from kcli.protocol.wire import *


@struct
class SnapshotId:
    """A snapshot: it stands for all records below `end_offset`; `epoch` is that of the last of them."""

    end_offset: Int64 = 0
    epoch: Int32 = 0


@struct
class PartitionSnapshotRequest:
    """The position in bytes from which to read a snapshot."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = 0
    snapshot_id: SnapshotId = since(default_factory=SnapshotId)
    position: Int64 = 0
    replica_directory_id: Uuid = since(1, default_factory=zero_uuid, tag=0, ignorable=True)


@struct
class TopicSnapshotRequest:
    """The topic of the metadata log."""

    name: String = ""
    partitions: Array[PartitionSnapshotRequest] = []


@message(key=59, versions="0-1", flexible="0+")
class FetchSnapshotRequest(Request["FetchSnapshotResponse"]):
    """Ask the leader of the metadata log for a section of a snapshot."""

    cluster_id: NullableString = since(default=None, tag=0)
    replica_id: Int32 = -1
    max_bytes: Int32 = 2147483647
    topics: Array[TopicSnapshotRequest] = []


@struct
class LeaderIdAndEpoch:
    """The leader to ask instead."""

    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class PartitionSnapshot:
    """A section of a snapshot of `size` bytes. The last batch in it may be partial."""

    index: Int32 = 0
    error_code: Int16 = 0
    snapshot_id: SnapshotId = since(default_factory=SnapshotId)
    current_leader: LeaderIdAndEpoch = since(default_factory=LeaderIdAndEpoch, tag=0)
    size: Int64 = 0
    position: Int64 = 0
    unaligned_records: Records = b""


@struct
class TopicSnapshot:
    """The topic of the metadata log."""

    name: String = ""
    partitions: Array[PartitionSnapshot] = []


@struct
class NodeEndpoint:
    """The address of the leader."""

    node_id: Int32 = since(1, default=0)
    host: String = since(1, default="")
    port: UInt16 = since(1, default=0)


@message(key=59, versions="0-1", flexible="0+")
class FetchSnapshotResponse(Message):
    """The section, or the error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: Array[TopicSnapshot] = []
    node_endpoints: Array[NodeEndpoint] = since(1, default=[], tag=0)
