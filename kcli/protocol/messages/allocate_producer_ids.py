"""AllocateProducerIds (67): reserve a block of producer ids for a broker (KIP-730)."""

from kcli.protocol.wire import *


@message(key=67, versions="0", flexible="0+")
class AllocateProducerIdsRequest(Request["AllocateProducerIdsResponse"]):
    """Ask the controller for a block."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


@message(key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse(Message):
    """The block: its first id and its length."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0
