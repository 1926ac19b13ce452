"""ExpireDelegationToken (40): an earlier expiry of a delegation token (KIP-48)."""

from kcli.protocol.wire import *


@message(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest(Request["ExpireDelegationTokenResponse"]):
    """Let the token with this HMAC expire after a period; -1: now."""

    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0


@message(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse(Message):
    """The new expiry, in ms since the epoch."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
