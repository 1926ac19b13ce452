"""ShareAcknowledge (79): acknowledge records of a share group without acquiring more (KIP-932)."""

from kcli.protocol.messages.fetch import NodeEndpoint
from kcli.protocol.messages.share_fetch import AcknowledgementBatch, LeaderIdAndEpoch
from kcli.protocol.wire import *


@struct
class AcknowledgePartition:
    """A partition with records to acknowledge."""

    partition_index: Int32 = 0
    acknowledgement_batches: Array[AcknowledgementBatch] = []


@struct
class AcknowledgeTopic:
    """The partitions of a topic."""

    topic_id: Uuid = since(default_factory=zero_uuid)
    partitions: Array[AcknowledgePartition] = []


@message(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"]):
    """Acknowledge records. `share_session_epoch` -1 closes the session, which releases the remaining records."""

    group_id: NullableString = None
    member_id: NullableString = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Bool = since(2, default=False)
    topics: Array[AcknowledgeTopic] = []


@struct
class PartitionData:
    """The outcome of the acknowledgements of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    current_leader: LeaderIdAndEpoch = since(default_factory=LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse:
    """The partitions of a topic."""

    topic_id: Uuid = since(default_factory=zero_uuid)
    partitions: Array[PartitionData] = []


@message(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse(Message):
    """The outcome by partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32 = since(2, default=0, ignorable=True)
    responses: Array[ShareAcknowledgeTopicResponse] = []
    node_endpoints: Array[NodeEndpoint] = []
