"""AddPartitionsToTxn (24): add partitions to a transaction, or verify that they are in it (KIP-98, KIP-890)."""

from kcli.protocol.wire import *


@struct
class AddPartitionsToTxnTopic:
    """Partitions of a topic."""

    name: String = ""
    partitions: Array[Int32] = []


@struct
class AddPartitionsToTxnTransaction:
    """A transaction and its partitions. `verify_only`: add nothing, only check that the partitions are in it."""

    transactional_id: String = since(4, default="")
    producer_id: Int64 = since(4, default=0)
    producer_epoch: Int16 = since(4, default=0)
    verify_only: Bool = since(4, default=False)
    topics: Array[AddPartitionsToTxnTopic] = since(4, default=[])


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"]):
    """Up to v3 from a producer, with one transaction; from v4 from a broker, with several."""

    transactions: Array[AddPartitionsToTxnTransaction] = since(4, default=[])
    v3_and_below_transactional_id: String = since(until=3, default="")
    v3_and_below_producer_id: Int64 = since(until=3, default=0)
    v3_and_below_producer_epoch: Int16 = since(until=3, default=0)
    v3_and_below_topics: Array[AddPartitionsToTxnTopic] = since(until=3, default=[])


@struct
class AddPartitionsToTxnPartitionResult:
    """The outcome for a partition."""

    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


@struct
class AddPartitionsToTxnTopicResult:
    """The outcomes for the partitions of a topic."""

    name: String = ""
    results_by_partition: Array[AddPartitionsToTxnPartitionResult] = []


@struct
class AddPartitionsToTxnResult:
    """The outcomes for a transaction."""

    transactional_id: String = since(4, default="")
    topic_results: Array[AddPartitionsToTxnTopicResult] = since(4, default=[])


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Message):
    """Outcomes by transaction and partition. `error_code` is that of the whole request."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(4, default=0, ignorable=True)
    results_by_transaction: Array[AddPartitionsToTxnResult] = since(4, default=[])
    results_by_topic_v3_and_below: Array[AddPartitionsToTxnTopicResult] = since(until=3, default=[])
