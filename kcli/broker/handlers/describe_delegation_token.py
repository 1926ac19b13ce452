"""DescribeDelegationToken (41), v1-3: the tokens of the client, and others that it may describe.

For a token of others, DESCRIBE on the token or DESCRIBE_TOKENS on its owner is needed. Deliberately missing: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.delegation_token_requests import REQUESTER_SINCE_VERSION, check_client, split_principal
from kcli.broker.security.delegation_tokens import concerns
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
    from kcli.protocol.metadata_records import DelegationTokenRecord


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
    current = broker.tokens.current(context.now_wall_ms)
    visible = [token for token in current if _is_visible(broker, token, owners, context)]
    return DescribeDelegationTokenResponse(tokens=[_row(broker, token, context.api_version) for token in visible])


def _is_visible(
    broker: Broker, token: DelegationTokenRecord, owners: list[str] | None, context: RequestContext
) -> bool:
    if owners is not None and not any(concerns(token, owner) for owner in owners):
        return False
    allows = broker.authorizer.allows
    return (
        concerns(token, context.principal)
        or allows(context, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or allows(context, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _row(broker: Broker, token: DelegationTokenRecord, version: int) -> DescribedDelegationToken:
    row = DescribedDelegationToken(
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=broker.tokens.hmac(token.token_id),
    )
    row.principal_type, row.principal_name = split_principal(token.owner)
    if version >= REQUESTER_SINCE_VERSION:
        row.token_requester_principal_type, row.token_requester_principal_name = split_principal(token.requester)
    for renewer in token.renewers:
        kind, name = split_principal(renewer)
        row.renewers = [*row.renewers, DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)]
    return row
