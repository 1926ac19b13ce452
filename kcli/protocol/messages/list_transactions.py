"""ListTransactions (66): the transactional ids that one broker coordinates (KIP-664, KIP-994, KIP-1152)."""

from kcli.protocol.wire import *


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest(Request["ListTransactionsResponse"]):
    """Ask for transactions; an empty filter matches all. v1 adds a minimum duration in ms (-1: all), v2 a pattern."""

    state_filters: Array[String] = []
    producer_id_filters: Array[Int64] = []
    duration_filter: Int64 = since(1, default=-1)
    transactional_id_pattern: NullableString = since(2, default=None)


@struct
class TransactionState:
    """A transactional id with its producer id and state ("Ongoing", "Empty", ...)."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse(Message):
    """The transactions, and the requested states that the broker does not know."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: Array[String] = []
    transaction_states: Array[TransactionState] = []
