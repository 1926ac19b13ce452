"""CreateDelegationToken (38), v1-3: issue a token. For another owner (v3), CREATE_TOKENS on that user is needed.

Deliberately missing: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.delegation_token_requests import (
    NO_TIME,
    REQUESTER_SINCE_VERSION,
    check_client,
    split_principal,
)
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.parts import Parts


def handle(
    parts: Parts, request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    """Return the new token with its HMAC, which clients use as password."""
    requester = owner = context.principal
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    response = CreateDelegationTokenResponse()
    response.principal_type, response.principal_name = split_principal(owner)
    if context.api_version >= REQUESTER_SINCE_VERSION:
        response.token_requester_principal_type, response.token_requester_principal_name = split_principal(requester)
    try:
        check_client(parts, context)
        if owner != requester and not parts.authorizer.allows(
            context, AclOperation.CREATE_TOKENS, ResourceType.USER, owner
        ):
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if any(renewer.principal_type != "User" for renewer in request.renewers):
            raise BrokerError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        renewers = [f"{one.principal_type}:{one.principal_name}" for one in request.renewers]
        parts.tokens.remove_expired(context.now_wall_ms)
        token = parts.tokens.create(owner, requester, renewers, request.max_lifetime_ms, context.now_wall_ms)
    except BrokerError as error:
        response.error_code = error.code
        response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = NO_TIME
        return response
    response.issue_timestamp_ms, response.max_timestamp_ms = token.issued_ms, token.max_ms
    response.expiry_timestamp_ms = token.expires_ms
    response.token_id, response.hmac = token.id, parts.tokens.hmac(token)
    return response
