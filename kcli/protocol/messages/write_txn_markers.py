"""WriteTxnMarkers (27): the coordinator has markers written that end transactions (KIP-98)."""

from kcli.protocol.wire import *


@struct
class WritableTxnMarkerTopic:
    """Partitions of a topic."""

    name: String = ""
    partition_indexes: Array[Int32] = []


@struct
class WritableTxnMarker:
    """The end of a transaction. `transaction_result`: true commit. v2: the transaction version (KIP-890)."""

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False
    topics: Array[WritableTxnMarkerTopic] = []
    coordinator_epoch: Int32 = 0
    transaction_version: Int8 = since(2, default=0, ignorable=True)


@message(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"]):
    """Ask the leader to append markers to these partitions."""

    markers: Array[WritableTxnMarker] = []


@struct
class WritableTxnMarkerPartitionResult:
    """The outcome for a partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class WritableTxnMarkerTopicResult:
    """The outcomes for the partitions of a topic."""

    name: String = ""
    partitions: Array[WritableTxnMarkerPartitionResult] = []


@struct
class WritableTxnMarkerResult:
    """The outcomes for a producer."""

    producer_id: Int64 = 0
    topics: Array[WritableTxnMarkerTopicResult] = []


@message(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse(Message):
    """Outcomes by producer and partition."""

    markers: Array[WritableTxnMarkerResult] = []
