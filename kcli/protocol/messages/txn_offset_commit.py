"""TxnOffsetCommit (28): commit offsets of a group within a transaction (KIP-98, KIP-447)."""

from kcli.protocol.wire import *


@struct
class TxnOffsetCommitRequestPartition:
    """The offset to commit for a partition."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(2, default=-1, ignorable=True)
    committed_metadata: NullableString = ""


@struct
class TxnOffsetCommitRequestTopic:
    """Partitions of a topic."""

    name: String = ""
    partitions: Array[TxnOffsetCommitRequestPartition] = []


@message(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"]):
    """Offsets that become valid with the commit of the transaction.

    v3 has the member of the group that commits (generation -1: none). v5: the partition is added implicitly (KIP-890).
    """

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Int32 = since(3, default=-1)
    member_id: String = since(3, default="")
    group_instance_id: NullableString = since(3, default=None)
    topics: Array[TxnOffsetCommitRequestTopic] = []


@struct
class TxnOffsetCommitResponsePartition:
    """The outcome for a partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class TxnOffsetCommitResponseTopic:
    """The outcomes for the partitions of a topic."""

    name: String = ""
    partitions: Array[TxnOffsetCommitResponsePartition] = []


@message(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse(Message):
    """Outcomes by partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[TxnOffsetCommitResponseTopic] = []
