"""Fetch (1): record batches of partitions, with incremental sessions (KIP-227)."""

from kcli.protocol.wire import *


@struct
class ReplicaState:
    """Id and epoch of a fetching replica; -1 for a consumer."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@struct
class FetchPartition:
    """The fetch offset in a partition, and the maximum size in bytes."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = since(9, default=-1, ignorable=True)
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = since(12, default=-1)
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    partition_max_bytes: Int32 = 0
    replica_directory_id: Uuid = since(17, default_factory=zero_uuid, tag=0, ignorable=True)
    high_watermark: Int64 = since(18, default=0x7FFF_FFFF_FFFF_FFFF, tag=1, ignorable=True)


@struct
class FetchTopic:
    """The partitions of a topic, named until v12, by id from v13."""

    topic: String = since(until=12, default="", ignorable=True)
    topic_id: Uuid = since(13, default_factory=zero_uuid, ignorable=True)
    partitions: Array[FetchPartition] = []


@struct
class ForgottenTopic:
    """Partitions that leave the fetch session."""

    topic: String = since(until=12, default="", ignorable=True)
    topic_id: Uuid = since(13, default_factory=zero_uuid, ignorable=True)
    partitions: Array[Int32] = []


@message(key=1, versions="4-18", flexible="12+")
class FetchRequest(Request["FetchResponse"]):
    """Ask a leader (or follower, v11) for records.

    v4 isolation level, v7 sessions (KIP-227), v9 the known leader epoch, v11 the client's rack (KIP-392), v12 the epoch
    of the last record read, v13 topic ids instead of names, v15 replica state, v18 high watermark (replicas only).
    """

    cluster_id: NullableString = since(12, default=None, tag=0, ignorable=True)
    replica_id: Int32 = since(until=14, default=-1)
    replica_state: ReplicaState = since(15, default_factory=ReplicaState, tag=1)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    isolation_level: Int8 = 0
    session_id: Int32 = since(7, default=0, ignorable=True)
    session_epoch: Int32 = since(7, default=-1, ignorable=True)
    topics: Array[FetchTopic] = []
    forgotten_topics_data: Array[ForgottenTopic] = since(7, default=[])
    rack_id: String = since(11, default="", ignorable=True)


@struct
class EpochEndOffset:
    """The largest common epoch of the client's and the leader's log, and its end offset; -1: no divergence."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class LeaderIdAndEpoch:
    """The leader to ask instead (KIP-951); -1: no change known."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class SnapshotId:
    """The snapshot to load first, for replicas."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction:
    """A producer whose records from `first_offset` to its abort marker are invisible under read_committed."""

    producer_id: Int64 = 0
    first_offset: Int64 = 0


@struct
class PartitionData:
    """The data of one partition: an error, its offset bounds, and its batches as stored in the log.

    The last batch may be partial; the first may begin before the fetch offset.
    """

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = since(12, default_factory=EpochEndOffset, tag=0)
    current_leader: LeaderIdAndEpoch = since(12, default_factory=LeaderIdAndEpoch, tag=1)
    snapshot_id: SnapshotId = since(12, default_factory=SnapshotId, tag=2)
    aborted_transactions: NullableArray[AbortedTransaction] = []
    preferred_read_replica: Int32 = since(11, default=-1)
    records: NullableRecords = None


@struct
class FetchableTopicResponse:
    """The partitions of a topic, named until v12, by id from v13."""

    topic: String = since(until=12, default="", ignorable=True)
    topic_id: Uuid = since(13, default_factory=zero_uuid, ignorable=True)
    partitions: Array[PartitionData] = []


@struct
class NodeEndpoint:
    """The address of a new leader."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None


@message(key=1, versions="4-18", flexible="12+")
class FetchResponse(Message):
    """Records by partition. v7 sessions, v12 diverged logs and new leaders, v13 topic ids, v16 addresses of leaders."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(7, default=0, ignorable=True)
    session_id: Int32 = since(7, default=0)
    responses: Array[FetchableTopicResponse] = []
    node_endpoints: Array[NodeEndpoint] = since(16, default=[], tag=0)
