"""CreateDelegationToken (38): a token with which clients authenticate for its owner (KIP-48, KIP-373)."""

from kcli.protocol.wire import *


@struct
class CreatableRenewers:
    """A principal that may renew the token."""

    principal_type: String = ""
    principal_name: String = ""


@message(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest(Request["CreateDelegationTokenResponse"]):
    """Create a token. v3: for another owner (null: the requester). `max_lifetime_ms` -1: the broker's limit."""

    owner_principal_type: NullableString = since(3, default="")
    owner_principal_name: NullableString = since(3, default="")
    renewers: Array[CreatableRenewers] = []
    max_lifetime_ms: Int64 = 0


@message(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse(Message):
    """The token: its id is a user name and its HMAC a secret. Times are in ms since the epoch."""

    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = since(3, default="")
    token_requester_principal_name: String = since(3, default="")
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0
