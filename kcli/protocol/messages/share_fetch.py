"""ShareFetch (78): acquire records for a member of a share group, and acknowledge earlier ones (KIP-932)."""

from kcli.protocol.messages.fetch import NodeEndpoint
from kcli.protocol.wire import *


@struct
class AcknowledgementBatch:
    """Offsets from first to last with one type for all, or a type for each: 0 gap, 1 accept, 2 release, 3 reject."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: Array[Int8] = []


@struct
class FetchPartition:
    """A partition that joins the share session, or of which records are acknowledged."""

    partition_index: Int32 = 0
    acknowledgement_batches: Array[AcknowledgementBatch] = []


@struct
class FetchTopic:
    """The partitions of a topic."""

    topic_id: Uuid = since(default_factory=zero_uuid)
    partitions: Array[FetchPartition] = []


@struct
class ForgottenTopic:
    """Partitions that leave the share session."""

    topic_id: Uuid = since(default_factory=zero_uuid)
    partitions: Array[Int32] = []


@message(key=78, versions="1-2", flexible="0+")
class ShareFetchRequest(Request["ShareFetchResponse"]):
    """Acquire records. `share_session_epoch`: 0 opens a session, -1 closes it, each request increments it.

    v2: `share_acquire_mode` 1 makes `max_records` a strict limit (KIP-1206); 0 aligns it with batches.
    """

    group_id: NullableString = None
    member_id: NullableString = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Int8 = since(2, default=0, ignorable=True)
    is_renew_ack: Bool = since(2, default=False)
    topics: Array[FetchTopic] = []
    forgotten_topics_data: Array[ForgottenTopic] = []


@struct
class LeaderIdAndEpoch:
    """The leader to ask instead; -1: unknown."""

    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class AcquiredRecords:
    """Offsets from first to last that the member holds, and how often they were delivered, this time included."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


@struct
class PartitionData:
    """The outcome of the fetch and of the acknowledgements of one partition.

    `records` are whole batches of the log, of which only the acquired offsets belong to the member.
    """

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: NullableString = None
    current_leader: LeaderIdAndEpoch = since(default_factory=LeaderIdAndEpoch)
    records: Records = since(default=None)
    acquired_records: Array[AcquiredRecords] = []


@struct
class ShareFetchableTopicResponse:
    """The partitions of a topic."""

    topic_id: Uuid = since(default_factory=zero_uuid)
    partitions: Array[PartitionData] = []


@message(key=78, versions="1-2", flexible="0+")
class ShareFetchResponse(Message):
    """Acquired records by partition; their locks end after `acquisition_lock_timeout_ms`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: Array[ShareFetchableTopicResponse] = []
    node_endpoints: Array[NodeEndpoint] = []
