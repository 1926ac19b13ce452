"""SaslAuthenticate (36): one step of a SASL exchange (KIP-152)."""

from kcli.protocol.wire import *


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"]):
    """The client's next token."""

    auth_bytes: Bytes = b""


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    """The broker's next token, or an error. v1 adds the session lifetime in ms (KIP-368); 0: unlimited."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Int64 = since(1, default=0, ignorable=True)
