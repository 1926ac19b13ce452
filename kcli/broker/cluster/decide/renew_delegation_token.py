"""RenewDelegationToken (39), v1-2: a later expiry of a token, for its owner, its requester and its renewers.

Deliberately missing: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.delegation_token_requests import NO_TIME, check_client
from kcli.broker.serving.request_context import RequestContext
from kcli.errors import BrokerError
from kcli.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.parts import Parts


def handle(parts: Parts, request: RenewDelegationTokenRequest, context: RequestContext) -> RenewDelegationTokenResponse:
    """Return the new expiry, at most the end of the token's lifetime."""
    try:
        check_client(parts, context)
    except BrokerError as error:
        return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIME)
    try:
        hmac, period_ms = bytes(request.hmac), request.renew_period_ms
        expires_ms = parts.tokens.renew(hmac, context.principal, period_ms, context.now_wall_ms)
    except BrokerError as error:
        return RenewDelegationTokenResponse(error_code=error.code)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
