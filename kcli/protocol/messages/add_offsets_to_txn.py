"""AddOffsetsToTxn (25): add the offsets of a group to a transaction (KIP-98)."""

from kcli.protocol.wire import *


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"]):
    """Ask the coordinator to add the group's partition of __consumer_offsets. Used before transaction version 2."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(Message):
    """The outcome."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
