"""ExpireDelegationToken (40), v1-2: an earlier expiry of a token, for its owner, its requester and its renewers.

Deliberately missing: nothing. Sessions that were authenticated with the token live until their end, as in Apache Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.delegation_token_requests import NO_TIME, check_client
from kcli.broker.serving.request_context import RequestContext
from kcli.errors import BrokerError
from kcli.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.parts import Parts


def handle(
    parts: Parts, request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    """Return the new expiry; a negative period removes the token at once."""
    try:
        check_client(parts, context)
    except BrokerError as error:
        return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIME)
    try:
        hmac, period_ms = bytes(request.hmac), request.expiry_time_period_ms
        expires_ms = parts.tokens.expire(hmac, context.principal, period_ms, context.now_wall_ms)
    except BrokerError as error:
        return ExpireDelegationTokenResponse(error_code=error.code)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
