"""Envelope (58): a request that a broker forwards to the controller for its client (KIP-590)."""

from kcli.errors import ProtocolError
from kcli.protocol.codec import decode_struct, encode_struct
from kcli.protocol.primitives import Buffer
from kcli.protocol.wire import *


@message(key=58, versions="0", flexible="0+")
class EnvelopeRequest(Request["EnvelopeResponse"]):
    """A client's request, header and body, with the client's principal and address.

    The principal is serialized as Kafka's DefaultPrincipalData.
    """

    request_data: Bytes = b""
    request_principal: NullableBytes = b""
    client_host_address: Bytes = b""


@message(key=58, versions="0", flexible="0+")
class EnvelopeResponse(Message):
    """The response to the client, header and body, or the error of the envelope."""

    response_data: NullableBytes = None
    error_code: Int16 = 0


@struct
class PrincipalData:
    """The principal of a forwarded request: its type, such as User, and name; true if a token authenticated it."""

    type: String = ""
    name: String = ""
    token_authenticated: Bool = False


def encode_principal(principal: PrincipalData) -> bytes:
    """Encode a principal for an envelope, version 0."""
    return encode_struct(principal, 0, flexible=True, prefix=b"\0\0")


def decode_principal(data: Buffer) -> PrincipalData:
    """Decode the principal of an envelope. ProtocolError if it is malformed or of another version."""
    if bytes(data[:2]) != b"\0\0":
        raise ProtocolError("the principal of an envelope does not begin with version 0")
    return decode_struct(PrincipalData, data, 0, flexible=True, offset=2)
