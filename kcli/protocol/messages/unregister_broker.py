"""UnregisterBroker (64): remove the registration of a broker that will not come back (KIP-631)."""

from kcli.protocol.wire import *


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"]):
    """Ask the controller to remove a broker."""

    broker_id: Int32 = 0


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse(Message):
    """The outcome."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
