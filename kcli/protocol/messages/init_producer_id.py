"""InitProducerId (22): a producer id for idempotent or transactional writing (KIP-98)."""

from kcli.protocol.wire import *


@message(key=22, versions="0-5", flexible="2+")
class InitProducerIdRequest(Request["InitProducerIdResponse"]):
    """Ask for a producer id, or (v3) for a new epoch of the current one. A null transactional id: idempotence only."""

    transactional_id: NullableString = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)


@message(key=22, versions="0-5", flexible="2+")
class InitProducerIdResponse(Message):
    """The producer id and its epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
