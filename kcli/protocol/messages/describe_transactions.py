"""DescribeTransactions (65): the state of transactional ids, with age and partitions of open transactions (KIP-664)."""

from kcli.protocol.wire import *


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"]):
    """Ask the coordinator about these transactional ids; without ids the response is empty."""

    transactional_ids: Array[String] = []


@struct
class TopicData:
    """Partitions of a topic that the transaction has written to."""

    topic: String = ""
    partitions: Array[Int32] = []


@struct
class TransactionState:
    """A transactional id. Times in ms; start -1: none is open. During the end, `topics` are those without a marker."""

    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: Array[TopicData] = []


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse(Message):
    """The states by transactional id."""

    throttle_time_ms: Int32 = 0
    transaction_states: Array[TransactionState] = []
