"""RenewDelegationToken (39): a later expiry of a delegation token (KIP-48)."""

from kcli.protocol.wire import *


@message(key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest(Request["RenewDelegationTokenResponse"]):
    """Renew the token with this HMAC for a period; -1: the broker's limit."""

    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


@message(key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenResponse(Message):
    """The new expiry, in ms since the epoch."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
