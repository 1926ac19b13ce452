"""DescribeDelegationToken (41), v1-3: the tokens of the client, and others that it may describe.

For a token of others, DESCRIBE on the token or DESCRIBE_TOKENS on its owner is needed. Deliberately missing: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.delegation_token_requests import REQUESTER_SINCE_VERSION, check_client, split_principal
from kcli.broker.security.delegation_tokens import DelegationToken
from kcli.broker.serving.request_context import RequestContext
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(
    broker: Broker, request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    """Return tokens with their HMACs. Null asks for all tokens, an empty list for none."""
    try:
        check_client(broker, context)
        broker.tokens.check_enabled()
    except BrokerError as error:
        return DescribeDelegationTokenResponse(error_code=error.code)
    owners = None
    if request.owners is not None:
        owners = [f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners]
    broker.tokens.remove_expired(context.now_wall_ms)
    visible = [token for token in broker.tokens if _is_visible(broker, token, owners, context)]
    return DescribeDelegationTokenResponse(tokens=[_row(broker, token, context.api_version) for token in visible])


def _is_visible(broker: Broker, token: DelegationToken, owners: list[str] | None, context: RequestContext) -> bool:
    if owners is not None and not any(token.concerns(owner) for owner in owners):
        return False
    allows = broker.authorizer.allows
    return (
        token.concerns(context.principal)
        or allows(context, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id)
        or allows(context, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _row(broker: Broker, token: DelegationToken, version: int) -> DescribedDelegationToken:
    row = DescribedDelegationToken(
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=broker.tokens.hmac(token),
    )
    row.principal_type, row.principal_name = split_principal(token.owner)
    if version >= REQUESTER_SINCE_VERSION:
        row.token_requester_principal_type, row.token_requester_principal_name = split_principal(token.requester)
    for renewer in token.renewers:
        kind, name = split_principal(renewer)
        row.renewers = [*row.renewers, DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)]
    return row
