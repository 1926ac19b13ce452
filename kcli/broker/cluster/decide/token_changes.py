"""CreateDelegationToken (38), v1-3, RenewDelegationToken (39) and ExpireDelegationToken (40), v1-2 (KIP-48, KIP-373).

For another owner (v3), CREATE_TOKENS on that user is needed. Owner, requester and renewers may let a token expire later
or earlier. Sessions that were authenticated with a token live until their end, as in Apache Kafka. The rules are those
of its DelegationTokenControlManager. Deliberately missing: nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kcli.broker.data_dir import random_uuid, uuid_text
from kcli.broker.handlers.delegation_token_requests import REQUESTER_SINCE_VERSION, check_client, split_principal
from kcli.broker.security.delegation_tokens import DelegationTokens, concerns
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kcli.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kcli.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from kcli.protocol.metadata_records import DelegationTokenRecord, RemoveDelegationTokenRecord

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.parts import Parts

# In the place of a time in the response to a client that is refused.
_NO_TIME = -1

R = TypeVar("R", RenewDelegationTokenResponse, ExpireDelegationTokenResponse)


def create(
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
    tokens = DelegationTokens(parts.draft.image, parts.settings)
    try:
        check_client(parts, context)
        if owner != requester and not parts.authorizer.allows(
            context, AclOperation.CREATE_TOKENS, ResourceType.USER, owner
        ):
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if any(renewer.principal_type != "User" for renewer in request.renewers):
            raise BrokerError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        _remove_expired(parts, context.now_wall_ms)
        tokens.check_enabled()
    except BrokerError as error:
        response.error_code = error.code
        response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = _NO_TIME
        return response
    now_ms, settings = context.now_wall_ms, parts.settings
    token = DelegationTokenRecord(
        owner=owner,
        requester=requester,
        renewers=[f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers],
        issue_timestamp=now_ms,
        max_timestamp=now_ms + _bounded(request.max_lifetime_ms, settings.delegation_token_max_lifetime_ms),
        token_id=uuid_text(random_uuid()),
    )
    token.expiration_timestamp = min(token.max_timestamp, now_ms + settings.delegation_token_expiry_time_ms)
    parts.draft.write(token)
    response.issue_timestamp_ms, response.max_timestamp_ms = token.issue_timestamp, token.max_timestamp
    response.expiry_timestamp_ms = token.expiration_timestamp
    response.token_id, response.hmac = token.token_id, tokens.hmac(token.token_id)
    return response


def renew(parts: Parts, request: RenewDelegationTokenRequest, context: RequestContext) -> RenewDelegationTokenResponse:
    """Return the later expiry, at most the end of the token's lifetime."""
    now_ms = context.now_wall_ms

    def change(token: DelegationTokenRecord) -> int:
        _check_current(token, now_ms)
        _check_concerned(token, context.principal)
        period_ms = _bounded(request.renew_period_ms, parts.settings.delegation_token_expiry_time_ms)
        return _expire_at(parts, token, now_ms + period_ms)

    return _changed(parts, context, RenewDelegationTokenResponse(), bytes(request.hmac), change)


def expire(
    parts: Parts, request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    """Return the earlier expiry; a negative period removes the token at once."""
    now_ms = context.now_wall_ms

    def change(token: DelegationTokenRecord) -> int:
        _check_concerned(token, context.principal)
        if request.expiry_time_period_ms < 0:
            parts.draft.write(RemoveDelegationTokenRecord(token_id=token.token_id))
            return now_ms
        _check_current(token, now_ms)
        return _expire_at(parts, token, now_ms + request.expiry_time_period_ms)

    return _changed(parts, context, ExpireDelegationTokenResponse(), bytes(request.hmac), change)


def _changed(
    parts: Parts, context: RequestContext, response: R, hmac: bytes, change: Callable[[DelegationTokenRecord], int]
) -> R:
    """Return the response with the expiry of the token with this HMAC after a change, or with the error."""
    try:
        check_client(parts, context)
    except BrokerError as error:
        response.error_code, response.expiry_timestamp_ms = error.code, _NO_TIME
        return response
    try:
        response.expiry_timestamp_ms = change(DelegationTokens(parts.draft.image, parts.settings).find(hmac))
    except BrokerError as error:
        response.error_code = error.code
    return response


def _expire_at(parts: Parts, token: DelegationTokenRecord, expires_ms: int) -> int:
    expires_ms = min(token.max_timestamp, expires_ms)
    if expires_ms != token.expiration_timestamp:
        parts.draft.write(DelegationTokenRecord(**{**vars(token), "expiration_timestamp": expires_ms}))
    return expires_ms


def _remove_expired(parts: Parts, now_ms: int) -> None:
    for token in list(parts.draft.image.tokens.values()):
        if token.expiration_timestamp < now_ms:
            parts.draft.write(RemoveDelegationTokenRecord(token_id=token.token_id))


def _bounded(period_ms: int, largest_ms: int) -> int:
    """Return the period; one of 0 or less means the largest one that the broker allows."""
    return min(period_ms, largest_ms) if period_ms > 0 else largest_ms


def _check_current(token: DelegationTokenRecord, now_ms: int) -> None:
    if min(token.max_timestamp, token.expiration_timestamp) < now_ms:
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _check_concerned(token: DelegationTokenRecord, principal: str) -> None:
    if not concerns(token, principal):
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
