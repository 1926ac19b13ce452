"""Checks that the handlers of delegation tokens share. Not a handler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.serving.request_context import ANONYMOUS, RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster.decide.parts import Parts

#: Before, a response cannot carry the requester of a token.
REQUESTER_SINCE_VERSION = 3


def check_client(parts: Broker | Parts, context: RequestContext) -> None:
    """Refuse a client without an identity of its own: on PLAINTEXT, without a certificate, or with a token (KIP-48)."""
    protocol = parts.protocol_of(context)
    if context.is_token or protocol == "PLAINTEXT" or (protocol == "SSL" and context.principal == ANONYMOUS):
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def split_principal(principal: str) -> tuple[str, str]:
    """Return type and name of a principal such as `User:alice`."""
    kind, _, name = principal.partition(":")
    return kind, name
