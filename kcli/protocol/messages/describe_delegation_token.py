"""DescribeDelegationToken (41): delegation tokens by owner (KIP-48, KIP-373)."""

from kcli.protocol.wire import *


@struct
class DescribeDelegationTokenOwner:
    """An owner of tokens."""

    principal_type: String = ""
    principal_name: String = ""


@message(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest(Request["DescribeDelegationTokenResponse"]):
    """Ask for the tokens of these owners; null: all tokens."""

    owners: NullableArray[DescribeDelegationTokenOwner] = []


@struct
class DescribedDelegationTokenRenewer:
    """A principal that may renew the token."""

    principal_type: String = ""
    principal_name: String = ""


@struct
class DescribedDelegationToken:
    """A token. Its HMAC is a secret. Times are in ms since the epoch."""

    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = since(3, default="")
    token_requester_principal_name: String = since(3, default="")
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    renewers: Array[DescribedDelegationTokenRenewer] = []


@message(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse(Message):
    """The tokens that the requester may see."""

    error_code: Int16 = 0
    tokens: Array[DescribedDelegationToken] = []
    throttle_time_ms: Int32 = 0
