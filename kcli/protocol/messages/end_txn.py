"""EndTxn (26): commit or abort a transaction (KIP-98, KIP-890)."""

from kcli.protocol.wire import *


@message(key=26, versions="0-5", flexible="3+")
class EndTxnRequest(Request["EndTxnResponse"]):
    """Ask the coordinator to end the transaction."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


@message(key=26, versions="0-5", flexible="3+")
class EndTxnResponse(Message):
    """The outcome; from v5 with the producer id and epoch of the next transaction (-1: after an error)."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = since(5, default=-1, ignorable=True)
    producer_epoch: Int16 = since(5, default=-1, ignorable=True)
